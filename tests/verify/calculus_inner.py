"""What is evaluated: the inner query of a claim, in the room itself, over the rows of many worlds at once.

The room's foreign tables are ordinary ones here. All else is as it is in a release: the query's text, the
functions that stand in for those that could raise, the forms of keys, the session's settings.
"""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import RawCursor

from privid.calculus.deparse import COLLATION
from privid.room.deparse import Inner, enum_ddl, public_ddl
from privid.room.public import copy_rows
from privid.room.room import Room

from .calculus_claims import Claim
from .calculus_mechanisms import Answer
from .calculus_world import SIZES, TABLES, Pair, copy_text

__all__ = ["InnerTruth"]

#: the tables' columns, in their order
_COLUMNS = (f"c1 timestamptz, c2 text {COLLATION}, c3 text {COLLATION}, c4 float8, c5 float8, c6 boolean, c7 pg_temp.e0")


class InnerTruth:
    """One session of a room, for a search."""

    def __init__(self, room: Room) -> None:
        self._session, self._calls = room._pool.take({}), 0
        self._session.execute(enum_ddl("e0", SIZES).encode())
        self._session.execute("SET statement_timeout = '60s'")
        for name in TABLES:
            self._session.execute(f"CREATE TEMPORARY TABLE world_{name} (world int, {_COLUMNS})".encode())
            self._session.execute(f"CREATE INDEX ON pg_temp.world_{name} (world)".encode())

    def close(self) -> None:
        self._session.close()

    def answers(self, claim: Claim, pairs: Sequence[Pair]) -> list[tuple[Answer, Answer]]:
        """Both answers of each pair; nothing of it stays."""
        found: list[Answer] = [{} for _ in range(2 * len(pairs))]
        self._calls += 1
        if self._calls % 50 == 0:  # what is rolled back stays in the tables' files
            self._session.execute(f"TRUNCATE {', '.join(f'pg_temp.world_{name}' for name in TABLES)}".encode())
        with self._session.transaction(force_rollback=True):
            for public, name in claim.inner.publics:
                self._session.execute(public_ddl(public, name, claim.inner.enums).encode())
                copy_rows(self._session, name, public.rows)
            for table in {claim.tables[index].name for index, _ in claim.inner.tables}:
                self._fill(table, pairs)
            with RawCursor(self._session) as cursor:
                cursor.execute(self._over_worlds(claim, 2 * len(pairs)).encode(), prepare=False, binary=False)
                result = cursor.pgresult
                assert result is not None
                # also where no cell is left that a release would show: rows of keys without a match are there
                keys = result.nfields - 1 - len(claim.plan.columns)
                for row in range(result.ntuples):
                    texts = [result.get_value(row, column) for column in range(result.nfields)]
                    world, *values = (None if text is None else text.decode() for text in texts)
                    answer, key = found[int(world or 0)], tuple(values[:keys])
                    if key in answer:
                        key = (*key, "a second row")  # of which no release knows
                    answer[key] = tuple(values[keys:])
        return [(found[2 * i], found[2 * i + 1]) for i in range(len(pairs))]

    def _fill(self, table: str, pairs: Sequence[Pair]) -> None:
        worlds = enumerate(world for pair in pairs for world in (pair.before, pair.after))
        text = "".join(copy_text(TABLES[table], number, world[table]) for number, world in worlds)
        with self._session.cursor() as cursor, cursor.copy(f"COPY pg_temp.world_{table} FROM STDIN".encode()) as copy:
            copy.write(text)

    def _over_worlds(self, claim: Claim, worlds: int) -> str:
        query = _on_ordinary_tables(claim.inner, claim)
        return f"SELECT z.world, q.* FROM pg_catalog.generate_series(0, {worlds - 1}) AS z(world) CROSS JOIN LATERAL ({query}) AS q"


def _on_ordinary_tables(inner: Inner, claim: Claim) -> str:
    query = inner.query
    for index, name in inner.tables:
        rows = f"(SELECT c1, c2, c3, c4, c5, c6, c7 FROM pg_temp.world_{claim.tables[index].name} WHERE world = z.world)"
        query = query.replace(f"pg_temp.{name} AS ", f"{rows} AS ")
    return query
