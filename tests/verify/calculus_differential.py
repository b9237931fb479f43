"""Where nothing is protected, every accepted statement says what PostgreSQL says of an ordinary table with the same rows: 5,000 of them."""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg

from tests.conftest import RunningStack, run_privid, write_video

from .calculus_grammar import Grammar, Query
from .calculus_world import COLUMNS, FRAMES, KIND, PUBLIC, SIZES, STARTS, TABLES, Palette, Row, Site

__all__ = ["Comparison", "Differential", "main"]

#: a program that knows what each chunk is to yield
_PROGRAM = """#!/usr/bin/python3
import json, sys
ROWS = json.loads({rows!r})
with open(sys.argv[1] + "/chunk.json") as file:
    facts = json.load(file)
for plate, v, w, red, size in ROWS[facts["start"] + " " + facts["region"]]:
    print(json.dumps(dict(plate=plate, v=v, w=w, red=red, size=size)))
"""


@dataclass
class Comparison:
    """What has been compared."""

    equal: int = 0
    refused: int = 0
    forms: Counter[str] = field(default_factory=Counter)
    different: list[str] = field(default_factory=list)

    def report(self) -> str:
        return f"{self.equal} statements equal, {len(self.different)} different, {self.refused} refused; " + ", ".join(
            f"{form} {n}" for form, n in sorted(self.forms.items()))


class Differential:
    """Foreign tables that protect nothing, in schema open, and ordinary ones with the same rows, in schema plain."""

    def __init__(self, stack: RunningStack, seed: int, tables: Sequence[str] = tuple(TABLES)) -> None:
        self.rng = random.Random(seed)
        self.stack = stack
        self.tables = tables
        write_video(stack.videos / "verify.mp4", [0] * FRAMES, width=16, height=16)
        stack.camera("verify_open", "verify.mp4", starts=STARTS.isoformat())
        with stack.connect("privid") as connection:
            connection.execute("CREATE SCHEMA open; CREATE SCHEMA plain; GRANT ALL ON SCHEMA open, plain TO analyst")
        with stack.connect("analyst") as connection:
            connection.execute("SET search_path = plain, public")
            connection.execute(f"CREATE TYPE {KIND} AS ENUM ({', '.join(map(repr, SIZES))})".encode())
            for statement in filter(None, map(str.strip, PUBLIC.split(";"))):
                connection.execute(statement.encode())
            for name in tables:
                self._table(connection, TABLES[name])
        self.connection = stack.connect("analyst")
        try:
            self.connection.execute("SET search_path = plain, public; SET privid.reuse = off")
            for name in tables:  # every chunk runs now, and never again
                self.connection.execute(f"SELECT count(*) FROM open.{name}".encode())
        except BaseException as error:
            error.add_note(self.said_of_the_room())
            self.connection.close()
            raise

    def _table(self, connection: psycopg.Connection[Any], site: Site) -> None:
        palette = Palette(self.rng)
        palette.plates, palette.v = ["A", "B", "C", "D"], [-7.0, 0.0, 1.0, 2.0, 5.0, 7.5, 30.0]
        palette.w, palette.sizes, palette.red = [-2.0, 0.0, 1.0, 4.0], list(SIZES), (True, False)
        rows: list[tuple[Row, ...]] = [palette.chunk(site, 0.8) for _ in site.runs]
        runs = [(moment, region) for moment, (_, region) in zip(site.moments, site.runs, strict=True)]
        table = json.dumps({f"{moment} {region}": output for (moment, region), output in zip(runs, rows, strict=True)})
        self.stack.executable(f"verify_{site.name}", _PROGRAM.format(rows=table))
        if site.mask:
            self.stack.run("SELECT privid.create_mask('verify_open', %s, ARRAY[%s::polygon], '0s')", site.name, _polygon(site.strip(3)),
                           user="owner")
        if site.regions:
            shapes = {region: _polygon(site.strip(i)) for i, region in enumerate(site.regions)}
            self.stack.run("SELECT privid.create_regions('verify_open', %s, %s)", site.name, json.dumps(shapes), user="owner")
        options = {**site.options, "executable": f"verify_{site.name}", "timeout": "400ms"}
        listed = ", ".join(f'"{name}" \'{value}\'' for name, value in options.items())
        connection.execute(f"CREATE FOREIGN TABLE open.{site.name} ({site.columns}) SERVER verify_open OPTIONS ({listed})".encode())
        connection.execute(f"CREATE TABLE plain.{site.name} ({COLUMNS})".encode())
        with connection.cursor() as cursor:
            cursor.executemany(f"INSERT INTO plain.{site.name} VALUES (%s, %s, %s, %s, %s, %s, %s)".encode(),
                               [(*run, *row) for run, output in zip(runs, rows, strict=True) for row in site.read(output)])

    def close(self) -> None:
        self.connection.close()
        with self.stack.connect("privid") as connection:
            connection.execute("DROP SERVER verify_open CASCADE; DROP SCHEMA open CASCADE; DROP SCHEMA plain CASCADE")

    def said_of_the_room(self) -> str:
        """The last lines about it in the engine's log."""
        lines = (self.stack.layout.log / "engine.log").read_text().splitlines()
        return "\n  ".join([line for line in lines if '"event": "room' in line][-3:])

    def compare(self, number: int) -> Comparison:
        """So many statements that are accepted."""
        # where every chunk has rows, the first and the last chunk are those of the rows
        padded = [name for name in self.tables if TABLES[name].pad]
        found, grammar = Comparison(), Grammar(self.rng, self.tables, extremes=padded)
        while found.equal + len(found.different) < number:
            query = grammar.release()
            try:
                shown = self.connection.execute(f"EXPLAIN (FORMAT JSON) {query.over('open.')}".encode()).fetchone()
                assert shown is not None
                if '"Aggregate"' in json.dumps(shown[0]):  # a lower level is released, and lists its keys there
                    found.refused += 1
                    continue
                released = self.connection.execute(query.over("open.").encode()).fetchall()
            except psycopg.Error as error:
                if error.sqlstate not in ("PV001", "PV002", "22023"):
                    found.different.append(f"{query.over('open.')}\n  {error}\n  {self.said_of_the_room()}")
                found.refused += 1
                continue
            ordinary = self.connection.execute(query.over("plain.", [a.sql() for a in query.aggs]).encode()).fetchall()
            difference = won(released, ordinary) if query.argmax else compared(query, released, ordinary)
            if difference:
                found.different.append(f"{query.over('open.')}\n  {difference}")
            else:
                found.equal += 1
                found.forms.update(query.forms)
        return found


def _polygon(corners: Sequence[tuple[float, float]]) -> str:
    return "(" + ",".join(f"({x},{y})" for x, y in corners) + ")"


def compared(query: Query, released: list[tuple[Any, ...]], ordinary: list[tuple[Any, ...]]) -> str | None:
    """How a release differs from the ordinary answer, if it does. It may have keys that do not occur, with nothing under them."""
    n = len(query.keys)
    ours, theirs = ({row[:n]: row[n:] for row in rows} for rows in (released, ordinary))
    if len(ours) != len(released):
        return f"a key occurs twice: {released}"
    if missing := theirs.keys() - ours.keys():
        return f"keys are missing: {missing}"
    for i, aggregate in enumerate(query.aggs):
        # of nothing, PostgreSQL has no sum, and a release has 0: whether there is something is not public; and an average within
        # a range of one value is that value
        nothing = dict.fromkeys(ours, 0 if aggregate.fn in ("count", "sum") else None)
        if aggregate.fn not in ("count", "sum") and len({values[i] for values in ours.values()}) == 1:
            nothing = {key: values[i] for key, values in ours.items()}
        for key, values in ours.items():
            other = theirs[key][i] if key in theirs else None
            if not _same(values[i], nothing[key] if other is None else other):
                return f"{aggregate.sql()} of {key}: {values[i]}, not {other}"
    return None


def won(released: list[tuple[Any, ...]], ordinary: list[tuple[Any, ...]]) -> str | None:
    """Whether the winner is another than one of the best; a candidate that does not occur has the score 0. Where what is public leaves no
    candidate at all, nobody wins."""
    scores = {row[0]: row[1] or 0 for row in ordinary}
    if not released and not scores:
        return None
    if len(released) != 1 or scores.get(released[0][0], 0) < max(scores.values(), default=0):
        return f"{released} won, of {scores}"
    return None


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Decimal | int | float) and isinstance(b, Decimal | int | float):
        return Decimal(a) == Decimal(b)
    return bool(a == b)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--statements", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="privid-verify-"))
    folder.chmod(0o755)
    try:
        run_privid("up", "--data", folder / "stack")
        differential = Differential(RunningStack(folder / "stack"), options.seed)
        total = Comparison()
        while total.equal < options.statements and not total.different:
            part = differential.compare(min(500, options.statements - total.equal))
            total.equal += part.equal
            total.refused += part.refused
            total.forms.update(part.forms)
            total.different += part.different
            print(f"{total.equal:>6} statements equal, {len(total.different)} different, {total.refused} refused", flush=True)
    finally:
        run_privid("down", "--data", folder / "stack", check=False)
        shutil.rmtree(folder, ignore_errors=True)
    print(total.report())
    for different in total.different[:10]:
        print(f"DIFFERENT: {different}")
    return 1 if total.different else 0


if __name__ == "__main__":
    sys.exit(main())
