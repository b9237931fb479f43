"""privid query: a file in the paper's language, run in a real stack."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY, RunningStack, run_privid

#: tells the brightness that the tests know, and whether that is bright
PROGRAM = """
def process(chunk):
    v = float(chunk.frames[0, 0, 0, 0])
    yield {"v": v, "kind": "dark" if v < 25 else "bright"}
"""

#: five chunks of a second; second s has brightness 10 * s
FILE = """/* what the camera of the tests shows */
SPLIT {camera} BEGIN 03-01-2026/6:00am END 03-01-2026/6:00:05am
  BY TIME 1sec STRIDE 0sec INTO chunks;
PROCESS chunks USING {executable}.py TIMEOUT 1sec PRODUCING 1 ROWS WITH SCHEMA (kind:STRING="", v:NUMBER=0) INTO levels;
"""


class Desk:
    """A folder with a query and its executable, and a camera."""

    def __init__(self, stack: RunningStack, folder: Path, unique: Callable[[str], str]) -> None:
        self.stack, self.folder = stack, folder
        self.camera, self.executable = unique("camera"), unique("level")
        (folder / f"{self.executable}.py").write_text(PROGRAM)

    def write(self, selects: str, head: str = FILE) -> Path:
        file = self.folder / "q.privid"
        file.write_text(head.format(camera=self.camera, executable=self.executable) + selects)
        return file

    def upload(self) -> None:
        run_privid("upload", "--data", self.stack.data, self.folder / f"{self.executable}.py")

    def query(self, selects: str, *options: str, head: str = FILE) -> subprocess.CompletedProcess[str]:
        return run_privid("query", self.write(selects, head), "--data", self.stack.data, *options, check=False)


@pytest.fixture
def desk(stack: RunningStack, tmp_path: Path, unique: Callable[[str], str]) -> Desk:
    return Desk(stack, tmp_path, unique)


def cells(told: str) -> list[list[str]]:
    """The rows of all tables of an output."""
    return [[cell.strip() for cell in line.split("|")] for line in told.splitlines() if re.match(r" .*\|", line)]


def test_an_unprotected_camera_is_answered_exactly_with_every_declared_key(desk: Desk) -> None:
    desk.stack.camera(desk.camera, "levels.mp4")
    done = desk.query('SELECT kind, COUNT(*), SUM(range(v, [0, 35])) FROM levels GROUP BY kind WITH KEYS ["dark", "bright", "red"];\n'
                      "SELECT hour(chunk), COUNT(*) FROM levels WHERE v > 15 GROUP BY hour(chunk);")
    assert done.returncode == 0, done.stderr
    kinds, hours = {row[0]: (row[1], float(row[2])) for row in cells(done.stdout)[1:4]}, cells(done.stdout)[5]
    assert kinds == {"dark": ("3", 30), "bright": ("2", 65), "red": ("0", 0)}
    assert hours == ["2026-03-01 06:00:00+00", "3"]
    assert done.stdout.count("NOTICE:  exact answer") == 2


#: the paper's questions, of shapes as in its listings; levels is 0, 10, 20 (dark), 30, 40 (bright), and so is again
PAPER = """PROCESS chunks USING {executable}.py TIMEOUT 1sec PRODUCING 1 WITH SCHEMA (kind:STRING="", v:NUMBER=0) INTO again;
SELECT AVG(range(v, 15, 60)) FROM levels);
SELECT kind,COUNT(v) FROM
    (SELECT v, kind FROM levels)
GROUP BY kind WITH KEYS ["bright"];
SELECT ARGMAX(kind) FROM levels GROUP BY kind WITH KEYS ["bright", "dark", "red"];
SELECT COUNT(*) FROM levels UNION ALL again;
SELECT COUNT(*) FROM (SELECT kind FROM levels JOIN again ON kind GROUP BY kind);
SELECT avg(avg_shift) FROM
    SELECT kind,avg(range(shift, [0,16])) FROM
        (SELECT kind,day,(max(chunk)-min(chunk) as shift) FROM
            levels UNION again GROUP BY kind,day(chunk))
    GROUP BY kind LIMIT 300;
"""


def test_the_questions_of_the_paper_are_answered(desk: Desk) -> None:
    desk.stack.camera(desk.camera, "levels.mp4")
    done = desk.query("", head=FILE + PAPER)
    assert done.returncode == 0, done.stderr
    values = [answer.splitlines()[2].split("|")[-1].strip() for answer in done.stdout.strip().split("\n\n")]
    assert values[1:-1] == ["2", "dark", "10", "2"]
    assert float(values[0]) == 24
    # dark from second 0 to 2, bright from 3 to 4: on average 1.5 s, in hours, on the grid of the range
    assert float(values[-1]) == pytest.approx(1.5 / 3600, abs=2e-4)


def test_the_questions_of_the_paper_are_bounded_where_something_is_protected(desk: Desk) -> None:
    desk.stack.camera(desk.camera, "levels.mp4", rho="1s")
    desk.upload()
    done = desk.query("", "--explain", head=FILE + PAPER)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Charges epsilon 0.1 ") == 6


def test_a_protected_camera_is_answered_with_epsilon_scale_and_error_and_charged(desk: Desk) -> None:
    desk.stack.camera(desk.camera, "levels.mp4", rho="1s")
    desk.upload()
    explained = desk.query("SELECT COUNT(*) FROM levels;", "--explain", "--epsilon", "0.5")
    assert explained.returncode == 0 and "scale 4 (sensitivity 2, epsilon 0.5)" in explained.stdout and "Derivation" in explained.stdout
    releases = f"SELECT count(*) FROM privid.releases WHERE camera = '{desk.camera}'"
    assert desk.stack.run(releases) == [(0,)]
    answered = desk.query("SELECT COUNT(*) FROM levels;", "--epsilon", "0.5")
    assert answered.returncode == 0 and "epsilon 0.5 was charged; count(*): scale 4, 95 % error +/-12" in answered.stdout
    again = desk.query("SELECT COUNT(*) FROM levels;", "--epsilon", "0.5")
    assert re.findall(r"^ +(-?\d+)$", again.stdout, re.M) == re.findall(r"^ +(-?\d+)$", answered.stdout, re.M)  # from the log
    assert desk.stack.run(releases) == [(1,)]


def test_tables_are_gone_afterwards_and_the_executable_stays(desk: Desk) -> None:
    desk.stack.camera(desk.camera, "levels.mp4")
    assert desk.query("SELECT COUNT(*) FROM levels;").returncode == 0
    assert desk.stack.run("SELECT FROM pg_class WHERE relname = 'levels' AND relkind = 'f'") == []
    assert desk.stack.run("SELECT count(*) FROM privid.executables WHERE name = %s", desk.executable) == [(1,)]
    (desk.folder / f"{desk.executable}.py").unlink()  # then the one that was uploaded is taken
    assert desk.query("SELECT COUNT(*) FROM levels;").returncode == 0


def test_what_postgresql_refuses_is_shown_in_the_file(desk: Desk) -> None:
    desk.stack.camera(desk.camera, "levels.mp4")
    lines = FILE.count("\n")
    for selects, line, column, message in [
            ("SELECT COUNT(*),\n  SUM(range(w, [0, 60])) FROM levels;", lines + 2, 13, 'column "w" does not exist'),
            ("SELECT kind,\n  COUNT(*) FROM levels GROUP BY kind;", lines + 1, 8, "declared keys"),
            ('SELECT COUNT(*)\nFROM levels WHERE kind = "dark";', lines + 2, 26, "write a text as 'dark'"),
            ("SELECT COUNT(*)\nFROM bevels;", lines + 2, 6, 'relation "bevels" does not exist')]:
        done = desk.query(selects)
        assert done.returncode == 1 and message in done.stderr, done.stderr
        assert done.stderr.startswith(f"{desk.folder / 'q.privid'}:{line}:{column}: ERROR:  "), done.stderr
        assert f"LINE {line}: " in done.stderr


def test_a_table_that_cannot_be_made_is_shown_where_its_reason_stands(desk: Desk) -> None:
    desk.stack.camera(desk.camera, "levels.mp4")
    for old, new, place, message in [
            ("SPLIT {camera}", "SPLIT nowhere", "2:7", 'server "nowhere" does not exist'),
            ("BY TIME 1sec", "BY TIME 0.25sec", "3:11", "chunk"),
            ("BEGIN 03-01-2026", "BEGIN 03-01-2025", "2:{begin}", "window is outside the recording"),
            ("STRIDE 0sec INTO", "STRIDE 0sec WITH MASK sky INTO", "3:38", 'mask "sky" of camera'),
            ("TIMEOUT 1sec", "TIMEOUT 1ms", "4:{timeout}", 'option "timeout"'),
            ("USING {executable}", "USING nothing", "4:22", 'executable "nothing" does not exist')]:
        head = FILE.replace(old, new)
        done = desk.query("SELECT COUNT(*) FROM levels;", head=head)
        made = desk.write("", head).read_text().split("\n")
        place = place.format(begin=made[1].find("BEGIN ") + 7, timeout=made[3].find("TIMEOUT ") + 9)
        assert done.returncode == 1 and message in done.stderr, done.stderr
        assert done.stderr.startswith(f"{desk.folder / 'q.privid'}:{place}: ERROR:  "), done.stderr


def test_the_page_about_the_language_shows_what_happens(desk: Desk) -> None:
    desk.stack.camera(desk.camera, "levels.mp4")
    file, _, told, *_ = re.findall(r"^```\n(.*?)^```$", (REPOSITORY / "docs" / "language.md").read_text(), re.M | re.S)
    for old, new in (("campus", desk.camera), ("6:00pm", "6:00:05am"), ("5sec", "1sec"), ("cars.py", f"{desk.executable}.py")):
        assert old in file
        file = file.replace(old, new)
    desk.upload()
    page = desk.query("", "--explain", head=file)
    assert page.returncode == 0, page.stderr
    mistaken = desk.query("", "--explain", head=file.replace("range(speed", "range(sped"))
    assert mistaken.returncode == 1 and mistaken.stderr == told.replace("count.privid", str(desk.folder / "q.privid"))


def test_a_mistake_at_the_end_of_the_file_is_seen_before_anything_runs(desk: Desk) -> None:
    done = desk.query("SELECT COUNT(*) FROM levels;\nSELEKT 1;")
    assert done.returncode == 1 and f":{FILE.count(chr(10)) + 2}:1: ERROR:  syntax error at or near \"SELEKT\"" in done.stderr
    assert desk.stack.run("SELECT count(*) FROM privid.executables WHERE name = %s", desk.executable) == [(0,)]


def test_the_sql_can_be_seen_without_a_stack(desk: Desk, tmp_path: Path) -> None:
    file = desk.write("SELECT COUNT(*) FROM levels);")
    done = run_privid("query", "--sql", file, "--data", tmp_path / "no-stack")
    assert done.stdout.splitlines()[-1] == "SELECT COUNT(*) FROM levels;" and "WARNING:  closing parenthesis" in done.stderr
    stopped = run_privid("query", file, "--data", tmp_path / "no-stack", check=False)
    assert stopped.returncode == 1 and "is not running" in stopped.stderr
    missing = run_privid("query", tmp_path / "missing.privid", check=False)
    assert missing.returncode == 1 and "could not read" in missing.stderr
