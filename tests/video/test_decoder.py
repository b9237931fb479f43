"""Frames are exact, whatever is read in whatever order; trouble is an error and never a hang."""

from __future__ import annotations

import gc
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privid.errors import SandboxFailed, VideoUnreadable
from privid.model import Footage
from privid.video import Decoder, Overspent

Open = Callable[..., Footage]
Write = Callable[..., Path]
Numbers = Callable[[Decoder, int, int], list[int]]

KINDS: list[tuple[str, str, dict[str, Any]]] = [
    ("plain.mp4", "30", {"options": {"bf": "0"}}),
    ("reordered.mp4", "24.01", {"options": {"bf": "3", "b-pyramid": "normal"}, "gop": 30}),
    ("open.mkv", "30", {"options": {"x264-params": "open-gop=1:bframes=3:keyint=20:scenecut=0"}}),
    ("ntsc.mkv", "30000/1001", {"options": {"bf": "2"}, "gop": 60}),
    ("long.mp4", "25", {"gop": 600, "options": {"x264-params": "scenecut=0:keyint=600"}}),
    ("hevc.mp4", "30", {"codec": "libx265", "options": {"x265-params": "log-level=none:keyint=24:open-gop=1:pools=1"}}),
    ("mpeg4.avi", "25", {"codec": "mpeg4"}),
    ("intra.avi", "10", {"codec": "mjpeg", "pixels": "yuvj420p"}),
    ("fragments.mp4", "30", {"container": {"movflags": "frag_keyframe+empty_moov"}}),
]


@pytest.mark.parametrize(("name", "rate", "options"), KINDS)
def test_frames_are_exact_in_any_order(footage: Open, write: Write, root: Path, numbers: Numbers,
                                       name: str, rate: str, options: dict[str, Any]) -> None:
    write(name, 500, rate, **options)
    chance = random.Random(7)
    with Decoder(root, footage(name)) as decoder:
        for first in (0, 499, *(chance.randrange(490) for _ in range(16))):
            count = chance.randint(1, min(12, 500 - first))
            assert numbers(decoder, first, count) == list(range(first, first + count))


@pytest.mark.parametrize(("size", "step"), [(20, 20), (20, 5), (20, 1), (7, 40), (1, 13), (50, 49)])
def test_ascending_chunks_of_any_stride_are_exact(footage: Open, write: Write, root: Path, numbers: Numbers, size: int, step: int) -> None:
    write("a.mp4", 120, 30, options={"bf": "2"}, gop=25)
    with Decoder(root, footage("a.mp4")) as decoder:
        for first in range(0, 120 - size + 1, step):
            assert numbers(decoder, first, size) == list(range(first, first + size))


def test_a_file_that_was_made_for_frames_is_filled_and_one_that_has_frames_is_replaced(footage: Open, write: Write, root: Path,
                                                                                       tmp_path: Path) -> None:
    write("a.mp4", 10, 10)
    target = tmp_path / "frames.npy"
    target.touch()
    numbers = [target.stat().st_ino]
    with Decoder(root, footage("a.mp4")) as decoder:
        for _ in range(2):
            decoder.read(0, 2, tmp_path)
            numbers.append(target.stat().st_ino)
            os.link(target, tmp_path / f"kept-{len(numbers)}")  # as who still maps it does; or its number would be given out again
    assert numbers[0] == numbers[1] != numbers[2]


def test_reads_cross_the_borders_of_files_both_ways(footage: Open, write: Write, root: Path, numbers: Numbers) -> None:
    for i, name in enumerate(["a.mp4", "b.mp4", "c.mp4"]):
        write(f"cam/{name}", 30, 10, first=30 * i, options={"bf": "2"})
    with Decoder(root, footage("cam/*.mp4")) as decoder:
        for first, count in [(25, 10), (20, 50), (0, 90), (59, 2), (29, 1), (30, 1), (55, 20), (50, 20), (45, 20), (10, 80)]:
            assert numbers(decoder, first, count) == list(range(first, first + count))
        for first in range(80):
            assert numbers(decoder, first, 10) == list(range(first, first + 10))


def test_ascending_reads_decode_each_frame_once(footage: Open, write: Write, root: Path, numbers: Numbers) -> None:
    """A single group of pictures: a seek would have to begin at frame 0 again, so time would grow with the square."""
    write("a.mkv", 1500, 30, gop=1500, size=(320, 240), options={"x264-params": "scenecut=0:keyint=1500", "preset": "ultrafast"})
    with Decoder(root, footage("a.mkv")) as decoder:
        numbers(decoder, 0, 1)
        begin = time.process_time(), _cpu(decoder)
        for first in range(0, 1400, 5):  # overlapping by half
            assert numbers(decoder, first, 10) == list(range(first, first + 10))
        sequential = _cpu(decoder) - begin[1]
        begin_again = _cpu(decoder)
        assert numbers(decoder, 0, 1) == [0] and numbers(decoder, 1390, 10) == list(range(1390, 1400))
        once = _cpu(decoder) - begin_again
    assert sequential < 12 * once + 2


def _cpu(decoder: Decoder) -> float:
    """Seconds of processor time that the decoder process has used."""
    assert decoder._worker is not None
    fields = Path(f"/proc/{decoder._worker.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_pixels_of_a_lossless_file_come_out_as_they_went_in(root: Path, footage: Open, tmp_path: Path) -> None:
    import av

    pictures = np.random.default_rng(3).integers(0, 256, (5, 37, 50, 3), dtype=np.uint8)
    with av.open(str(root / "a.mkv"), "w") as out:
        stream: Any = out.add_stream("ffv1", rate=10)
        stream.width, stream.height, stream.pix_fmt = 50, 37, "bgr0"
        for picture in pictures:
            out.mux(stream.encode(av.VideoFrame.from_ndarray(picture, "bgr24")))
        out.mux(stream.encode(None))
    with Decoder(root, footage("a.mkv")) as decoder:
        decoder.read(1, 3, tmp_path)
    assert (np.load(tmp_path / "frames.npy") == pictures[1:4]).all()


def test_a_frame_damaged_in_the_middle_is_refused_by_name(footage: Open, write: Write, root: Path, numbers: Numbers) -> None:
    path = write("a.mp4", 900, 30, gop=10)
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle:middle + 400] = bytes(400)
    path.write_bytes(data)
    with Decoder(root, footage("a.mp4")) as decoder:
        assert numbers(decoder, 0, 20) == list(range(20))
        with pytest.raises(VideoUnreadable, match=r'could not decode frame \d+ of video file "a.mp4"') as caught:
            numbers(decoder, 20, 800)
        assert caught.value.hint
        assert numbers(decoder, 885, 15) == list(range(885, 900))  # the decoder goes on where the file is good


def test_a_decoder_process_that_dies_or_hangs_is_an_error_and_the_next_read_works(
        footage: Open, write: Write, root: Path, numbers: Numbers, monkeypatch: pytest.MonkeyPatch) -> None:
    write("a.mp4", 60, 30)
    with Decoder(root, footage("a.mp4")) as decoder:
        numbers(decoder, 0, 10)
        assert decoder._worker is not None
        os.kill(decoder._worker.pid, signal.SIGSEGV)
        with pytest.raises(VideoUnreadable, match=r'could not decode video file "a.mp4"') as caught:
            numbers(decoder, 10, 10)
        assert caught.value.detail is not None and "frames 10 to 19" in caught.value.detail
        assert numbers(decoder, 10, 10) == list(range(10, 20))
        os.kill(decoder._worker.pid, signal.SIGSTOP)
        monkeypatch.setattr("privid.video.decoder._PATIENCE", 0.5)
        with pytest.raises(VideoUnreadable, match="could not decode"):
            numbers(decoder, 20, 10)


def test_closing_from_another_thread_ends_a_read(footage: Open, write: Write, root: Path, tmp_path: Path) -> None:
    write("a.mp4", 60, 30)
    decoder = Decoder(root, footage("a.mp4"))
    decoder.read(0, 1, tmp_path)
    assert decoder._worker is not None
    os.kill(decoder._worker.pid, signal.SIGSTOP)
    timer = threading.Timer(0.3, decoder.close)
    timer.start()
    begin = time.monotonic()
    with pytest.raises(VideoUnreadable, match="could not read the video"):
        decoder.read(10, 10, tmp_path)
    assert time.monotonic() - begin < 10
    timer.join()
    decoder.close()


def test_a_full_disk_is_no_fault_of_the_video(footage: Open, write: Write, root: Path, tmp_path: Path) -> None:
    import resource

    write("a.mp4", 60, 30)
    found = footage("a.mp4")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with Decoder(root, found) as decoder, pytest.raises(SandboxFailed, match="could not write decoded frames"):
            decoder.read(0, 60, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, previous)


def test_no_process_and_no_descriptor_is_left_behind(footage: Open, write: Write, root: Path, numbers: Numbers) -> None:
    write("a.mp4", 60, 30)
    found = footage("a.mp4")
    gc.collect()  # what earlier tests have left to be collected is not counted here
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(2):
        decoder = Decoder(root, found)
        numbers(decoder, 0, 10)
        assert decoder._worker is not None
        pid = decoder._worker.pid
        decoder.close()
        assert not Path(f"/proc/{pid}").exists()
        del decoder
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize(("name", "rate", "options"), KINDS)
def test_a_read_that_takes_too_much_is_given_up_and_all_after_it_are_exact(footage: Open, write: Write, root: Path, numbers: Numbers,
                                                                           tmp_path: Path, name: str, rate: str,
                                                                           options: dict[str, Any]) -> None:
    write(name, 200, rate, **options)
    with Decoder(root, footage(name)) as decoder:
        decoder.start()
        for first, limit in ((0, 10**10), (10, 1), (20, 1), (30, 1), (40, 10**10), (52, 1), (50, 1), (90, 10**10), (95, 1)):
            if limit > 1:
                decoder.read(first, 10, tmp_path, limit)
            else:
                with pytest.raises(Overspent):
                    decoder.read(first, 10, tmp_path, limit)
            if first % 3 == 2:
                continue
            assert numbers(decoder, first + 10, 3) == list(range(first + 10, first + 13))


def test_what_a_read_costs_before_a_key_frame_is_not_what_the_next_pays(footage: Open, write: Write, root: Path, tmp_path: Path) -> None:
    """After one that was given up the decoder goes on where the pictures do not build on what was left out."""
    write("a.mp4", 200, 30, options={"bf": "3", "x264-params": "scenecut=0:keyint=50:min-keyint=50"})
    with Decoder(root, footage("a.mp4")) as decoder:
        decoder.read(0, 1, tmp_path)
        before = _processor_time(decoder)
        decoder.read(1, 149, tmp_path)
        whole = _processor_time(decoder) - before
        with Decoder(root, footage("a.mp4")) as other:
            other.read(0, 1, tmp_path)
            with pytest.raises(Overspent):
                other.read(1, 149, tmp_path, 1)
            before = _processor_time(other)
            other.read(150, 1, tmp_path)
            assert _processor_time(other) - before < whole / 3


def _processor_time(decoder: Decoder) -> float:
    """Nanoseconds, of all its threads."""
    assert decoder._worker is not None
    tasks = Path(f"/proc/{decoder._worker.pid}/task")
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir())
