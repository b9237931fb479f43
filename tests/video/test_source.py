"""A source names files below the video root and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from privid.errors import VideoUnreadable
from privid.video.source import list_files, open_file, shown


def _fill(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)


def _refused(root: Path, source: str) -> VideoUnreadable:
    with pytest.raises(VideoUnreadable) as caught:
        for path in list_files(root, source):
            os.close(open_file(root, path))
    assert caught.value.hint
    return caught.value


def test_a_pattern_names_its_files_sorted_by_name(root: Path) -> None:
    _fill(root, "campus/b.mp4", "campus/a.mp4", "campus/.hidden.mp4", "campus/notes.txt", "other/c.mp4", "stray.mp4")
    assert list_files(root, "campus/*.mp4") == ["campus/a.mp4", "campus/b.mp4"]
    assert list_files(root, "*/[ac].mp4") == ["campus/a.mp4", "other/c.mp4"]
    assert list_files(root, "./campus//a.mp4") == ["campus/a.mp4"]


def test_the_descriptor_is_of_the_named_file(root: Path) -> None:
    _fill(root, "campus/day/a.mp4")
    fd = open_file(root, "campus/day/a.mp4")
    assert os.read(fd, 100) == b"campus/day/a.mp4"
    os.close(fd)


@pytest.mark.parametrize("source", ["/etc/passwd", "../outside.mp4", "a/../../outside.mp4", "a/..", "x\0y"])
def test_a_source_that_leaves_the_root_is_refused(root: Path, source: str) -> None:
    _fill(root, "a/x.mp4", "../outside.mp4")
    assert "leaves the video root" in _refused(root, source).message


@pytest.mark.parametrize("source", ["", ".", "./."])
def test_an_empty_source_is_refused(root: Path, source: str) -> None:
    assert "empty" in _refused(root, source).message


@pytest.mark.parametrize("source", ["link.mp4", "*.mp4", "folder/a.mp4", "*/a.mp4", "folder/*.mp4"])
def test_a_symbolic_link_anywhere_below_the_root_is_refused(root: Path, source: str) -> None:
    _fill(root, "../outside/a.mp4")
    (root / "link.mp4").symlink_to(root.parent / "outside" / "a.mp4")
    (root / "folder").symlink_to(root.parent / "outside")
    assert "symbolic link" in _refused(root, source).message


def test_a_link_planted_after_the_listing_is_not_followed(root: Path) -> None:
    _fill(root, "day/a.mp4", "../outside/a.mp4")
    (path,) = list_files(root, "day/*.mp4")
    (root / "day").rename(root / "night")
    (root / "day").symlink_to(root.parent / "outside")
    with pytest.raises(VideoUnreadable, match="symbolic link"):
        open_file(root, path)


def test_a_fifo_is_refused_without_waiting_for_a_writer(root: Path) -> None:
    os.mkfifo(root / "pipe.mp4")
    assert "neither a file nor a folder" in _refused(root, "pipe.mp4").message
    with pytest.raises(VideoUnreadable, match="neither a file nor a folder"):
        open_file(root, "pipe.mp4")


def test_a_folder_is_refused_with_a_hint(root: Path) -> None:
    _fill(root, "campus/a.mp4")
    error = _refused(root, "campus")
    assert error.message == 'video file "campus" is a folder' and error.hint is not None and "*.mp4" in error.hint


def test_a_missing_file_and_a_pattern_without_match_are_told_apart(root: Path) -> None:
    _fill(root, "campus/a.mp4")
    assert _refused(root, "campus/b.mp4").message == 'video file "campus/b.mp4" does not exist'
    assert _refused(root, "campus/*.avi").message == 'no video file matches source "campus/*.avi"'
    assert _refused(root, "*/none/*.mp4").message.startswith("no video file matches")
    assert _refused(root, "campus/a.mp4/b.mp4").message == 'video file "campus/a.mp4" is not below a folder'


def test_a_file_that_may_not_be_read_is_refused(reachable_directory: Path) -> None:
    folder = reachable_directory / "forbidden"
    folder.mkdir(mode=0o755)
    (folder / "a.mp4").write_text("a")
    (folder / "a.mp4").chmod(0)
    privileged = os.geteuid() == 0
    if privileged:
        os.seteuid(65534)
    try:
        assert _refused(folder, "a.mp4").message == 'permission denied for video file "a.mp4"'
    finally:
        if privileged:
            os.seteuid(0)


def test_a_video_root_that_is_gone_is_told(tmp_path: Path) -> None:
    assert _refused(tmp_path / "gone", "a.mp4").message == "could not open the video root"


def test_a_name_with_line_breaks_does_not_break_the_message() -> None:
    assert shown("a\n\x1b[31mb.mp4") == "a??[31mb.mp4"
    assert len(shown("x" * 5000)) == 200
