"""Did my program work? The column failed answers that, with noise: the system fills it, and no program can."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from .conftest import World
from .world import CALM, plan_of

COLUMNS = "chunk timestamptz, v float8 DEFAULT 7, failed boolean"
ASKED = "count(*) FILTER (WHERE failed)"
HEAD = """#!/usr/bin/python3
import os, sys
with open(sys.argv[1] + "/frames.npy", "rb") as file:
    file.seek(-1, 2)
    level = file.read(1)[0]
"""
#: what a program does where the picture is brighter than 50, which it is in half of CALM's ten chunks
ENDS = {
    "crashes": "sys.exit(1)",
    "kills itself": "os.kill(os.getpid(), 9)",
    "never ends": "[None for _ in iter(int, 1)]",
    "floods": "[os.write(1, b'x' * 65536) for _ in iter(int, 1)]",
    "prints no rows but words": "print('oh dear')",
    "prints numbers": "print(1); print('[2]')",
}
#: half of its runs fail
SOME = f"{HEAD}if level > 50: sys.exit(1)\nprint('{{\"v\": 1}}')\n"
BRIGHT = sum(level > 50 for level in CALM)


def make(world: World, name: str, program: str, columns: str = COLUMNS, camera: str = "open_calm", **options: str) -> str:
    world.stack.executable(name, f"{program}\n# {name}\n".encode())  # a content of its own, which nobody has run before
    world.stack.table(name, camera, name, columns=columns, **{"max_rows": "3", "timeout": "200ms", **options})
    return name


@pytest.mark.parametrize("doing", ENDS)
def test_runs_that_end_in_defaults_are_told_from_those_that_do_not(world: World, unique: Callable[[str], str], doing: str) -> None:
    table = make(world, unique("ends"), f"{HEAD}if level > 50: {ENDS[doing]}\nelse: print('{{\"v\": 1}}')\n")
    rows = world.rows(f"SELECT {ASKED}, count(*) FILTER (WHERE NOT failed), sum(failed::int), sum(range(v, 0, 10)) FROM {table}")
    assert rows == [(BRIGHT, 10 - BRIGHT, BRIGHT, 7 * BRIGHT + 10 - BRIGHT)]


def test_explain_says_that_the_time_of_an_import_is_a_guess_until_it_has_been_seen(world: World, unique: Callable[[str], str]) -> None:
    tables = [make(world, unique("imported"), "def process(chunk):\n    yield {'v': 1}\n"), make(world, unique("started"), "#!/bin/sh\n")]
    for before, guessed in ((True, [True, False]), (False, [False, False])):
        hints = [plan_of(world.rows(f"EXPLAIN (FORMAT JSON) SELECT count(*) FROM {table}")[0][0]).get("Hints", []) for table in tables]
        assert [any("has not been run before" in hint for hint in some) for some in hints] == [before] * 2
        assert [any("What importing it takes is not known yet" in hint for hint in some) for some in hints] == guessed
        for table in tables:
            world.rows(f"SELECT count(*) FROM {table}")


def test_rows_are_of_runs_that_went_well_though_some_lines_are_none(world: World, unique: Callable[[str], str]) -> None:
    table = make(world, unique("lines"), "#!/bin/sh\necho 'INFO starting'\necho '{\"v\": 1}'\necho '{\"other\": 1}'\n")
    assert world.rows(f"SELECT {ASKED}, count(*) FROM {table}") == [(0, 30)]


@pytest.mark.parametrize("said", ["true", "7"])
def test_what_a_program_says_of_it_does_not_count(world: World, unique: Callable[[str], str], said: str) -> None:
    well, ill = (make(world, unique(name), f"#!/bin/sh\necho '{{\"v\": 1, \"failed\": {said}}}'\nexit {code}\n")
                 for name, code in (("well", 0), ("ill", 1)))
    assert world.rows(f"SELECT {ASKED}, count(*) FROM {well}") == [(0, 10)]
    assert world.rows(f"SELECT {ASKED}, count(*) FROM {ill}") == [(10, 10)]


def test_all_rows_of_a_padded_chunk_say_the_same_and_nothing_printed_is_no_failure(world: World, unique: Callable[[str], str]) -> None:
    table = make(world, unique("padded"), f"{HEAD}if level > 50: sys.exit(1)\nif level > 20: print('{{\"v\": 1}}')\n", pad="on")
    assert world.rows(f"SELECT failed, count(*) FROM {table} GROUP BY failed ORDER BY 1") == [
        (False, 3 * (10 - BRIGHT)), (True, 3 * BRIGHT)]
    assert world.rows(f"SELECT count(*), sum(range(v, 0, 10)) FROM {table} WHERE NOT failed") == [
        (3 * (10 - BRIGHT), 7 * 3 * (10 - BRIGHT) - 6 * sum(20 < level <= 50 for level in CALM))]


def test_a_chunk_without_rows_has_none_that_says_anything(world: World, unique: Callable[[str], str]) -> None:
    table = make(world, unique("nothing"), "#!/bin/sh\n")
    assert world.rows(f"SELECT {ASKED}, count(*) FROM {table}") == [(0, 0)]


def slots(world: World, statement: str) -> int:
    return int(plan_of(world.rows(f"EXPLAIN (FORMAT JSON) {statement}")[0][0])["Slots"])


def test_a_table_that_asks_later_is_told_of_the_runs_that_were(world: World, unique: Callable[[str], str]) -> None:
    table = make(world, unique("later"), SOME, "chunk timestamptz, v float8 DEFAULT 7")
    assert world.rows(f"SELECT count(*) FROM {table}") == [(10,)]
    world.rows(f"ALTER FOREIGN TABLE {table} ADD COLUMN failed boolean")
    assert slots(world, f"SELECT {ASKED} FROM {table}") == 0
    assert world.rows(f"SELECT {ASKED} FROM {table}") == [(BRIGHT,)]


def test_the_flag_survives_the_engine(world: World, unique: Callable[[str], str]) -> None:
    table = make(world, unique("survives"), SOME)
    world.rows(f"SELECT count(*) FROM {table}")
    world.stack.restart_engine()
    assert slots(world, f"SELECT {ASKED} FROM {table}") == 0
    assert world.rows(f"SELECT {ASKED} FROM {table}") == [(BRIGHT,)]


def test_an_owner_reads_it_raw(world: World, unique: Callable[[str], str]) -> None:
    table = make(world, unique("raw"), SOME)
    world.rows(f"GRANT USAGE ON SCHEMA analyst TO owner; GRANT SELECT ON {table} TO owner")
    rows = world.rows(f"SELECT failed, v FROM analyst.{table} ORDER BY chunk", user="owner", raw="on")
    assert rows == [(level > 50, 7.0 if level > 50 else 1.0) for level in CALM]


# It is private


def test_it_is_answered_with_the_noise_of_the_rows_that_an_event_can_change(world: World, unique: Callable[[str], str]) -> None:
    table = make(world, unique("noisy"), "#!/bin/sh\necho '{\"v\": 1}'\n", camera="calm")
    every, failed = (plan_of(world.rows(f"EXPLAIN (FORMAT JSON) SELECT {asked} FROM {table}")[0][0]) for asked in ("count(*)", ASKED))
    for item in ("Sensitivity", "Noise Scale", "Epsilon", "Chunks", "Frames Charged"):
        assert failed[item] == every[item] > 0
    where = plan_of(world.rows(f"EXPLAIN (FORMAT JSON) SELECT count(*) FROM {table} WHERE failed")[0][0])
    assert where["Chunks"] == every["Chunks"] and where["Sensitivity"] == every["Sensitivity"]
    before = world.spent("calm")
    world.rows(f"SELECT {ASKED} FROM {table}")
    assert world.spent("calm") == pytest.approx(before + 0.1)


def test_its_rows_cannot_be_shown(world: World, unique: Callable[[str], str]) -> None:
    table = make(world, unique("shown"), "#!/bin/sh\n", camera="calm")
    for statement in (f"SELECT failed FROM {table}", f"SELECT chunk FROM {table} WHERE failed",
                      f"SELECT max(chunk) FROM {table} WHERE failed"):
        with pytest.raises(psycopg.Error) as caught:
            world.rows(statement)
        assert str(caught.value.sqlstate).startswith("PV")


# How it is declared


@pytest.mark.parametrize(("columns", "words"), [
    ("failed boolean DEFAULT false", "cannot have a default"), ("failed boolean DEFAULT random() < 0.5", "cannot have a default"),
    ("failed float8 DEFAULT 0", "must have type boolean"), ("failed text DEFAULT ''", "must have type boolean"),
    ("failed boolean OPTIONS (keys 'a')", "cannot have option")])
def test_a_program_that_has_a_column_of_this_name_is_told_to_choose_another(world: World, unique: Callable[[str], str], columns: str,
                                                                           words: str) -> None:
    with pytest.raises(psycopg.Error) as caught:
        make(world, unique("clash"), "#!/bin/sh\n", columns)
    assert caught.value.sqlstate == "22023" and words in str(caught.value) and caught.value.diag.message_hint


def test_a_table_may_have_nothing_else(world: World, unique: Callable[[str], str]) -> None:
    table = make(world, unique("alone"), "#!/bin/sh\nexit 1\n", "failed boolean")
    assert world.rows(f"SELECT {ASKED} FROM {table}") == [(10,)]


# Whoever runs a program for the first time is reminded


def notices(world: World, statement: str) -> str:
    told: list[str] = []
    with world.connect() as connection:
        connection.add_notice_handler(lambda d: told.append(d.message_primary or ""))
        connection.execute(statement.encode())
    return " ".join(told)


def explained(world: World, statement: str) -> tuple[Any, str]:
    shown = plan_of(world.rows(f"EXPLAIN (FORMAT JSON) {statement}")[0][0])
    hints = [hint for hint in shown.get("Hints", []) if "has been too busy" not in hint]  # the machine, which others use too
    return hints, "\n".join(row[0] for row in world.rows(f"EXPLAIN {statement}"))


@pytest.mark.parametrize("program", ["echo '{\"v\": 1}'", "exit 1", "true"])
def test_a_reminder_comes_before_and_with_the_first_release_whatever_the_program_does(
        world: World, unique: Callable[[str], str], program: str) -> None:
    table = make(world, unique("first"), f"#!/bin/sh\n{program}\n", "chunk timestamptz, v float8 DEFAULT 7")
    asked = f"SELECT count(*) FROM {table}"
    hints, text = explained(world, asked)
    assert len(hints) == 1 and ASKED in hints[0] and "ADD COLUMN failed boolean" in hints[0] and hints[0] in text
    world.rows(f"ALTER FOREIGN TABLE {table} ADD COLUMN failed boolean")
    hints, _ = explained(world, asked)
    assert len(hints) == 1 and "ADD COLUMN" not in hints[0]
    assert ASKED in notices(world, asked)
    assert explained(world, asked)[0] == []
    assert ASKED not in notices(world, f"{asked} WHERE v > 0")


def test_whoever_asks_is_not_reminded(world: World, unique: Callable[[str], str]) -> None:
    table = make(world, unique("asks"), "#!/bin/sh\n")
    asked = f"SELECT {ASKED} FROM {table}"
    assert explained(world, asked)[0] == [] and "first time" not in notices(world, asked)


# What owners see


def test_owners_see_how_runs_ended_by_table_and_day(world: World, unique: Callable[[str], str]) -> None:
    one = make(world, unique("one"), SOME)
    two = make(world, unique("two"), "#!/bin/sh\necho no row\n")
    for table in (one, two):
        world.rows(f"SELECT count(*) FROM {table}")
    found = {name: {outcome: count for n, outcome, count in world.rows(
        "SELECT foreign_table, outcome, count FROM privid.failures WHERE camera = 'open_calm' AND role = 'analyst' "
        "AND day >= (now() AT TIME ZONE 'UTC')::date - 1", user="owner") if n == name and count} for name in (one, two)}
    assert found == {one: {"ok": 10 - BRIGHT, "crashed": BRIGHT}, two: {"unreadable": 10}}
    assert world.rows("SELECT * FROM privid.failures") == []
