"""privid try: the same sandbox as a table's, on a video of one's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import run_privid, write_video


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three seconds: dark, brighter, brightest."""
    return write_video(tmp_path_factory.mktemp("try") / "my [own] video.mp4", [10] * 10 + [20] * 10 + [30] * 10)


def test_rows_of_each_chunk_are_printed_as_json_lines(video: Path, tmp_path: Path) -> None:
    module = tmp_path / "level.py"
    module.write_text("def process(chunk):\n    print('seen', chunk.frames.shape)\n"
                      "    for i in range(3):\n        yield {'level': int(chunk.frames[0, 0, 0, 0]), 'i': i}\n")
    done = run_privid("try", module, video, "--chunk", "1s", "--timeout", "10s", "--max-rows", "2")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert rows == [{"chunk": f"0:00:0{s}", "level": 10 * (s + 1), "i": i} for s in range(3) for i in range(2)]
    assert "0:00:01: seen (10, 48, 64, 3)" in done.stderr
    assert "0:00:02: 1 more rows than --max-rows were dropped" in done.stderr


def test_what_goes_wrong_is_shown_and_makes_the_exit_code_1(video: Path, tmp_path: Path) -> None:
    program = tmp_path / "broken.sh"
    program.write_text("#!/bin/sh\necho oops >&2\nexit 3\n")
    done = run_privid("try", program, video, "--chunk", "1s", "--timeout", "10s", "--chunks", "1", check=False)
    assert done.returncode == 1 and done.stdout == ""
    assert "0:00:00: oops" in done.stderr and "the program crashed" in done.stderr


def test_what_cannot_be_run_is_refused(video: Path, tmp_path: Path) -> None:
    letter = tmp_path / "letter.txt"
    letter.write_text("Dear reader")
    good = tmp_path / "good.py"
    good.write_text("def process(chunk):\n    yield {}\n")
    for arguments, reason in (((letter, video), "letter.txt"), ((letter, tmp_path / "none.mp4"), "does not exist"),
                              ((good, video, "--chunk", "950.5ms"), "whole number of frames")):
        done = run_privid("try", *arguments, check=False)
        assert done.returncode == 1 and reason in done.stderr, done.stderr
    assert run_privid("try", letter, video, "--chunk", "soon", check=False).returncode == 2


def test_with_columns_the_rows_are_those_that_a_table_would_hold(video: Path, tmp_path: Path) -> None:
    module = tmp_path / "level.py"
    module.write_text("def process(chunk):\n    level = int(chunk.frames[0, 0, 0, 0])\n    assert level < 30\n"
                      "    yield {'level': level, 'name': 7 if level == 10 else 'b', 'extra': 1}\n")
    columns = "chunk timestamptz, level float8 DEFAULT -1, name text DEFAULT 'it''s, none', seen boolean"
    done = run_privid("try", module, video, "--chunk", "1s", "--timeout", "10s", "--columns", columns, check=False)
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"chunk": "0:00:00", "level": 10, "name": "it's, none", "seen": False},
        {"chunk": "0:00:01", "level": 20, "name": "b", "seen": False},
        {"chunk": "0:00:02", "level": -1, "name": "it's, none", "seen": False}]
    assert done.returncode == 1 and "0:00:02: the program crashed" in done.stderr
    columns = """level float8 OPTIONS (low '12', high '15') DEFAULT 13, name text OPTIONS (keys 'none, "a, b"') DEFAULT 'none'"""
    done = run_privid("try", module, video, "--chunk", "1s", "--timeout", "10s", "--columns", columns, check=False)
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"chunk": "0:00:00", "level": 12, "name": "none"}, {"chunk": "0:00:01", "level": 15, "name": "none"},
        {"chunk": "0:00:02", "level": 13, "name": "none"}]
    refused = run_privid("try", module, video, "--columns", columns.replace("DEFAULT 13", "DEFAULT 0"), check=False)
    assert refused.returncode == 1 and "is 0, but must lie between 12 and 15" in refused.stderr
    refused = run_privid("try", module, video, "--columns", "level money", check=False)
    assert refused.returncode == 2 and '"level money" is not a column' in refused.stderr
