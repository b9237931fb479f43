"""The settings of the room's server and of every session there. Nothing is left to changing defaults."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from .premises import Room

__all__ = ["HASH_FACTOR", "SESSION", "SORT_MEMORY", "memory_settings", "request_settings", "server_settings"]

#: bytes that are sorted at once, and how many times as much a hash table may have; the bounds rely on both (premises.py)
SORT_MEMORY, HASH_FACTOR = 256 * 1024, 512

#: Every session starts with these: every release is planned and read the same way.
SESSION: Mapping[str, str] = {
    "search_path": "",  # every name in the room's statements is qualified
    "client_min_messages": "error",
    "standard_conforming_strings": "on",
    "default_transaction_isolation": "read committed",
    # a session whose client is gone ends in the middle of its statement
    "client_connection_check_interval": "100ms",
    # how values are written; a request may choose otherwise (request_settings)
    "TimeZone": "UTC",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "timezone_abbreviations": "Default",
    "lc_messages": "C",
    "lc_monetary": "C",
    "lc_numeric": "C",
    "lc_time": "C",
    # Memory of one step of a plan: a hash table may have 128 MB, or what a join needs (memory_settings). What is sorted at once is
    # little, because a program can put rows into an order for which PostgreSQL's quicksort takes quadratic time.
    "work_mem": f"{SORT_MEMORY // 1024}kB",
    "hash_mem_multiplier": str(HASH_FACTOR),
    "maintenance_work_mem": "64MB",
    "temp_buffers": "32MB",
    # the planner
    **dict.fromkeys((
        "enable_bitmapscan", "enable_hashagg", "enable_hashjoin", "enable_indexonlyscan",
        "enable_indexscan", "enable_material", "enable_partition_pruning",
        "enable_seqscan", "enable_tidscan", "geqo"), "on"),
    # hash tables, whose functions have a key (keyed.sql), wherever PostgreSQL can: premises.py relies on it
    **dict.fromkeys((
        "enable_incremental_sort", "enable_memoize", "enable_mergejoin", "enable_nestloop", "enable_sort"), "off"),
    **dict.fromkeys((
        "enable_async_append", "enable_gathermerge", "enable_parallel_append",
        "enable_parallel_hash", "enable_partitionwise_aggregate", "enable_partitionwise_join",
        "jit"), "off"),
    **dict.fromkeys((
        "max_parallel_workers", "max_parallel_workers_per_gather",
        "max_parallel_maintenance_workers"), "0"),
    # on, it compares every condition with every other, for each part of a UNION ALL
    "constraint_exclusion": "off",
    "cpu_index_tuple_cost": "0.005",
    "cpu_operator_cost": "0.0025",
    "cpu_tuple_cost": "0.01",
    "cursor_tuple_fraction": "0.1",
    "default_statistics_target": "100",
    "effective_cache_size": "4GB",
    "effective_io_concurrency": "1",
    "from_collapse_limit": "8",
    "geqo_effort": "5",
    "geqo_generations": "0",
    "geqo_pool_size": "0",
    "geqo_seed": "0",
    "geqo_selection_bias": "2",
    "geqo_threshold": "12",
    "jit_above_cost": "-1",
    "jit_inline_above_cost": "-1",
    "jit_optimize_above_cost": "-1",
    "join_collapse_limit": "8",
    "min_parallel_index_scan_size": "512kB",
    "min_parallel_table_scan_size": "8MB",
    "parallel_setup_cost": "1000",
    "parallel_tuple_cost": "0.1",
    "plan_cache_mode": "auto",
    "random_page_cost": "4",
    "recursive_worktable_factor": "10",
    "seq_page_cost": "1",
}

#: settings of an analyst's session on which the text form of a value depends, by name in lower case
_REQUEST = {name.lower(): name for name in (
    "TimeZone", "DateStyle", "IntervalStyle", "extra_float_digits", "lc_time", "lc_numeric",
    "lc_monetary", "bytea_output", "timezone_abbreviations")}


def request_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Those settings of a request that a session of the room takes over."""
    return {_REQUEST[name.lower()]: value for name, value in settings.items()
            if name.lower() in _REQUEST}


def memory_settings(room: Room) -> dict[str, str]:
    """Those by which a statement's steps have the memory that its bound relies on."""
    return {"work_mem": f"{room.sort_memory // 1024}kB", "hash_mem_multiplier": str(room.hash_memory // room.sort_memory)}


def server_settings(library: Path, engine_socket: str, connections: int) -> dict[str, str]:
    """The server's own settings, given on its command line: no file is written for them."""
    return {
        # reachable by a socket in its data directory, which is closed to all but its user
        "listen_addresses": "",
        "unix_socket_directories": ".",
        "unix_socket_permissions": "0700",
        "port": "5432",
        "max_connections": str(connections),
        "superuser_reserved_connections": "0",
        "cluster_name": "privid room",
        # the library that is made for this server, which alone knows what a foreign table of the room reads
        "shared_preload_libraries": '"' + str(library).replace('"', '""') + '"',
        "privid.socket": engine_socket,
        # nothing needs to last
        "fsync": "off",
        "full_page_writes": "off",
        "synchronous_commit": "off",
        "wal_level": "minimal",
        "max_wal_senders": "0",
        "min_wal_size": "2MB",
        "max_wal_size": "64MB",
        "checkpoint_timeout": "1h",
        "bgwriter_lru_maxpages": "0",
        # one failed process makes a fresh room, not a recovered one
        "restart_after_crash": "off",
        # small; and what a killed server leaves is in its directory
        "shared_buffers": "16MB",
        "huge_pages": "off",
        "dynamic_shared_memory_type": "mmap",
        "max_worker_processes": "0",
        "max_logical_replication_workers": "0",
        "max_parallel_workers": "0",
        "jit": "off",
        # the catalogs of a room that is much used are kept small
        "autovacuum_max_workers": "1",
        "autovacuum_naptime": "10s",
        "max_stack_depth": "2MB",
        "temp_file_limit": "32GB",
        # values are never logged, nor shown
        "log_destination": "stderr",
        "logging_collector": "off",
        "log_min_messages": "fatal",
        "log_min_error_statement": "panic",
        "log_checkpoints": "off",
        "log_autovacuum_min_duration": "-1",
        "log_timezone": "UTC",
        "track_activities": "off",
        "update_process_title": "off",
        "timezone": "UTC",
    }
