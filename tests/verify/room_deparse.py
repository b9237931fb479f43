"""The inner query that is written from the judged tree gives the rows that PostgreSQL gives for the statement itself: 5,000 of them.

The statement passes the real hook and serialiser; what arrives at the engine is read, written anew, and evaluated in
a database without the extension, over tables with the same rows; what the statement itself gives is evaluated in the
analyst's database over ordinary tables. Refused statements are compared too, as long as they can be written.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from privid.calculus.reader import parse_select
from privid.calculus.tree import Select
from privid.errors import PrividError
from privid.model import Collected
from privid.room.deparse import Inner, enum_ddl, inner_query, public_ddl, table_ddl
from tests.conftest import copy_room_library

from .calculus_grammar import Agg, Grammar, Query
from .calculus_relations import TABLE
from .calculus_stand import Stand, own_postgres
from .calculus_world import COLUMNS, SIZES, TABLES, Palette, copy_text

__all__ = ["Deparsed", "Tally", "as_ordinary", "deparsed", "main", "same"]

Row = tuple[Any, ...]

_EXPLAIN = "EXPLAIN (FORMAT JSON) "

_ROOM = Path(__file__).resolve().parents[2] / "room" / "room.sql"


@dataclass
class Tally:
    """What has been compared."""

    equal: int = 0
    refused: int = 0  # of the equal ones: refused by the calculus
    unwritten: Counter[str] = field(default_factory=Counter)
    forms: Counter[str] = field(default_factory=Counter)
    different: list[str] = field(default_factory=list)

    def report(self) -> str:
        forms = ", ".join(f"{form} {n}" for form, n in sorted(self.forms.items()))
        return (f"{self.equal} statements equal ({self.refused} of them refused), {len(self.different)} different; "
                f"{dict(self.unwritten)}; {forms}")


class Deparsed:
    """A stand, ordinary tables with rows in the analyst's database, and a second database that stands for the room."""

    def __init__(self, stand: Stand, seed: int) -> None:
        self.stand, self.rng = stand, random.Random(seed)
        self.heard: list[dict[str, Any]] = []
        answer = stand.engine._answer

        def listening(kind: str, body: dict[str, Any]) -> bytes:
            if kind in "TX":
                self.heard.append(body)
            return answer(kind, body)

        stand.engine._answer = listening  # type: ignore[method-assign]
        with stand.connect("privid") as connection:
            connection.execute("DROP DATABASE IF EXISTS room_deparse")
            connection.execute("CREATE DATABASE room_deparse TEMPLATE template0")
        self.room = psycopg.connect(host=str(stand.layout.run), port=stand.layout.socket_port, dbname="room_deparse", user="privid",
                                    autocommit=True)
        library = copy_room_library(stand.layout.run)
        self.room.execute(_ROOM.read_text().replace("MODULE_PATHNAME", library).encode())
        self.room.execute("SET search_path = ''; SET TimeZone = 'UTC'; SET jit = off")
        stand.truth.execute("SET TimeZone = 'UTC'")
        for site in TABLES.values():
            text = self._rows_of(site.name)
            stand.truth.execute(f"CREATE TEMP TABLE plain_{site.name} (world int, {COLUMNS})".encode())
            self.room.execute(f"CREATE TABLE room.rows_{site.name} (world pg_catalog.int4, chunk pg_catalog.timestamptz, "
                              "region text, plate text, v float8, w float8, red bool, size text)".encode())
            for connection, name in ((stand.truth, f"plain_{site.name}"), (self.room, f"room.rows_{site.name}")):
                with connection.cursor() as cursor, cursor.copy(f"COPY {name} FROM STDIN".encode()) as copy:
                    copy.write(text)
            stand.truth.execute(f"ALTER TABLE plain_{site.name} DROP world".encode())

    def _rows_of(self, name: str) -> str:
        palette = Palette(self.rng)
        palette.plates, palette.v = ["A", "B", "C", "D"], [-7.0, 0.0, 1.0, 2.0, 5.0, 7.5, 30.0]
        palette.w, palette.sizes, palette.red = [-2.0, 0.0, 1.0, 4.0], list(SIZES), (True, False)
        return copy_text(TABLES[name], 0, [palette.chunk(TABLES[name], 0.8) for _ in TABLES[name].runs])

    def close(self) -> None:
        self.room.close()
        with self.stand.connect("privid") as connection:
            connection.execute("DROP DATABASE room_deparse")

    # One statement

    def request(self, statement: str) -> dict[str, Any]:
        """What the engine is asked about it first, which is the outermost level that it can be asked about."""
        self.heard.clear()
        try:
            self.stand.claims.execute(f"{_EXPLAIN}{statement}".encode())
        except psycopg.Error:
            if not self.heard:
                raise
        asked = self.heard[0]
        return asked if "select" in asked else {**asked, "select": _first(asked["candidate"])}

    def inner(self, request: dict[str, Any], columns: Sequence[Collected] = ()) -> Inner:
        return inner_query(parse_select(request["select"]), columns, self.stand.engine.judge.tables(request))

    def rows(self, request: dict[str, Any], inner: Inner) -> list[Row]:
        """The inner query in the room, as a release would run it: in a transaction that is rolled back."""
        tables = self.stand.engine.judge.tables(request)
        with self.room.transaction(force_rollback=True):
            for name, labels in inner.enums.values():
                self.room.execute(enum_ddl(name, labels).encode())
            for index, name in inner.tables:
                self.room.execute(as_ordinary(table_ddl(tables[index], name, inner.enums, "none")).encode())
                enum = inner.enums[tables[index].columns[-1].type_name][0]
                self.room.execute(f"INSERT INTO pg_temp.{name} SELECT chunk, region, plate, v, w, red, size::pg_temp.{enum} "
                                  f"FROM room.rows_{tables[index].name}".encode())
            for public, name in inner.publics:
                self.room.execute(public_ddl(public, name, inner.enums).encode())
                places = ", ".join(["%s"] * len(public.columns))
                self.room.cursor().executemany(f"INSERT INTO pg_temp.{name} VALUES ({places})".encode(), public.rows)
            return self.room.execute(inner.query.encode()).fetchall()

    def ordinary(self, statement: str) -> list[Row]:
        """PostgreSQL's own answer, over ordinary tables."""
        return self.stand.truth.execute(statement.encode()).fetchall()

    def compare(self, number: int) -> Tally:
        """So many accepted statements, and those that are drawn between them."""
        tally, grammar = Tally(), Grammar(self.rng)
        while tally.equal - tally.refused + len(tally.different) < number:
            self.compare_one(grammar.release(), tally)
        return tally

    def compare_one(self, query: Query, tally: Tally) -> None:
        try:
            request = self.request(query.claimed)
        except psycopg.Error as error:
            tally.unwritten[str(error).splitlines()[0]] += 1
            return
        plan = None
        with contextlib.suppress(PrividError):
            plan = self.stand.engine.judge.judge(request).plan
        try:
            select = parse_select(request["select"])
        except PrividError as error:  # the library has no form for it
            tally.unwritten[f"{error} {error.detail}"] += 1
            return
        if (len(select.group), len(select.aggs)) != (len(query.keys), len(query.aggs)) or not _is_outermost(select, query):
            tally.unwritten["another level is released"] += 1
            return
        wanted: list[Sequence[Collected]] = [()]
        if plan is not None and any(column.what != "value" for column in plan.columns):
            wanted.append(plan.columns)
        for columns in wanted:
            try:
                inner = self.inner(request, columns)
            except PrividError as error:
                tally.unwritten[f"{error} {error.detail}"] += 1
                if plan is not None:
                    tally.different.append(f"{query.claimed}\n  {error}: {error.detail}")
                return
            expressions = [self.expected(query.aggs[c.agg], c) for c in columns] or [a.sql() for a in query.aggs]
            statement = query.over("plain_", expressions)
            try:
                theirs = self.ordinary(statement)
            except psycopg.Error as error:
                tally.unwritten[f"ordinary: {error}"] += 1
                return
            try:
                ours = self.rows(request, inner)
            except psycopg.Error as error:
                tally.different.append(f"{statement}\n  {inner.query}\n  {error}")
                return
            if not same(ours, theirs):
                tally.different.append(f"{statement}\n  {inner.query}\n  {ours}\n  {theirs}")
                return
        tally.equal += 1
        tally.refused += plan is None
        tally.forms.update(query.forms)

    @staticmethod
    def expected(agg: Agg, column: Collected) -> str:
        """What a collected column means, as an analyst would write it."""
        if column.what == "value":
            return agg.sql()
        argument = agg.arg if column.low is None else f"range({agg.arg}, {column.low}, {column.high})"
        if column.what == "count":
            return agg.sql("count", argument)
        exact = f"({argument})::numeric"
        return agg.sql("sum", exact if column.what == "sum" else f"{exact} * {exact}")


def _first(candidate: dict[str, Any]) -> Any:
    """The outermost level that could be a release."""
    return candidate["select"] if candidate["select"] is not None else next(map(_first, candidate["below"]), None)


def _is_outermost(select: Select, query: Query) -> bool:
    """Is it the statement's own level, and not one below? Its first aggregate stands where the statement has it."""
    if query.argmax:
        return not query.depth
    before = f"{_EXPLAIN}{query.head}SELECT {''.join(f'{key} AS k{i}, ' for i, key in enumerate(query.keys))}"
    return select.aggs[0].loc == len(TABLE.sub(r"\1", before))


def as_ordinary(ddl: str) -> str:
    """The table that a statement makes, but not foreign: there is no engine here."""
    return ddl.replace("CREATE FOREIGN TABLE", "CREATE TABLE").partition(" SERVER ")[0]


def same(ours: Sequence[Row], theirs: Sequence[Row]) -> bool:
    """The same rows in any order; what is computed in float8 may differ in its last digits."""
    def key(row: Row) -> tuple[str, ...]:
        return tuple(f"{value:.9e}" if isinstance(value, float) else str(value) for value in row)

    one, other = sorted(ours, key=key), sorted(theirs, key=key)
    return len(one) == len(other) and all(len(a) == len(b) and all(map(_equal, a, b)) for a, b in zip(one, other, strict=True))


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12) or (math.isnan(a) and math.isnan(b))
    return type(a) is type(b) and str(a) == str(b)


@contextlib.contextmanager
def deparsed(seed: int) -> Iterator[Deparsed]:
    with own_postgres() as layout:
        stand = Stand(layout)
        try:
            found = Deparsed(stand, seed)
            try:
                yield found
            finally:
                found.close()
        finally:
            stand.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--statements", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    total = Tally()
    with deparsed(options.seed) as found:
        while total.equal - total.refused < options.statements and not total.different:
            part = found.compare(min(500, options.statements - total.equal + total.refused))
            total.equal += part.equal
            total.refused += part.refused
            total.forms.update(part.forms)
            total.unwritten.update(part.unwritten)
            total.different += part.different
            print(f"{total.equal:>6} statements equal, {total.refused} of them refused, {len(total.different)} different", flush=True)
    print(total.report())
    for different in total.different[:10]:
        print(f"DIFFERENT: {different}")
    return 1 if total.different else 0


if __name__ == "__main__":
    sys.exit(main())
