"""What privid try says at the end: times, rows, what was cut, memory, how runs were started, and options to paste."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from privid.cli.main import main
from privid.cli.try_measure import Measured, summary
from tests.conftest import run_privid, write_video

#: rows as many as the brightness tells
ROWS = """
def process(chunk):
    for i in range(int(chunk.frames[0, 0, 0, 0])):
        yield {"i": i}
"""


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five seconds, whose brightness is 0, 4, 1, 2, 0."""
    return write_video(tmp_path_factory.mktemp("try") / "five.mp4", [level for level in (0, 4, 1, 2, 0) for _ in range(10)])


def module(folder: Path, text: str) -> Path:
    path = folder / "module.py"
    path.write_text(text)
    return path


def test_the_summary_tells_times_rows_memory_and_starts_and_leaves_standard_output_to_rows(video: Path, tmp_path: Path) -> None:
    done = run_privid("try", module(tmp_path, ROWS), video, "--chunk", "1s", "--max-rows", "3", "--timeout", "20s")
    assert [json.loads(line)["chunk"] for line in done.stdout.splitlines()] == ["0:00:01"] * 3 + ["0:00:02"] + ["0:00:03"] * 2
    said = done.stderr
    assert "5 chunks of 1s: 5 ended well\n" in said
    times = re.search(r"^time per chunk: least \S+ m?s, median \S+ m?s, most (\S+) (m?s)$", said, re.MULTILINE)
    assert "rows per chunk: least 0, median 1, most 4; 7 in all\n" in said
    assert "cut: 1 row in 1 chunk, more than --max-rows 3\n" in said
    assert re.search(r"^memory: at most \d+ of 2048 MiB, beside what importing the module took$", said, re.MULTILINE), said
    assert "started warm: 5 of 5\n" in said
    options = re.search(r"^suggested .*2 times what the slowest chunk took, 25 % more .*\n  chunk '1s', stride '0s', timeout '(\d+)(m?s)', "
                        r"max_rows '5'$", said, re.MULTILINE)
    assert times and options, said
    slowest, timeout = (float(found[1]) * (1 if found[2] == "ms" else 1000) for found in (times, options))
    assert 2 * slowest * 0.99 <= timeout <= max(10, 2.3 * slowest), said


def test_begin_and_end_choose_a_piece_of_the_video_and_no_rows_is_said_aloud(video: Path, tmp_path: Path,
                                                                             capsys: pytest.CaptureFixture[str]) -> None:
    path = module(tmp_path, ROWS)
    done = run_privid("try", path, video, "--chunk", "1s", "--begin", "2s", "--end", "4.5s", "--timeout", "20s")
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"chunk": "0:00:02", "i": 0}, {"chunk": "0:00:03", "i": 0}, {"chunk": "0:00:03", "i": 1}]
    assert "NO ROWS" not in done.stderr
    done = run_privid("try", path, video, "--chunk", "1s", "--chunks", "1", "--timeout", "20s")
    assert done.stdout == "" and "NO ROWS: the program printed none in any of the 1 chunk\n" in done.stderr
    assert "no suggestion: there are no rows" in done.stderr
    for refusal, reason in ((("--begin", "1min"), "--begin of 60 s is outside the video, which lasts 5 s"),
                            (("--begin", "3s", "--end", "3s"), "--begin of 3 s is not before the end, 3 s"),
                            (("--begin", "4s", "--chunk", "2s"), "chunk of 2 s is longer than the window")):
        assert main(["try", str(path), str(video), *refusal]) == 1
        assert reason in capsys.readouterr().err


def test_with_columns_it_says_which_values_a_table_would_not_hold_as_they_were_printed(video: Path, tmp_path: Path) -> None:
    path = module(tmp_path, "def process(chunk):\n"
                            "    yield {'speed': 50, 'kind': 'car', 'name': 'x' * 2000}\n"
                            "    yield {'speed': 'fast', 'kind': 'cat', 'sped': 1}\n"
                            "    print('all done')\n")
    columns = "speed float8 OPTIONS (low '0', high '9') DEFAULT 1, kind text OPTIONS (keys 'car, none') DEFAULT 'none', name text"
    said = run_privid("try", path, video, "--chunk", "1s", "--chunks", "2", "--timeout", "20s", "--columns", columns).stderr
    for line in ('column "speed": 2 of 4 values moved to its low or high', 'column "speed": 2 of 4 values of another type, the default in',
                 'column "kind": 2 of 4 values not among its keys, the default in',
                 'column "name": 2 of 4 values cut to what can be stored, 1024 characters',
                 'column "name": 2 of 4 values missing, the default in their place', "printed, but not among --columns: sped"):
        assert line in said, said
    assert "rows per chunk: 2 in each; 4 in all" in said and "max_rows '2'" in said  # every chunk printed as many: no margin


def test_a_run_takes_as_long_as_its_program_and_not_its_whole_slot(video: Path, tmp_path: Path) -> None:
    began = time.monotonic()
    run_privid("try", module(tmp_path, ROWS), video, "--chunk", "1s", "--chunks", "2", "--timeout", "1min")
    assert time.monotonic() - began < 60


def test_it_says_why_a_start_was_cold(video: Path, tmp_path: Path) -> None:
    untidy = "open('/tmp/left', 'w').close()\n" + ROWS
    program = tmp_path / "program.sh"
    program.write_text("#!/bin/sh\necho '{}'\necho nothing\n")
    for path, more, reason in ((module(tmp_path, untidy), (), "the module "), (program, (), "it is a program, and only modules can"),
                               (tmp_path / "module.py", ("--cold",), "warm starts are switched off")):
        said = run_privid("try", path, video, "--chunk", "1s", "--chunks", "1", "--timeout", "20s", *more).stderr
        assert f"started cold: 1 of 1; {reason}" in said, said
        assert re.search(r"^memory: at most \d+ of 2048 MiB$", said, re.MULTILINE), said
        assert ("cut: 1 line that are not JSON objects" in said) == (path is program), said


def test_a_chunk_that_does_not_end_in_time_is_counted_and_leaves_no_suggestion(video: Path, tmp_path: Path) -> None:
    path = module(tmp_path, ROWS + "    import time\n    time.sleep(9 if i == 3 else 0)\n")
    done = run_privid("try", path, video, "--chunk", "1s", "--begin", "1s", "--end", "3s", "--timeout", "3s", check=False)
    assert done.returncode == 1 and "2 chunks of 1s: 1 ended well, 1 did not end in time" in done.stderr
    assert "no suggestion: 1 chunk did not end within 3s; try a longer --timeout" in done.stderr


def test_where_memory_is_not_known_it_is_left_out_and_few_rows_are_told_from_none() -> None:
    runs = [Measured("ok", 0.1, rows, why_cold="so") for rows in (0, 0, 3)]
    said = "\n".join(summary(runs, {"chunk": "1s", "timeout": "1s"}, None))
    assert "memory" not in said and "NO ROWS in most chunks: the program printed none in 2 of 3" in said
    assert "started cold: 3 of 3; so" in said and "chunk '1s', timeout '200ms', max_rows '4'" in said
