"""What a recording is: exact rate, number of frames, content; and everything that makes a frame's number doubtful is refused."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from privid.errors import VideoUnreadable
from privid.model import Footage
from privid.video import Decoder, open_footage, probe
from privid.video.process import Worker
from privid.video.rate import exact_rate, frame_numbers

Open = Callable[..., Footage]
Write = Callable[..., Path]


def _refused(footage: Open, source: str, **options: Any) -> VideoUnreadable:
    with pytest.raises(VideoUnreadable) as caught:
        footage(source, **options)
    assert caught.value.message[0].islower() and not caught.value.message.endswith(".")
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize(("name", "rate", "options"), [
    ("a.mp4", "30", {}),
    ("a.mp4", "30000/1001", {"options": {"bf": "3"}}),
    ("a.mp4", "24.01", {"options": {"bf": "2"}}),
    ("a.mkv", "30000/1001", {"options": {"bf": "3"}}),
    ("a.mkv", "30", {}),
    ("a.mkv", "24.01", {}),
    ("a.mkv", "25/2", {"codec": "mpeg4"}),
    ("a.mov", "60000/1001", {"codec": "mpeg4"}),
    ("a.avi", "25", {"codec": "mpeg4"}),
    ("a.avi", "24.01", {"codec": "mjpeg", "pixels": "yuvj420p"}),
    ("a.webm", "30", {"codec": "libvpx-vp9", "options": {"deadline": "realtime", "cpu-used": "8"}}),
    ("a.mp4", "30", {"container": {"movflags": "frag_keyframe+empty_moov"}}),
])
def test_rate_frames_and_size_are_exact(footage: Open, write: Write, name: str, rate: str, options: dict[str, Any]) -> None:
    path = write(name, 100, rate, **options)
    found = footage(name)
    assert (found.fps, found.frames, found.width, found.height) == (Fraction(rate), 100, 64, 48)
    (file,) = found.files
    assert (file.path, file.first_frame, file.frames) == (name, 0, 100)
    assert file.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_rounded_times_do_not_hide_the_rate_of_a_long_recording() -> None:
    for rate in (Fraction(30), Fraction(30000, 1001), Fraction(24000, 1001), Fraction(15), Fraction(2401, 100)):
        times = np.array([round(i * 1000 / rate) for i in range(20_000)])
        assert exact_rate(times, Fraction(1, 1000), [], None) == rate


def test_times_in_nanoseconds_over_a_year_do_not_overflow() -> None:
    rate = Fraction(30000, 1001)
    times = np.array([round(i * 1_000_000_000 / rate) for i in (0, 1, 2, 946_000_000)])
    frames = frame_numbers(times, Fraction(1, 1_000_000_000), rate)
    assert frames is not None and frames.tolist() == [0, 1, 2, 946_000_000]


def test_files_of_a_camera_stand_end_to_end(footage: Open, write: Write) -> None:
    for i, name in enumerate(["b.mp4", "a.mp4", "c.mp4"]):
        write(f"cam/{name}", 20 + i, 10)
    found = footage("cam/*.mp4")
    assert [(f.path, f.first_frame, f.frames) for f in found.files] == [("cam/a.mp4", 0, 21), ("cam/b.mp4", 21, 20), ("cam/c.mp4", 41, 22)]
    assert found.frames == 63


def test_files_that_disagree_in_rate_or_size_are_refused(footage: Open, write: Write) -> None:
    write("rate/a.mp4", 20, 10)
    write("rate/b.mp4", 20, 12)
    assert _refused(footage, "rate/*.mp4").message == 'video file "rate/b.mp4" has 12 frames per second, but "rate/a.mp4" has 10'
    write("size/a.mp4", 20, 10)
    write("size/b.mp4", 20, 10, size=(80, 48))
    assert _refused(footage, "size/*.mp4").message == 'video file "size/b.mp4" has 80 x 48 pixels, but "size/a.mp4" has 64 x 48'


def test_the_owners_rate_must_agree(footage: Open, write: Write) -> None:
    write("a.mp4", 50, "30000/1001")
    assert footage("a.mp4", fps=Fraction(30000, 1001)).fps == Fraction(30000, 1001)
    error = _refused(footage, "a.mp4", fps=Fraction(30))
    assert error.message == 'video file "a.mp4" has 30000/1001 frames per second, not 30'
    assert error.hint is not None and "'30000/1001'" in error.hint


def test_a_variable_frame_rate_is_refused_with_the_command_that_mends_it(footage: Open, write: Write) -> None:
    times = [0, 1, 2, 4, 5, 8, 9, 10, 13, 14, 17, 18, 20, 23, 24, 26, 27, 30, 31, 33]
    write("a.mp4", 20, 30, times=times)
    write("a.mkv", 20, 30, times=times)
    for name in ("a.mp4", "a.mkv"):
        error = _refused(footage, name)
        assert error.message == f'video file "{name}" has a variable frame rate'
        assert error.hint is not None and "ffmpeg" in error.hint and "-fps_mode cfr" in error.hint


def test_a_missing_frame_is_named(footage: Open, write: Write) -> None:
    write("a.mp4", 60, 30, times=[i for i in range(61) if i != 37])
    assert _refused(footage, "a.mp4").message == 'frame 37 of video file "a.mp4" is missing'


@pytest.mark.parametrize(("name", "options"), [
    ("front.mp4", {"container": {"movflags": "faststart"}}),
    ("back.mp4", {}),
    ("a.mkv", {}),
    ("a.avi", {"codec": "mpeg4"}),
    ("fragments.mp4", {"container": {"movflags": "frag_keyframe+empty_moov"}}),
])
@pytest.mark.parametrize("kept", [0.5, 0.97])
def test_a_truncated_file_is_refused(footage: Open, write: Write, name: str, options: dict[str, Any], kept: float) -> None:
    path = write(name, 200, 25, **options)
    os.truncate(path, int(path.stat().st_size * kept))
    error = _refused(footage, name)
    assert error.message == f'video file "{name}" is truncated'
    assert error.detail is not None and str(path.stat().st_size) in error.detail


def test_fewer_frames_than_declared_are_refused_with_both_numbers(footage: Open, write: Write) -> None:
    """Padding a cut file to its old length does not bring its frames back."""
    path = write("a.avi", 200, 25, codec="mpeg4")
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] + bytes(len(data) - len(data) // 2))
    error = _refused(footage, "a.avi")
    assert error.message == 'video file "a.avi" is truncated'
    assert error.detail is not None and "200 frames" in error.detail


def test_a_file_whose_last_frames_are_zeros_is_refused(footage: Open, write: Write) -> None:
    path = write("a.mp4", 200, 25, container={"movflags": "faststart"})
    data = path.read_bytes()
    path.write_bytes(data[:-60] + bytes(60))
    assert _refused(footage, "a.mp4").message.startswith("could not decode frame 1")


def test_garbage_and_empty_files_and_playlists_are_refused(footage: Open, write: Write, root: Path) -> None:
    write("good.mp4", 20, 10)
    (root / "empty.mp4").touch()
    (root / "garbage.mp4").write_bytes(np.random.default_rng(1).bytes(20_000))
    (root / "text.mp4").write_text("not a video\n" * 100)
    (root / "list.mp4").write_text("ffconcat version 1.0\nfile good.mp4\n")
    (root / "stream.mp4").write_text(f"#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\nfile://{root}/good.mp4\n#EXT-X-ENDLIST\n")
    assert _refused(footage, "empty.mp4").message == 'video file "empty.mp4" is empty'
    for name in ("garbage.mp4", "text.mp4", "list.mp4", "stream.mp4"):
        assert _refused(footage, name).message == f'video file "{name}" cannot be read'


def test_sound_without_picture_is_refused(footage: Open, root: Path) -> None:
    with av.open(str(root / "a.mp4"), "w") as out:
        stream = out.add_stream("aac", rate=8000)
        for i in range(10):
            frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
            frame.rate, frame.pts = 8000, i * 1024
            out.mux(stream.encode(frame))
        out.mux(stream.encode(None))
    assert _refused(footage, "a.mp4").message == 'video file "a.mp4" has sound but no picture'


def test_an_absurd_picture_size_is_refused_with_numbers(footage: Open, write: Write) -> None:
    write("a.mkv", 2, 10, codec="ffv1", size=(8704, 64))
    assert _refused(footage, "a.mkv").message == 'video file "a.mkv" has pictures of 8704 x 64 pixels'


def test_an_avi_with_reordered_frames_is_refused(footage: Open, write: Write) -> None:
    write("a.avi", 50, 25, options={"bf": "2"})
    assert _refused(footage, "a.avi").message == 'video file "a.avi" does not tell when its frames are shown'


def test_facts_are_found_once_and_broken_cache_entries_are_found_again(
        footage: Open, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []

    def counted() -> Worker:
        started.append(1)
        return Worker()

    monkeypatch.setattr(probe, "Worker", counted)
    write("a.mp4", 20, 10)
    first = footage("a.mp4")
    assert footage("a.mp4") == first and len(started) == 1
    (entry,) = (tmp_path / "cache").iterdir()
    text = entry.read_text()
    for broken in ("", "{", text[:-20], text.replace('"frames": 20', '"frames": 21'), json.dumps([1])):
        before = len(started)
        entry.write_text(broken)
        assert footage("a.mp4") == first and len(started) == before + 1


def test_a_rewritten_file_is_another_recording_even_with_its_old_times(footage: Open, write: Write) -> None:
    path = write("a.mp4", 20, 10)
    before, old = path.stat(), footage("a.mp4")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1  # the last byte is metadata: same size, same frames
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size and path.stat().st_mtime_ns == before.st_mtime_ns
    assert footage("a.mp4").files[0].sha256 != old.files[0].sha256


def test_a_file_that_changed_since_is_not_decoded(footage: Open, write: Write, root: Path, tmp_path: Path) -> None:
    path = write("a.mp4", 20, 10)
    found = footage("a.mp4")
    write("a.mp4", 20, 10, first=100)
    with Decoder(root, found) as decoder, pytest.raises(VideoUnreadable, match="changed since"):
        decoder.read(0, 5, tmp_path)
    assert not (tmp_path / "frames.npy").exists()
    path.unlink()
    with Decoder(root, found) as decoder, pytest.raises(VideoUnreadable, match="does not exist"):
        decoder.read(0, 5, tmp_path)


def test_an_unwritable_cache_costs_time_and_not_the_answer(write: Write, root: Path) -> None:
    write("a.mp4", 20, 10)
    assert open_footage(root, "a.mp4", None, Path("/proc/none")).frames == 20
