"""Every setting of the server that an analyst may set, with values to set it to."""

from __future__ import annotations

from dataclasses import dataclass

from .statements_world import Connection

__all__ = ["Setting", "read_settings"]


@dataclass(frozen=True)
class Setting:
    name: str
    kind: str
    values: tuple[str, ...]

    @property
    def plans(self) -> bool:
        """Whether it is about plans or memory."""
        return self.name.startswith(("enable_", "work_mem", "hash_mem", "jit", "join_", "from_",
                                     "geqo", "cursor_", "force_parallel", "debug_parallel",
                                     "constraint_ex"))

    @property
    def joins(self) -> bool:
        """Whether it is a way to join, sort or group."""
        return self.name in ("enable_sort", "enable_hashjoin", "enable_mergejoin",
                             "enable_nestloop", "enable_hashagg")


#: Left alone: what the search itself sets, what would end a session rather than show something, and what makes PostgreSQL's own planner
#: fail on any join (a genetic pool of 34 GB: XX000).
_NOT_SET = frozenset((
    "statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout",
    "idle_session_timeout", "tcp_user_timeout", "tcp_keepalives_idle", "tcp_keepalives_interval",
    "tcp_keepalives_count", "client_connection_check_interval", "exit_on_error",
    "transaction_read_only", "transaction_isolation", "transaction_deferrable", "search_path",
    "role", "session_authorization", "privid.epsilon", "privid.reuse", "privid.raw",
    "privid.allowance", "post_auth_delay", "pre_auth_delay", "client_encoding", "seed",
    "plan_cache_mode", "application_name", "gin_fuzzy_search_limit", "client_min_messages", "geqo_pool_size"))

_TEXTS = {"DateStyle": ("ISO, DMY", "German", "SQL, MDY", "Postgres, YMD"),
          "IntervalStyle": ("iso_8601", "sql_standard"),
          "TimeZone": ("UTC", "Asia/Kathmandu", "America/St_Johns", "+14"),
          "lc_numeric": ("C", "C.UTF-8"), "lc_monetary": ("C",), "lc_time": ("C", "C.UTF-8"),
          "default_tablespace": ("", "pg_default"), "timezone_abbreviations": ("Default", "India"),
          "default_table_access_method": ("heap",), "temp_tablespaces": ("",)}


def read_settings(connection: Connection) -> list[Setting]:
    rows = connection.execute("""
        SELECT name, vartype, min_val, max_val, enumvals, boot_val FROM pg_settings
        WHERE context = 'user' ORDER BY name""").fetchall()
    found = [Setting(row[0], row[1], _values(*row)) for row in rows if row[0] not in _NOT_SET]
    return [setting for setting in found if setting.values]


def _values(name: str, kind: str, low: str | None, high: str | None, several: list[str] | None,
            boot: str | None) -> tuple[str, ...]:
    """Its ends, what it is by itself, and some between."""
    match kind:
        case "bool":
            return ("on", "off")
        case "enum":
            return tuple(several or ())
        case "string":
            return _TEXTS.get(name, ())
    if low is None or high is None:
        return ()
    between = [n for n in (0, 1, 2, 10, 64, 100, 1000) if float(low) <= n <= float(high)]
    return tuple(dict.fromkeys((low, high, boot or low, *map(str, between))))
