"""Files that commands read and write: only files, of a length that they may have, and nothing that a link leads to."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from privid.cli.archive import Archive
from privid.cli.plot import Plot
from privid.cli.terminal import CommandFailed
from tests.conftest import run_privid, write_video

Refused = Callable[..., str]


def _little_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))


@pytest.fixture
def refused(tmp_path: Path) -> Refused:
    """What a command says that does not go on; it is given little memory and little time."""
    def run(*arguments: str | Path) -> str:
        told = run_privid(*arguments, "--dsn", "host=nowhere.invalid", check=False, preexec_fn=_little_memory)
        assert told.returncode == 1 and "Traceback" not in told.stderr, told.stderr
        return told.stderr

    return run


def odd(folder: Path) -> list[Path]:
    """What is no file, or has no end worth waiting for."""
    os.mkfifo(folder / "fifo.py")
    with (folder / "sparse.py").open("wb") as sparse:
        sparse.truncate(1 << 42)
    return [Path("/dev/zero"), folder / "fifo.py", folder, folder / "sparse.py"]


def test_what_has_no_end_is_neither_uploaded_nor_run_nor_made_a_mask(tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "good.py").write_text("def process(chunk): pass\n")
    *others, sparse = odd(tmp_path)
    for command in (("upload",), ("upload", tmp_path / "good.py"), ("query",), ("mask", "c", "m", "--rho", "1s")):
        for path in others:
            assert f'could not read "{path}": it is' in refused(*command, path), (command, path)
        assert f'file "{sparse}" has {1 << 42} bytes, but' in refused(*command, sparse), command


def test_what_has_no_end_is_not_tried(tmp_path: Path) -> None:
    video = write_video(tmp_path / "videos" / "v.mp4", [10] * 20)
    for path in odd(tmp_path):
        done = run_privid("try", path, video, check=False, preexec_fn=_little_memory)
        said = "could not read executable" if path.name == "sparse.py" else "does not exist"
        assert done.returncode == 1 and said in done.stderr and "Traceback" not in done.stderr, done.stderr


def number(value: int) -> bytes:
    return b"\0" + value.to_bytes(4, "little")


HEAD = b"PGDMP\x01\x0e\x00\x04\x08\x01" + number(0) * 8


@pytest.mark.parametrize("content", [
    HEAD + number(2**31 - 1) + b"short",  # a text
    HEAD + number(0) * 3 + number(2**31 - 1),  # objects
    HEAD[:8] + b"\xff" + HEAD[9:] + b"\0" * 100,  # a number of 255 bytes
    HEAD + number(0) * 3 + number(1) + number(1) * 2 + b"\0" * 40 + number(3) + b"abc" + b"\0" * 400,
    HEAD[:6],
])
def test_a_dump_that_promises_more_than_it_holds_is_refused_in_words(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "dump"
    path.write_bytes(content)
    with pytest.raises(CommandFailed, match=r"is cut off|is not a custom-format dump|is damaged"):
        Archive(path, Path("/usr/bin/false"))


def test_a_dump_is_a_regular_file(tmp_path: Path) -> None:
    for path in odd(tmp_path)[:2]:
        with pytest.raises(CommandFailed, match=r"could not read"):
            Archive(path, Path("/usr/bin/false"))
    with (tmp_path / "long").open("wb") as sparse:
        sparse.write(HEAD + number(2**31 - 1))
        sparse.truncate(1 << 40)
    with pytest.raises(CommandFailed, match=r"is damaged"):
        Archive(tmp_path / "long", Path("/usr/bin/false"))


def test_a_picture_is_written_to_no_goal_of_a_link(tmp_path: Path) -> None:
    precious, place = tmp_path / "precious", tmp_path / "plot.png"
    precious.write_text("mine")
    place.symlink_to(precious)
    with pytest.raises(CommandFailed, match="not a regular file"):
        Plot("title", (0, 1), (0, 1)).save(place)
    assert precious.read_text() == "mine" and place.is_symlink()
    place.unlink()
    os.mkfifo(place)
    with pytest.raises(CommandFailed, match="not a regular file"):
        Plot("title", (0, 1), (0, 1)).save(place)
    with pytest.raises(CommandFailed, match="No such file"):
        Plot("title", (0, 1), (0, 1)).save(tmp_path / "none" / "plot.png")
    place.unlink()
    os.link(precious, place)
    Plot("title", (0, 1), (0, 1)).save(place)
    assert precious.read_text() == "mine" and place.read_bytes().startswith(b"\x89PNG")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["plot.png", "precious"]
