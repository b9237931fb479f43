"""What is evaluated: the inner query of a claim, in the room itself, over the rows of many worlds at once.

The room's foreign tables are arrays of rows here, one for each world, which are sent with the query: so every round of neighbours is one
message and its answer. All else is as it is in a release: the query's text, the functions that stand in for those that could raise, the
forms of keys, the session's settings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import psycopg
from psycopg.pq import ExecStatus

from privid.calculus.deparse import COLLATION
from privid.calculus.tree import FromPublic
from privid.room.deparse import Inner, enum_ddl, public_ddl
from privid.room.pool import apply_settings
from privid.room.public import copy_rows
from privid.room.room import Room
from privid.room.settings import request_settings

from .calculus_claims import Claim
from .calculus_mechanisms import Answer
from .calculus_world import SIZES, TABLES, Pair, array_text

__all__ = ["InnerTruth"]

#: a row of a table: its columns, in their order
_ROW = (f"CREATE TYPE pg_temp.world_row AS (c1 timestamptz, c2 text {COLLATION}, c3 text {COLLATION}, c4 float8, c5 float8, c6 boolean, "
        "c7 pg_temp.e0)")
#: tables of public rows that stay for the next statement
_PUBLICS = 100


class InnerTruth:
    """One session of a room, for a search."""

    def __init__(self, room: Room) -> None:
        self._session = room._pool.take({})
        self._session.execute(enum_ddl("e0", SIZES).encode())
        self._session.execute(_ROW.encode())
        # a query is planned once for all its rounds
        self._session.execute("SET statement_timeout = '60s'; SET plan_cache_mode = force_generic_plan; SET jit = off")
        self._publics: dict[str, str] = {}
        #: what the session has planned last, under which settings
        self._planned = ""
        self._settings: Mapping[str, str] = {}

    def close(self) -> None:
        self._session.close()

    def answers(self, claim: Claim, pairs: Sequence[Pair]) -> list[tuple[Answer, Answer]]:
        """Both answers of each pair."""
        found: list[Answer] = [{} for _ in range(2 * len(pairs))]
        if claim.judged.settings != self._settings:
            self._settings, self._planned = claim.judged.settings, ""
            apply_settings(self._session, request_settings(self._settings), local=False)
        tables = list(dict.fromkeys(claim.tables[index].name for index, _ in claim.inner.tables))
        worlds = [world for pair in pairs for world in (pair.before, pair.after)]
        result = self._sent(self._over_worlds(claim, tables, len(worlds)),
                            [array_text(TABLES[table], world[table]).encode() for world in worlds for table in tables])
        # also where no cell is left that a release would show: rows of keys without a match are there
        keys = result.nfields - 1 - len(claim.plan.columns)
        for row in range(result.ntuples):
            texts = [result.get_value(row, column) for column in range(result.nfields)]
            number, *values = (None if text is None else text.decode() for text in texts)
            answer, key = found[int(number or 0)], tuple(values[:keys])
            if key in answer:
                key = (*key, "a second row")  # of which no release knows
            answer[key] = tuple(values[keys:])
        return [(found[2 * i], found[2 * i + 1]) for i in range(len(pairs))]

    def _sent(self, query: str, rows: Sequence[bytes]) -> psycopg.pq.abc.PGresult:
        connection = self._session.pgconn
        if query == self._planned:
            result = connection.exec_prepared(b"", rows)
        else:
            self._planned = ""
            result = connection.exec_params(query.encode(), rows)
        if result.status != ExecStatus.TUPLES_OK:
            raise psycopg.errors.error_from_result(result)
        self._planned = query
        return result

    def _public(self, public: FromPublic, inner: Inner) -> str:
        """The table of public rows, made where there is none yet."""
        ddl = public_ddl(public, "rows", inner.enums)
        key = f"{ddl} {public.rows!r}"
        if key not in self._publics:
            name = self._publics[key] = f"public_{len(self._publics)}"
            self._planned = ""
            self._session.execute(public_ddl(public, name, inner.enums).encode())
            copy_rows(self._session, name, public.rows)
        return self._publics[key]

    def _over_worlds(self, claim: Claim, tables: Sequence[str], worlds: int) -> str:
        query = claim.inner.query
        if len(self._publics) + len(claim.inner.publics) > _PUBLICS:  # now: later the statement names some
            self._session.execute(f"DROP TABLE {', '.join(f'pg_temp.{name}' for name in self._publics.values())}".encode())
            self._publics.clear()
        for index, name in claim.inner.tables:
            query = query.replace(f"pg_temp.{name} AS ", f"pg_catalog.unnest(z.{claim.tables[index].name}) AS ")
        for public, name in claim.inner.publics:
            query = query.replace(f"pg_temp.{name} AS ", f"pg_temp.{self._public(public, claim.inner)} AS ")
        width = len(tables)
        values = ", ".join(f"({', '.join((str(world), *(f'${world * width + i + 1}::pg_temp.world_row[]' for i in range(width))))})"
                           for world in range(worlds))
        return f"SELECT z.world, q.* FROM (VALUES {values}) AS z({', '.join(('world', *tables))}) CROSS JOIN LATERAL ({query}) AS q"
