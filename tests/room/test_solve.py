"""Chunks are chosen and grouped without a look at each of them, and exactly as if each had been looked at."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path

import pytest

from privid.calculus import chunks, solve
from privid.calculus.alike import alike_value
from privid.calculus.chunks import runs
from privid.calculus.deparse import deparse
from privid.calculus.tree import Call, Col, Const, Expr
from privid.engine.cancel import Cancel, Cancelled
from privid.errors import InvalidValue
from privid.model import Camera, Executable, Footage, Grid, Key, SetWise, Span, Table, TableUse, VideoFile
from privid.room import evaluate as room_evaluate
from privid.room.evaluate import make_evaluate
from privid.room.pool import RoomPool

from . import moments
from .moments import WINDOWS, Grammar

CHUNK = Col(type="timestamptz", rel=0, col=1, name="chunk")


def table(begin: str, count: int, seconds: Fraction = Fraction(420)) -> Table:
    """Chunks of so many seconds, a frame each."""
    footage = Footage((VideoFile("x.mp4", "0" * 64, 0, count + 3),), 1 / seconds, 16, 16)
    camera = Camera("campus", "olga", datetime.fromisoformat(begin), Fraction(60), 1, Fraction(1), Fraction(1), footage)
    return Table(0, "people", "ana", camera, Grid(3, count, 1, 1), (), Executable("x", "0" * 64, b""), Fraction(1), 1, False)


def each(expressions: Sequence[Expr], use: TableUse, evaluate: SetWise) -> dict[tuple[int, int], Key] | str:
    """What every chunk of every region has, by looking at it; or what PostgreSQL says against it."""
    sql, found = [deparse(e) for e in expressions], dict[tuple[int, int], Key]()
    try:
        for region, (name, spans) in enumerate(zip(use.table.region_names, use.by_region, strict=True)):
            for span in spans:
                found |= {(j, region): key for j, key in zip(range(*span), evaluate(sql, use.table, span, name), strict=True)}
    except InvalidValue as error:
        return error.message
    return found


def together(expressions: Sequence[Expr], use: TableUse, evaluate: SetWise) -> dict[tuple[int, int], Key] | str:
    """The same by runs, each chunk once and in order."""
    found: dict[tuple[int, int], Key] = {}
    begun = (-1, -1)
    try:
        for lo, hi, region, key in runs(expressions, use, evaluate):
            assert lo < hi and (lo, region) > begun
            begun = (lo, region)
            for j in range(lo, hi):
                assert (j, region) not in found
                found[j, region] = key
    except InvalidValue as error:
        return error.message
    return found


def some_spans(rng: random.Random, count: int) -> tuple[Span, ...]:
    edges = sorted(rng.sample(range(count + 1), 2 * rng.randrange(1, 6)))
    return tuple(zip(edges[::2], edges[1::2], strict=True)) if rng.random() < 0.5 else ((0, count),)


def search(pool: RoomPool, monkeypatch: pytest.MonkeyPatch, seed: int, most: int, depth: int,
           windows: Sequence[tuple[str, str]] = WINDOWS) -> tuple[int, int, list[str]]:
    """How many expressions were compared, how many of them were solved, and in which a chunk had another value, up to the first."""
    solved, asked, wrong = 0, 0, list[str]()
    monkeypatch.setattr(solve, "FEW", 0)
    monkeypatch.setattr(solve, "_AT_ONCE", 1)  # as few looks as in a long window
    real = solve.solve

    def counting(*args: object) -> object:
        nonlocal solved
        found = real(*args)  # type: ignore[arg-type]
        solved += found is not None
        return found

    monkeypatch.setattr(chunks, "solve", counting)
    rng = random.Random(seed)
    while asked < most and not wrong:
        zone, begin = rng.choice(windows)
        count, length = rng.choice(((700, 420), (1500, 420), (400, 61), (900, 3600), (500, 20011)))
        one = table(begin, count, Fraction(length, rng.choice((1, 1, 7))))
        evaluate = make_evaluate(pool, {"TimeZone": zone, "DateStyle": rng.choice(("ISO, MDY", "SQL, DMY", "German, DMY"))})
        assert isinstance(evaluate, SetWise)
        grammar = Grammar(rng, one.camera.starts, timedelta(seconds=count * length), length)
        for _ in range(8):
            use = TableUse(one, some_spans(rng, count))
            expressions = [alike_value(grammar.expression(rng.randint(1, depth))) for _ in range(rng.choice((1, 1, 2)))]
            asked += 1
            if (expected := each(expressions, use, evaluate)) != (got := together(expressions, use, evaluate)):
                other = got if isinstance(got, str) or isinstance(expected, str) else [k for k in expected if got.get(k) != expected[k]][:3]
                wrong.append(f"{zone} {begin}: {[deparse(e) for e in expressions]}: {other}")
    return asked, solved, wrong


def test_solved_runs_are_those_of_every_single_chunk(pool: RoomPool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, solved, wrong = search(pool, monkeypatch, 1, 240, 3)
    assert not wrong
    assert solved >= asked / 5


@pytest.mark.parametrize("weakness", ["a change of clocks is overlooked", "an hour is taken for a matter of the day",
                                      "equality is taken for an order", "a run goes on behind its span"])
def test_a_weakened_solution_is_found_out(weakness: str, pool: RoomPool, monkeypatch: pytest.MonkeyPatch) -> None:
    match weakness:
        case "a change of clocks is overlooked":
            monkeypatch.setattr(room_evaluate, "changes_between", lambda *_: [])
        case "an hour is taken for a matter of the day":
            monkeypatch.setitem(solve._UNITS, "hour", "day")
            monkeypatch.setitem(solve._FIELDS, "hour", "day")
        case "equality is taken for an order":
            monkeypatch.setattr(solve, "_ORDERS", ("<", "<=", ">", ">=", "=", "<>"))
        case _:
            monkeypatch.setattr(solve, "_spans", lambda begins, pieces: zip(begins, [*begins[1:], pieces[-1][1]], strict=True))
    monkeypatch.setattr(solve, "_same_at_both_ends", lambda values: True)  # the last check of all is not to help
    back = [window for window in WINDOWS if window[0] in ("Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe")]
    for words in ("_UNITS", "_FIELDS"):
        monkeypatch.setattr(moments, words, ("hour", "day", "minute"))
    assert any(search(pool, monkeypatch, seed, 200, 2, back)[2] for seed in range(2, 8))


def test_two_million_chunks_are_grouped_by_a_few_looks(pool: RoomPool, monkeypatch: pytest.MonkeyPatch) -> None:
    year = table("2025-01-01 00:00+00", 2_102_400, Fraction(15))
    evaluate = make_evaluate(pool, {"TimeZone": "Europe/Berlin"})
    assert isinstance(evaluate, SetWise)
    looked = 0
    real = type(evaluate).at

    def at(expressions: Sequence[str], table: Table, chunks: Sequence[int], region: str = "", /) -> list[Key]:
        nonlocal looked
        looked += len(chunks)
        return real(evaluate, expressions, table, chunks, region)

    monkeypatch.setattr(evaluate, "at", at)
    day = Call(type="timestamptz", fn="pg_catalog.date_trunc(text,timestamptz)", args=(Const(type="text", value="day"), CHUNK))
    began = time.monotonic()
    found = list(runs([day], TableUse(year, ((0, 2_102_400),)), evaluate))
    assert time.monotonic() - began < 2 and looked < 30_000
    assert len(found) == 366 and found[-1][1] == 2_102_400
    assert {(hi - lo) * 15 // 3600 for lo, hi, _, _ in found[1:-1]} == {23, 24, 25}


def test_two_million_chunks_that_must_be_looked_at_are_so_by_postgresql(pool: RoomPool) -> None:
    year = table("2025-01-01 00:00+00", 2_102_400, Fraction(15))
    evaluate = make_evaluate(pool, {"TimeZone": "Europe/Berlin"})
    hour = Call(type="text", fn="pg_catalog.to_char(timestamptz,text)", args=(CHUNK, Const(type="text", value="HH24")))
    began = time.monotonic()
    assert len(list(runs([hour], TableUse(year, ((0, 2_102_400),)), evaluate))) == 24 * 365
    taken, began = time.monotonic() - began, time.monotonic()
    with pool.public() as conn:
        conn.execute("""SELECT count(to_char(timestamptz '2025-01-01 00:00+00' + n * interval '15 s', 'HH24'))
                        FROM generate_series(0, 2102399) n""")
    assert taken < 5 * (time.monotonic() - began)


def test_who_leaves_while_every_chunk_is_looked_at_leaves_no_work_behind(pool: RoomPool) -> None:
    year = table("2025-01-01 00:00+00", 20_000_000, Fraction(3, 2))
    evaluate = make_evaluate(pool, {})
    text = Call(type="text", fn="pg_catalog.to_char(timestamptz,text)", args=(CHUNK, Const(type="text", value="YYYY HH24 MI")))
    gone = Cancel()
    threading.Timer(0.5, gone.set).start()
    began = time.monotonic()
    with pytest.raises((Cancelled, InvalidValue)), pool.wanted_by(gone):
        for _ in runs([text], TableUse(year, ((0, 20_000_000),)), evaluate):
            pass
    assert time.monotonic() - began < 1.5 + 0.5
    pids = [conn.info.backend_pid for conn in pool._idle if not conn.closed]
    before = [cpu_of(pid) for pid in pids]
    time.sleep(0.5)
    assert sum(cpu_of(pid) for pid in pids) - sum(before) < 0.1
    assert evaluate(["1"], year, (0, 1)) == [("1",)]


def cpu_of(pid: int) -> float:
    """Seconds that a process has computed; none when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
