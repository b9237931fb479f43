"""Every mistake that can be seen beforehand is told with its reason, its line and its column."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import pytest

from privid.language.reader import read
from privid.language.run import translate
from privid.language.source import Mistake, Source

SPLIT = "SPLIT cam BEGIN 03-01-2026 END 03-02-2026 BY TIME 5sec STRIDE 0sec INTO c;\n"
PROCESS = "PROCESS c USING m.py TIMEOUT 1sec PRODUCING 1 ROWS WITH SCHEMA (v:NUMBER=0) INTO t;\n"

#: file, message, line, column, a word of the hint
MISTAKES = [
    ("", "there is no SELECT in the file", 1, 1, "PROCESS"),
    (SPLIT + PROCESS, "there is no SELECT in the file", 2, 84, "PROCESS"),
    ("CREATE t1 FROM cam START 07-01-2013;", 'syntax error at or near "CREATE"', 1, 1, "SPLIT, PROCESS and SELECT"),
    ("SPLIT cam\n  START 03-01-2026", 'syntax error at or near "START"', 2, 3, "BEGIN is expected"),
    ("SPLIT 3cam BEGIN", 'syntax error at or near "3cam"', 1, 7, "name of a camera"),
    ("SPLIT cam BEGIN 13-01-2026 END 03-02-2026", 'invalid timestamp: "13-01-2026"', 1, 17, "12-01-2020/12:00am"),
    ("SPLIT cam BEGIN 03-01-2026/13:00pm END", 'invalid timestamp: "03-01-2026/13:00pm"', 1, 17, "UTC"),
    ("SPLIT cam BEGIN now END 03-02-2026", 'invalid timestamp: "now"', 1, 17, "UTC"),
    ("SPLIT cam BEGIN 03-01-2026 END 03-02-2026 BY TIME 5 lightyears", 'syntax error at or near "lightyears"', 1, 53, "STRIDE is expected"),
    ("SPLIT cam BEGIN 03-01-2026 END 03-02-2026 BY TIME 5seconds1 STRIDE", 'syntax error at or near "5seconds1"', 1, 51, "5sec"),
    (SPLIT.replace("INTO", "WITH MASK INTO c WITH MASK m INTO"), 'syntax error at or near "c"', 1, 83, "INTO is expected"),
    (SPLIT.replace("INTO", "WITH MASK m WITH MASK n INTO"), "WITH MASK specified more than once", 1, 90, None),
    (SPLIT.replace("INTO", "\nBY REGION 3 INTO"), 'syntax error at or near "3"', 2, 11, "name of regions"),
    ("SPLIT cam BEGIN 03-01-2026 END 03-02-2026 BY TIME 5sec STRIDE 0sec INTO", "syntax error at end of statement", 1, 72, "chunk set"),
    (SPLIT[:-2] + " PROCESS;", 'syntax error at or near "PROCESS"', 1, 75, '";" is expected'),
    (SPLIT + SPLIT, 'chunk set "c" already exists', 2, 73, None),
    (SPLIT + "PROCESS d USING m.py", 'chunk set "d" does not exist', 2, 9, "INTO d"),
    (SPLIT + PROCESS + PROCESS, 'table "t" already exists', 3, 82, None),
    (SPLIT + "PROCESS c USING m.py TIMEOUT soon", 'syntax error at or near "soon"', 2, 30, "time-out"),
    (SPLIT + "PROCESS c USING m.py TIMEOUT 1sec PRODUCING many ROWS", 'syntax error at or near "many"', 2, 45, "whole number"),
    (SPLIT + PROCESS.replace("v:NUMBER=0", "v NUMBER=0"), 'syntax error at or near "NUMBER"', 2, 67, '":" is expected'),
    (SPLIT + PROCESS.replace("v:NUMBER=0", "v:FLOAT=0"), 'syntax error at or near "FLOAT"', 2, 67, "STRING or NUMBER"),
    (SPLIT + PROCESS.replace("v:NUMBER=0", "v:NUMBER"), 'syntax error at or near ")"', 2, 73, 'Column "v" needs a default'),
    (SPLIT + PROCESS.replace("v:NUMBER=0", 'v:NUMBER="0"'), 'syntax error at or near "0"', 2, 74, "a number"),
    (SPLIT + PROCESS.replace("v:NUMBER=0", "v:STRING=red"), 'syntax error at or near "red"', 2, 74, "in quotes"),
    (SPLIT + PROCESS.replace("v:NUMBER=0", "chunk:NUMBER=0"), 'column "chunk" is filled by the system', 2, 65, "another name"),
    (SPLIT + PROCESS.replace("v:NUMBER=0", "v:NUMBER=0, V:NUMBER=1"), 'column "v" specified more than once', 2, 77, None),
    ("/* never\nends", "unterminated /* comment", 1, 1, None),
    ("SELECT 'never\nends", "unterminated quoted text", 1, 8, None),
    ("SELECT count(*)\nFROM t\n  GRUP BY x", 'syntax error at or near "BY"', 3, 8, None),
    ("SELECT count(* FROM t", 'syntax error at or near "FROM"', 1, 16, None),
    ("SELECT count(*) FROM t WHERE", "syntax error at end of statement", 1, 29, None),
    ("SELECT x,\n count(*) FROM t GROUP BY x WITH KEYS", "syntax error at end of statement", 2, 38, None),
    ("SELECT x,\n count(*) FROM t GROUP BY x WITH KEYS (\"a\")", 'syntax error at or near "("', 2, 39, None),
    ("SELECT x,\n count(*) FROM t GROUP BY x WITH KEYS [a]", 'syntax error at or near "a"', 2, 40, None),
    ("SELECT x, y\n FROM t GROUP BY x, y WITH KEYS [\"a\"]", "WITH KEYS has one list of keys for 2 columns", 2, 23, "a list for each"),
    ("SELECT x\n FROM t GROUP BY x WITH KEYS [[1], [2]]", "WITH KEYS has 2 lists of keys for 1 columns", 2, 20, "a list for each"),
    ("SELECT 1,\n  sum(range(v, [0]))", "range needs a column and two ends", 2, 7, "range(column, low, high)"),
]


@pytest.mark.parametrize(("text", "message", "line", "column", "hint"), MISTAKES, ids=range(len(MISTAKES)))
def test_a_mistake_is_told_with_its_place(text: str, message: str, line: int, column: int, hint: str | None) -> None:
    source = Source("q.privid", text)
    with pytest.raises(Mistake) as caught:
        translate(read(source))
    assert (caught.value.message, source.place(caught.value.at)) == (message, (line, column))
    assert (hint is None and caught.value.hint is None) or (hint is not None and hint in (caught.value.hint or ""))


def test_a_mistake_looks_as_in_psql() -> None:
    source = Source("q.privid", "SELECT 1;\n\tCREATE x;")
    assert source.tell("ERROR", Mistake("no", 11, detail="Why.", hint="Do.")) == (
        "q.privid:2:2: ERROR:  no\nLINE 2:  CREATE x;\n         ^\nDETAIL:  Why.\nHINT:  Do.")


def test_a_garbled_file_is_a_mistake_and_never_a_failure_of_the_reader() -> None:
    fixtures = Path(__file__).parent / "fixtures"
    whole = (fixtures / "listing1.privid").read_text() + "".join(
        line + ";\n" for line in (fixtures / "selects.txt").read_text().splitlines() if line.startswith(("SELECT", "WITH")))
    statements, words = whole.split(";"), [*re.findall(r"\s+|\w+|\S", whole), "$$", "'", '"', "é", "[", "\\", "::", "@", "/*", ":x", "$1"]
    random = Random(20)
    told = 0
    for _ in range(400):
        pieces = re.findall(r"\s+|\w+|\S", ";".join(statements[:5]) if random.random() < 0.3 else random.choice(statements))
        for _ in range(random.randint(1, 4)):
            place = random.randrange(len(pieces) + 1)
            pieces[place:place + random.randint(0, 1)] = random.choices(words, k=random.randint(0, 1))
        source = Source("q", "".join(pieces))
        try:
            translate(read(source))
        except Mistake as mistake:
            told += 1
            assert 0 <= mistake.at <= len(source.text) and source.tell("ERROR", mistake)
    assert told > 200
