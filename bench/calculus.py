"""How long the calculus thinks, and how long its inner query takes to be written: a statement of three hundred expressions and a union of
105 cameras, beside a bare parse of the request."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

from privid.calculus import analyse, parse_select
from privid.room.deparse import inner_query

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.verify.calculus_stand import Stand, own_postgres
from tests.verify.calculus_world import COLUMNS, FPS, STARTS, TABLES

CAMERAS = 105
NODES = 300
RUNS = 50


def main() -> None:
    """Each line: what, milliseconds of processor time for its analysis, for a parse of the request as JSON, and the ratio of the two."""
    with own_postgres() as layout:
        stand = Stand(layout)
        try:
            union = make_cameras(stand)
            measure(stand, f"statement of {NODES} expressions", wide_statement(stand))
            measure(stand, f"UNION ALL over {CAMERAS} cameras", union)
        finally:
            stand.close()


def wide_statement(stand: Stand) -> str:
    """WHERE with as many conditions as make a tree of NODES expressions."""
    conditions: list[str] = []
    while True:
        conditions.append(f"(v + {len(conditions)} > w OR plate <> 'p{len(conditions)}')")
        statement = f"SELECT size, count(*), sum(range(v * 2, 0, 10)) FROM n1 WHERE {' AND '.join(conditions)} GROUP BY size"
        stand.explain(statement)
        if count_nodes(stand.engine.asked[0][0]["select"]) >= NODES:
            return statement


def count_nodes(value: Any) -> int:
    if isinstance(value, dict):
        return ("e" in value) + sum(map(count_nodes, value.values()))
    return sum(map(count_nodes, value)) if isinstance(value, list) else 0


def make_cameras(stand: Stand) -> str:
    """A table on each of many cameras, and the statement over all of them."""
    options = ", ".join(f'"{name}" \'{value}\'' for name, value in TABLES["n1"].options.items())
    with stand.connect("owner") as connection:
        for i in range(CAMERAS):
            connection.execute(f"CREATE SERVER bench_{i} FOREIGN DATA WRAPPER privid OPTIONS (source 'street.mp4', "
                               f"starts '{STARTS.isoformat()}', rho '3/{FPS} s', k '1', epsilon '100')".encode())
            connection.execute(f"GRANT USAGE ON FOREIGN SERVER bench_{i} TO analyst".encode())
    with stand.connect("analyst") as connection:
        connection.execute("SET search_path = verify, public")
        for i in range(CAMERAS):
            connection.execute(f"CREATE FOREIGN TABLE bench_{i} ({COLUMNS}) SERVER bench_{i} OPTIONS ({options})".encode())
    union = " UNION ALL ".join(f"SELECT {i} AS camera, plate, v FROM bench_{i}" for i in range(CAMERAS))
    return f"SELECT count(*), sum(range(v, 0, 10)) FROM ({union}) q WHERE plate <> ''"


def measure(stand: Stand, what: str, statement: str) -> None:
    stand.explain(statement)
    request = stand.engine.asked[0][0]
    text = json.dumps(request)
    room, settings, tables = stand.engine.room, request["settings"], stand.engine.judge.tables(request)
    evaluate, select = room.evaluate(settings), parse_select(request["select"])
    judged = stand.engine.asked[0][1]
    analysis = milliseconds(lambda: analyse(parse_select(request["select"]), settings, tables, Fraction(1), evaluate,
                                            room.public_rows(settings)))
    writing = milliseconds(lambda: inner_query(select, judged.plan.columns, tables))
    parse = milliseconds(lambda: json.loads(text))
    print(f"{what}: analysed in {analysis:.1f} ms, inner query written in {writing:.1f} ms, {count_nodes(request['select'])} nodes")
    print(f"    a bare parse of the request: {parse:.2f} ms, ratio {analysis / parse:.1f}")


def milliseconds(work: Callable[[], object]) -> float:
    times = []
    for _ in range(RUNS):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return 1000 * statistics.median(times)


if __name__ == "__main__":
    main()
