"""privid try --tune: the errors that chunk lengths and max_rows would have, on a video in which everything is known."""

from __future__ import annotations

import doctest
import re
from argparse import Namespace
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import cv2
import pytest

from privid.cli import plot, try_measure, try_plot, try_tune
from privid.cli.main import main
from privid.cli.try_measure import duration
from privid.cli.try_tune import chosen_lengths
from privid.fdw.wrapper import ChunkRun, ChunkTable
from privid.model import Footage, VideoFile
from tests.conftest import run_privid, write_video

#: a row for each time that the brightness changes, which is not seen between chunks
CHANGES = """
def process(chunk):
    level = chunk.frames[:, 0, 0, 0].astype(int)
    for change in level[1:] - level[:-1]:
        if change:
            yield {"change": int(change)}
"""
Line = tuple[str, int, float, float, int, float, float]


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve seconds that change every half second: 23 changes, of which chunks of 6 s see 22, of 2 s 18, and of 1 s 12."""
    return write_video(tmp_path_factory.mktemp("tune") / "blink.mp4", [40 * (frame // 5 % 2) for frame in range(120)], width=16, height=16)


@pytest.fixture(scope="module")
def changes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("module") / "changes.py"
    path.write_text(CHANGES)
    return path


def lines(text: str) -> dict[tuple[str, int], Line]:
    """The table that was printed, by chunk and max_rows: chunking, cut, chunks met, noise, error."""
    found = re.findall(r"^ +(\w+) +(\d+) +(\S+) +(\S+) +(\d+) +\+/-(\S+) +(\S+) +\d+ %", text, re.MULTILINE)
    return {(line[0], int(line[1])): (line[0], int(line[1]), *map(float, line[2:])) for line in found}


def test_tuning_prints_what_is_cut_and_what_noise_adds_and_marks_and_draws_the_best(video: Path, changes: Path, tmp_path: Path) -> None:
    plot = tmp_path / "errors.png"
    said = run_privid("try", changes, video, "--tune", "--rho", "1s", "--k", "2", "--epsilon", "4", "--window", "1h",
                      "--chunk", "2s,1s,6s", "--plot", plot).stdout
    found = lines(said)
    assert [key for key in found if key[0] != "6s"] == [("1s", 1), ("2s", 1), ("2s", 2), ("2s", 3)]
    assert "6600 rows expected, as chunks of 6s have them" in said  # 22 in 12 s, in an hour
    # chunking: 12 and 18 of 22; cut: 1 of 3 rows in each chunk of 2 s; met: a second meets 2 chunks of any of these lengths
    assert [found["1s", 1][n] for n in (2, 3, 4)] == [-3000, 0, 2]
    assert [found["2s", 2][n] for n in (2, 3, 4)] == [-1200, -1800, 2]
    assert [found["6s", 11][n] for n in (2, 3, 4)] == [0, 0, 2]
    # scale K * max_rows * met / epsilon = 11, whose 95 % error is 33 and whose standard deviation is its root-two-fold
    assert found["6s", 11][5] == 33 and found["6s", 11][6] == pytest.approx(11 * 2 ** 0.5, abs=0.1)
    assert found["2s", 2][6] == pytest.approx((1200 ** 2 + 1800 ** 2) ** 0.5, abs=1)
    assert [line.split()[:2] for line in said.splitlines() if line.endswith("<- best")] == [["6s", "11"]]
    assert re.search(r"^best: chunk '6s', stride '0s', timeout '\d+m?s', max_rows '11'$", said, re.MULTILINE), said
    drawn = cv2.imread(str(plot))
    assert drawn is not None and drawn.shape == (420, 960, 3) and len({tuple(pixel) for pixel in drawn.reshape(-1, 3)}) > 50


def test_each_chunk_is_run_once_whatever_number_of_max_rows_is_compared(video: Path, changes: Path, monkeypatch: pytest.MonkeyPatch,
                                                                        capsys: pytest.CaptureFixture[str]) -> None:
    ran: list[tuple[int, int]] = []
    runs = ChunkTable.runs

    def counted(table: ChunkTable, *arguments: Any, **more: Any) -> Iterator[ChunkRun]:
        for run in runs(table, *arguments, **more):
            ran.append(table.table.grid.frames(run.chunk))
            yield run

    monkeypatch.setattr(ChunkTable, "runs", counted)
    assert main(["try", str(changes), str(video), "--tune", "--rho", "1s", "--epsilon", "1", "--begin", "3s", "--chunk", "2s,4s",
                 "--truth", "17"]) == 0
    # what the longest chunks cover of the last nine seconds: eight of them
    assert ran == [*((30 + 20 * n, 50 + 20 * n) for n in range(4)), *((30 + 40 * n, 70 + 40 * n) for n in range(2))]
    said = capsys.readouterr().out
    assert len(lines(said)) == 3 + 7 and "count over 9s, rho 1s, k 1, epsilon 1: 17 rows expected, as --truth has them" in said


def test_the_noise_that_tuning_expects_is_that_which_explain_announces(stack: Any, unique: Callable[[str], str], video: Path,
                                                                       changes: Path) -> None:
    camera = unique("camera")
    stack.camera(camera, "levels.mp4", rho="1.2s", k="3")
    stack.executable("brightness")
    stack.table(camera, camera, "brightness", chunk="2s", stride="-1s", max_rows="2")
    with stack.connect() as connection:
        connection.execute("SET privid.epsilon = 0.7")
        told = connection.execute(f"EXPLAIN (FORMAT JSON) SELECT count(*) FROM {camera}".encode()).fetchone()[0]
    error = re.search(r"'Error 95%': \[?'?([\d.]+)", str(told))
    said = run_privid("try", changes, video, "--tune", "--rho", "1.2s", "--k", "3", "--epsilon", "0.7", "--chunk", "2s", "--stride=-1s",
                      "--end", "6s", "--window", "10s").stdout
    assert error and lines(said)["2s", 2][5] == float(error[1]), (told, said)


def test_without_lengths_some_around_rho_are_compared_that_are_whole_frames_and_fit() -> None:
    def lengths(rho: str, seconds: int, fps: Fraction, width: int = 640, stride: int = 0) -> list[str]:
        footage = Footage((VideoFile("street.mp4", "", 0, int(seconds * fps)),), fps, width, 360)
        options = Namespace(chunk=None, rho=Fraction(rho), stride=Fraction(stride))
        return [duration(length) for length in chosen_lengths(options, footage, Fraction(seconds))]

    assert lengths("30", 600, Fraction(10)) == ["5s", "10s", "15s", "30s", "60s"]
    assert lengths("30", 25, Fraction(10)) == ["5s", "10s"]  # two chunks at least
    assert lengths("30", 600, Fraction(10), stride=-10) == ["15s", "30s", "60s"]  # the others would never get on
    assert lengths("30", 600, Fraction(30), width=1920) == ["5s", "10s", "15s"]  # a gigabyte at most
    assert lengths("3600", 30, Fraction(10)) == ["2s", "5s", "10s", "15s"]  # none is near: the longest that fit
    assert lengths("4", 60, Fraction(30000, 1001))[0] == "1001ms"


def test_the_examples_in_the_documentation_of_functions_are_right() -> None:
    for part in (plot, try_measure, try_plot, try_tune):
        tried = doctest.testmod(part)
        assert tried.attempted and not tried.failed, part.__name__


def test_options_that_do_not_go_together_are_refused_with_what_to_do(video: Path, changes: Path,
                                                                     capsys: pytest.CaptureFixture[str]) -> None:
    tune = ("--tune", "--rho", "1s", "--epsilon", "1")
    for arguments, reason in ((("--rho", "1s"), "option --rho cannot be used without --tune"),
                              (tune[:3], "option --tune needs option --epsilon"),
                              (("--tune", "--rho", "0s", "--epsilon", "1"), "option --rho must be above 0, but is 0"),
                              (("--tune", "--rho", "50ms", "--epsilon", "1"), "--rho of 50ms is shorter than a frame, which lasts 100ms"),
                              ((*tune, "--max-rows", "3"), "option --max-rows cannot be used with --tune"),
                              ((*tune, "--plot", "a.jpg"), "Name a file that ends in .png"),
                              ((*tune, "--chunk", "1s,4s", "--window", "3s"), "chunk of 4s is longer than the window of 3s"),
                              ((*tune, "--chunk", "20s"), "chunk of 20s is longer than the window of 12s"),
                              (("--chunk", "1s,2s"), "option --chunk has more than one length")):
        assert main(["try", str(changes), str(video), *arguments]) == 1
        said = capsys.readouterr()
        assert reason in said.err and said.out == "", said
    for arguments in (("--tune", "--epsilon", "some"), ("--k", "0"), ("--begin", "soon"), ("--chunk", "1s,")):
        with pytest.raises(SystemExit, match="2"):
            main(["try", str(changes), str(video), *arguments])
        assert "privid try: error: argument" in capsys.readouterr().err


def test_programs_without_rows_or_with_the_same_number_in_every_chunk_are_not_tuned_in_silence(video: Path, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    arguments = ("--tune", "--rho", "1s", "--epsilon", "1", "--chunk", "1s,2s", "--end", "4s", "--timeout", "5s")
    path.write_text("def process(chunk):\n    yield from ()\n")
    refused = run_privid("try", path, video, *arguments, check=False)
    assert refused.returncode == 1 and "no rows: the program printed none in any chunk" in refused.stderr
    path.write_text("def process(chunk):\n    assert len(chunk.frames) == 10\n    yield {}\n")
    failed = run_privid("try", path, video, *arguments, check=False)
    assert failed.returncode == 1 and "chunks of 2s: in 2 of 2 the program crashed" in failed.stderr
    path.write_text("def process(chunk):\n    yield {}\n")
    assert "every chunk printed 1 row, whatever its length" in run_privid("try", path, video, *arguments).stderr
