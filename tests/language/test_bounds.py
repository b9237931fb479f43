"""The paper's language and the command line, given what nobody means: a clear error each, never a traceback."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from privid.errors import InvalidValue
from privid.language.reader import read
from privid.language.run import translate
from privid.language.source import Mistake, Source
from privid.quantities import parse_duration, parse_number, parse_timestamp
from tests.conftest import run_privid
from tests.verify.hostile_values import duration, mutated, number

SPLIT = "SPLIT cam BEGIN 03-01-2026 END 03-02-2026 BY TIME 5sec STRIDE 0sec INTO c;\n"
PROCESS = "PROCESS c USING m.py TIMEOUT 1sec PRODUCING 1 ROWS WITH SCHEMA (v:NUMBER=0) INTO t;\n"
SELECT = "SELECT count(*) FROM t GROUP BY 1;"


def mistake(text: str) -> str:
    with pytest.raises(Mistake) as found:
        translate(read(Source("query.privid", text)))
    return str(found.value)


@pytest.mark.parametrize("digits", ["9" * 5000, "0." + "0" * 5000 + "1", "1/" + "9" * 5000])
def test_a_duration_of_thousands_of_digits_is_refused(digits: str) -> None:
    assert "digits" in mistake(SPLIT.replace("5sec", digits + "sec") + PROCESS + SELECT)
    with pytest.raises(InvalidValue, match="characters"):
        parse_duration(digits + "s", "rho")
    with pytest.raises(InvalidValue, match="characters"):
        parse_number(digits, "epsilon")


@pytest.mark.parametrize("select", ["SELECT count(*) FROM t WHERE " + "(" * 20_000 + "true" + ")" * 20_000, "SELECT " + "(" * 20_000,
                                    "SELECT count(*) FROM t WHERE " + "NOT " * 20_000 + "true", "SELECT 1" + " + 1" * 20_000 + " FROM t",
                                    "(" * 20_000 + "SELECT 1" + ")" * 20_000])
def test_a_select_that_is_nested_too_deeply_is_refused_or_left_to_postgresql(select: str) -> None:
    try:
        translate(read(Source("query.privid", SPLIT + PROCESS + select)))
    except Mistake as found:
        assert "too complex" in str(found) or "syntax error" in str(found)


def test_a_file_that_is_too_long_is_refused_before_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "long.privid").write_bytes(b"-" * 2_000_000)
    done = run_privid("query", "--sql", tmp_path / "long.privid", check=False)
    assert done.returncode == 1 and "2000000 bytes" in done.stderr and "HINT" in done.stderr


def test_a_key_by_number_of_thousands_of_digits_is_told_as_any_other_mistake() -> None:
    try:
        translate(read(Source("query.privid", SPLIT + PROCESS + SELECT.replace("BY 1", "BY " + "9" * 5000))))
    except Mistake as found:
        assert "digits" in str(found)


@pytest.mark.parametrize("text", ["0001-01-01 00:00+14", "9999-12-31 23:59:59-14", "9" * 5000, ""])
def test_a_moment_beyond_the_calendar_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue, match="invalid value"):
        parse_timestamp(text, "starts")


@pytest.mark.parametrize("arguments", [
    ("up", "--lanes", "9" * 5000), ("up", "--port", "9" * 5000), ("exposure", "cam", "--times", "9" * 5000),
    ("exposure", "cam", "--times", "²"),
    ("try", "m.py", "v.mp4", "--chunk", "9" * 5000), ("try", "m.py", "v.mp4", "--max-rows", "9" * 5000),
    ("engine", "--data", "/nonexistent/d", "--videos", "/", "--lanes", "9" * 5000)])
def test_a_number_of_thousands_of_digits_on_the_command_line_is_wrong_usage(arguments: tuple[str, ...]) -> None:
    done = run_privid(*arguments, check=False)
    assert done.returncode == 2 and "usage:" in done.stderr and "Traceback" not in done.stderr
    assert len(done.stderr) < 3000 and "invalid _" not in done.stderr, done.stderr[-300:]


def test_no_mutated_query_file_is_a_traceback() -> None:
    chance = Random(5)
    for _ in range(300):
        whole = (SPLIT + PROCESS + SELECT).replace("5sec", duration(chance)).replace("=0", "=" + number(chance)[:3000])
        text = mutated(whole.encode(), chance).decode("utf-8", "replace").replace("\0", "")
        with suppress(Mistake):
            translate(read(Source("query.privid", text)))
