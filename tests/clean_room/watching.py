"""A second session of an analyst that looks, again and again, at everything it may: the views and
functions of pg_catalog and of privid.

What there is to look at comes from the catalog. What is left out is named here, with the reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import psycopg

from .comparing import State
from .pair import Connection, alongside

__all__ = ["LEFT_OUT", "PERIOD", "Sight", "Watcher", "batches", "sights"]

#: a look every 20 ms
PERIOD = 0.02

LEFT_OUT = {
    # they change something, so that looking would not be looking
    "pg_advisory_unlock_all": "releases locks",
    "pg_current_xact_id": "assigns a transaction id",
    "txid_current": "assigns a transaction id",
    "pg_export_snapshot": "writes a file",
    "pg_rotate_logfile_old": "rotates a log",
    "pg_stat_clear_snapshot": "drops what the session has read",
    "pg_stat_force_next_flush": "flushes statistics",
    "pg_stop_making_pinned_objects": "changes the catalog",
    # they show the clock or chance, of the looking session alone
    "clock_timestamp": "the clock",
    "now": "the clock",
    "statement_timestamp": "the clock",
    "transaction_timestamp": "the clock",
    "timeofday": "the clock",
    "pg_stat_get_snapshot_timestamp": "the clock",
    "gen_random_uuid": "chance",
    "random": "chance",
    # what the analyst has uploaded himself, which is what differs between the sides
    "executables": "the program",
    "read_executables": "the program",
    # they cannot be called by a statement
    "plpgsql_call_handler": "called by PostgreSQL alone",
    # they read the files of the time zones of the machine, 1,200 of them, which takes a second
    "pg_timezone_names": "files of the machine",
}

#: what changes as statements run
LIVE = (
    "pg_stat_activity",
    "pg_locks",
    "pg_stat_database",
    "pg_stat_wal",
    "pg_stat_bgwriter",
    "pg_stat_slru",
    "pg_stat_progress_copy",
    "pg_stat_progress_analyze",
    "pg_current_wal_insert_lsn",
    "pg_current_snapshot",
    "pg_notification_queue_usage",
    "progress",
)

_ENUMERATE = """
    SELECT n.nspname, c.relname,
           CASE WHEN c.relname = 'releases'
                THEN 'SELECT * FROM privid.releases ORDER BY id DESC LIMIT 2'
                ELSE format('SELECT * FROM %I.%I', n.nspname, c.relname) END
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE (n.nspname = 'pg_catalog' AND c.relkind = 'v'
           OR n.nspname = 'privid' AND c.relkind IN ('v', 'r'))
      AND has_table_privilege(c.oid, 'SELECT')
    UNION ALL
    SELECT n.nspname, p.proname, format('SELECT * FROM %I.%I()', n.nspname, p.proname)
    FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
    WHERE n.nspname IN ('pg_catalog', 'privid') AND p.prokind = 'f' AND p.provolatile IN ('s', 'v')
      AND p.pronargs = p.pronargdefaults
      AND p.prorettype NOT IN ('trigger'::regtype, 'event_trigger'::regtype, 'fdw_handler'::regtype)
      AND has_function_privilege(p.oid, 'EXECUTE')
    ORDER BY 1, 2, 3"""

_TABLES = """
    SELECT 'pg_catalog', relname,
           format('SELECT count(*), sum(hashtext(x::text)::bigint) FROM pg_catalog.%I x', relname)
    FROM pg_class
    WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind = 'r'
      AND has_table_privilege(oid, 'SELECT')
    ORDER BY 2"""


@dataclass(frozen=True)
class Sight:
    """Something to look at."""

    name: str
    statement: str
    live: bool


def sights(connection: Connection, tables: bool = False) -> list[Sight]:
    """All that the session's role may look at; if so asked, digests of the catalog's tables."""
    found = connection.execute(_ENUMERATE).fetchall() + (
        connection.execute(_TABLES).fetchall() if tables else []
    )
    return [
        Sight(f"{schema}.{name}{'()' if statement.endswith('()') else ''}", statement, name in LIVE)
        for schema, name, statement in found
        if name not in LEFT_OUT
    ]


def batches(watcher: Watcher, everything: Sequence[Sight], most: float) -> list[list[Sight]]:
    """The same in parts, each seen within a time; what takes longer alone is a part alone."""
    watcher.look(everything)
    parts: list[list[Sight]] = [[]]
    used = 0.0
    for sight in everything:
        begun = time.monotonic()
        watcher.look([sight])
        cost = time.monotonic() - begun
        if parts[-1] and used + cost > most:
            parts.append([])
            used = 0.0
        parts[-1].append(sight)
        used += cost
    return parts


class Watcher:
    """Looks at things while something runs."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        connection.execute("SET stats_fetch_consistency = none")

    def look(self, chosen: Sequence[Sight]) -> dict[str, State]:
        """What is there now, by column."""
        found: dict[str, State] = {}
        for sight in chosen:
            try:
                cursor = self._connection.execute(sight.statement.encode())
                rows = cursor.fetchall()
                names = [column.name for column in cursor.description or ()]
            except psycopg.Error as error:
                found[sight.name] = State(f"error {error.diag.sqlstate}")
                continue
            found[sight.name] = State(len(rows), len(rows), float(len(rows)))
            for place, name in enumerate(names):
                found[f"{sight.name}.{name}"] = _state([row[place] for row in rows])
        return found

    def during(
        self,
        work: Callable[[], object],
        everything: Sequence[Sight],
        often: Sequence[Sight],
        looks: int,
    ) -> dict[str, list[State]]:
        """Everything before the work, some of it a fixed number of times, everything after."""
        series: dict[str, list[State]] = {}

        def keep(states: dict[str, State]) -> None:
            for name, state in states.items():
                series.setdefault(name, []).append(state)

        keep(self.look(everything))
        with alongside(work):
            begun = time.monotonic()
            for number in range(looks):
                time.sleep(max(0.0, begun + (number + 0.5) * PERIOD - time.monotonic()))
                keep(self.look(often))
        keep(self.look(everything))
        return series


def _state(values: list[Any]) -> State:
    """A column: equal if it holds the same values in whatever order; the sum of numbers."""
    texts = tuple(sorted(map(str, values)))
    numbers = [_number(value) for value in values if value is not None]
    total = (
        sum(number for number in numbers if number is not None)
        if all(number is not None for number in numbers)
        else None
    )
    return State(f"{hash(texts):x}", len(values), float(total) if total is not None else None)


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float, Decimal)):
        return float(value) if value == value else None
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, str) and value.count("/") == 1:  # a place in the log
        high, low = value.split("/")
        try:
            return float((int(high, 16) << 32) + int(low, 16))
        except ValueError:
            return None
    return None
