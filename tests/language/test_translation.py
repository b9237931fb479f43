"""Pairs of what the paper writes and the SQL that it becomes, and where PostgreSQL's complaints lead back to."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import pytest

from privid.language import select
from privid.language.reader import read
from privid.language.run import translate
from privid.language.scanner import Scanner
from privid.language.source import Source
from privid.language.statements import Select
from privid.language.trace import trace
from privid.language.values import duration, moment

FIXTURES = Path(__file__).parent / "fixtures"
SELECTS = [block.split("\n") for block in (FIXTURES / "selects.txt").read_text().strip().split("\n\n")]


@pytest.mark.parametrize("name", ["listing1", "taxi"])
def test_a_listing_of_the_paper_becomes_sql(name: str) -> None:
    source = Source(name, (FIXTURES / f"{name}.privid").read_text())
    translated = translate(read(source))
    assert [f"{sql};" for _, sql in translated] == (FIXTURES / f"{name}.sql").read_text().splitlines()


@pytest.mark.parametrize(("clauses", "options"), [
    ("WITH MASK benches", "mask 'benches'"), ("BY REGION Crosswalks", "regions 'crosswalks'"),
    ('BY REGION r WITH MASK "No Trees"', "mask 'No Trees', regions 'r'"), ("WITH MASK m BY REGION r", "mask 'm', regions 'r'")])
def test_masks_and_regions_become_options_and_regions_a_column(clauses: str, options: str) -> None:
    text = ("SPLIT cam BEGIN 03-01-2026 END 03-02-2026 BY TIME 5sec STRIDE 0sec CLAUSES INTO c;\n"
            "PROCESS c USING m.py TIMEOUT 1sec PRODUCING 1 ROWS WITH SCHEMA (v:NUMBER=0) INTO t;\nSELECT count(*) FROM t;")
    made = translate(read(Source("q", text.replace("CLAUSES", clauses))))[0][1]
    assert made.endswith(f"max_rows '1', {options})")
    assert ("region text" in made) == ("REGION" in clauses)


def test_the_parenthesis_that_the_first_listing_closes_without_opening_is_overlooked_with_a_word() -> None:
    source = Source("listing1", (FIXTURES / "listing1.privid").read_text())
    (message, at), = read(source).overlooked
    assert "parenthesis" in message and source.place(at) == (12, 45)


@pytest.mark.parametrize(("written", "sql"), [block[1:] for block in SELECTS], ids=[block[0] for block in SELECTS])
def test_a_select_of_the_paper_becomes_a_select_of_postgresql(written: str, sql: str) -> None:
    assert select.to_sql(Select(0, written)) == sql


@pytest.mark.parametrize(("written", "seconds"), [
    ("5sec", Fraction(5)), ("5 sec", Fraction(5)), ("0.5sec", Fraction(1, 2)), ("-2s", Fraction(-2)), ("1/30 s", Fraction(1, 30)),
    ("250ms", Fraction(1, 4)),
    ("2min", Fraction(120)), ("1 Hour", Fraction(3600)), ("1day", Fraction(86400)), ("7", Fraction(7))])
def test_durations_are_read_exactly(written: str, seconds: Fraction) -> None:
    text = written + " STRIDE"
    scanner = Scanner(text, 0, len(text))
    assert duration(scanner, "it") == (seconds, 0) and scanner.accept("STRIDE")


@pytest.mark.parametrize(("written", "hour", "minute"), [
    ("12-01-2020/12:00am", 0, 0), ("12-01-2020/12:00pm", 12, 0), ("12-01-2020/11:59PM", 23, 59), ("12/01/2020", 0, 0),
    ("12-01-2020 6:05", 6, 5), ("12-01-2020/6am", 6, 0), ("2020-12-01T06:05Z", 6, 5), ("2020-12-01/06:05", 6, 5),
    ("'2020-12-01 06:05+02'", 4, 5), ('"2020-12-01 06:05:00-01:30"', 7, 35)])
def test_moments_are_month_day_year_in_utc_unless_they_say_otherwise(written: str, hour: int, minute: int) -> None:
    text = written + " END"
    scanner = Scanner(text, 0, len(text))
    assert moment(scanner) == (datetime(2020, 12, 1, hour, minute, tzinfo=UTC), 0) and scanner.accept("END")


def test_comments_nest_and_quotes_hide_semicolons() -> None:
    program = read(Source("q", "/* a; /* b; */ c; */ SELECT ';' -- ; '\n, \";\" FROM t;;\n SELECT 2"))
    assert [(s.at, s.text.split()) for s in program.statements if isinstance(s, Select)] == [
        (21, ["SELECT", "';'", ",", '";"', "FROM", "t"]), (55, ["SELECT", "2"])]


@pytest.mark.parametrize(("written", "word", "which"), [
    ("SELECT color, COUNT(*) FROM\n (SELECT plate, kolor FROM cars) GROUP BY color WITH KEYS [\"RED\"]", "kolor", 1),
    ("SELECT sum(range(speed, [0, 9])), sum(range(v, [0, 9])), sum(w) FROM SELECT v, speed FROM cars", "w", 1),
    ("SELECT x, day FROM t1 UNION t2 GROUP BY x, day(chunk)", "x", 2)])
def test_a_place_in_the_sql_leads_back_to_the_place_in_the_file(written: str, word: str, which: int) -> None:
    def find(text: str) -> int:
        at = -1
        for _ in range(which):
            at = next(i for i in range(at + 1, len(text)) if text.startswith(word, i) and not text[i - 1].isalnum()
                      and not text[i + len(word):i + len(word) + 1].isalnum())
        return at

    sql = select.to_sql(Select(0, written))
    assert trace(sql, find(sql), written) == find(written)
