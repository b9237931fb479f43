"""A dashboard of twenty panels with moving filters refreshes a hundred times, and spends what the first refresh spent.

The recording stays; what the tools send moves: now() in filters, Grafana's time range, order of lists and conditions, other words.
"""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.conftest import RunningStack, run_privid, write_video

BEGIN = datetime(2026, 3, 1, 6, tzinfo=UTC)
KINDS = ("car", "bike", "bus")
PROGRAM = """#!/bin/sh
echo '{"v": 1, "kind": "car"}'
echo '{"v": 2, "kind": "bike"}'
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--panels", type=int, default=20)
    parser.add_argument("--refreshes", type=int, default=100)
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="privid-dashboard-"))
    directory.chmod(0o755)
    begun = time.monotonic()
    try:
        stack = RunningStack(directory / "stack")
        stack.up()
        try:
            spent = refresh(stack, options.panels, options.refreshes)
        finally:
            run_privid("down", "--data", stack.data)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print(f"{options.panels} panels, {options.refreshes} refreshes in {time.monotonic() - begun:.0f} s: epsilon {spent} spent by the first "
          "and by all")


def panels(rng: random.Random, name: str, number: int, tick: int) -> Iterator[str]:
    """What the tools send at one refresh: the same questions every time, in words that move."""
    early, late = (BEGIN - timedelta(hours=1) + timedelta(milliseconds=3_137 * tick),
                   BEGIN + timedelta(hours=1, milliseconds=3_137 * tick))
    grafana = f"chunk BETWEEN '{early.isoformat()}' AND '{late.isoformat()}'"
    count = rng.choice(("count(*)", "count(1)", "COUNT(*)"))
    unit = rng.choice(("second", "SECOND", "Second"))
    listed = rng.sample(KINDS, 3)
    texts = ", ".join(f"'{kind}'" for kind in listed)
    two = [kind for kind in listed if kind != "bus"]
    equal = " OR ".join(f"kind = '{kind}'" for kind in two)
    either = rng.choice((f"({equal})", f"kind IN ({', '.join(map(repr, two))})"))
    true = rng.choice(("", " AND 1=1", " AND true"))
    forms = (
        lambda n: f"SELECT {count} FROM {name} WHERE {rng.choice((f'v > {n}', f'{n} < v'))} AND chunk > now() - interval '100 years'{true}",
        lambda n: f"SELECT {count} AS value FROM {name} WHERE {grafana} AND {either} AND v <> {n}",
        lambda n: f"SELECT date_trunc('{unit}', chunk) AS time, {count} FROM {name} WHERE {grafana} AND v >= {n}{true} "
                  "GROUP BY 1 ORDER BY 1",
        lambda n: f"SELECT kind, {count} FROM {name} WHERE kind IN ({texts}) AND v < {n + 9} GROUP BY kind",
        lambda n: f'SELECT * FROM (SELECT sum(range(x, 0, {n + 1})) AS "SUM(v)" FROM (SELECT v AS x FROM {name} WHERE {grafana}) AS t'
                  f"{rng.choice((' WHERE true', ''))}) AS z LIMIT 1000",
        lambda n: f"SELECT {count} FILTER (WHERE red{true}), {count} FROM {name} WHERE chunk < now() AND v > -{n + 1}",
        lambda n: f"WITH q AS (SELECT kind AS k, v FROM {name} WHERE {grafana}) SELECT {count} FROM q WHERE v = {n} "
                  f"{rng.choice(('AND', 'AND 2 > 1 AND'))} k <> 'bus' AND k <> 'bike'",
    )
    for panel in range(number):
        yield forms[panel % len(forms)](panel // len(forms))


def refresh(stack: RunningStack, number: int, refreshes: int, name: str = "board") -> str:
    write_video(stack.videos / f"{name}.mp4", [i // 10 for i in range(20)])
    stack.camera(name, f"{name}.mp4", rho="1s", epsilon="10", quantum="1ms")
    stack.executable(name, PROGRAM)
    stack.table(name, name, name, "chunk timestamptz, v float8 DEFAULT 0, kind text DEFAULT '', red boolean DEFAULT false",
                timeout="60ms", max_rows="2", end="2026-03-01 06:00:02+00")
    budget = f"SELECT frames::text, remaining::text FROM privid.budget WHERE camera = '{name}' ORDER BY 1"
    rng, first, spent = random.Random(1), list[Any](), list[Any]()
    with stack.connect() as connection:
        connection.execute("SET privid.epsilon = 0.1")
        for tick in range(refreshes):
            answers = [by_key(connection.execute(text.encode()).fetchall()) for text in panels(rng, name, number, tick)]
            if tick == 0:
                first, spent = answers, stack.run(budget)
            assert answers == first, f"refresh {tick} has other values"
    assert stack.run(budget) == spent
    assert stack.run(f"SELECT count(*) FROM privid.releases WHERE query LIKE '%{name}%'", user="privid") == [(number,)]
    return str(stack.run(f"SELECT 10 - min(remaining) FROM privid.budget WHERE camera = '{name}'")[0][0])


def by_key(rows: list[tuple[Any, ...]]) -> dict[Any, Any]:
    """Rows by their key: which comes first is a matter of the words."""
    return {row[0] if len(row) > 1 else None: row for row in rows}


if __name__ == "__main__":
    main()
