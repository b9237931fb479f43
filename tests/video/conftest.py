"""Videos whose every frame tells its own number, so that an exact frame can be told from the one beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from privid.model import Footage
from privid.video import Decoder, open_footage

WIDTH, HEIGHT, BITS = 64, 48, 12


def picture(number: int, width: int = WIDTH, height: int = HEIGHT) -> NDArray[np.uint8]:
    """Twelve blocks, one for each bit of the number, black or white."""
    image = np.zeros((height, width, 3), np.uint8)
    for bit in range(BITS):
        if number >> bit & 1:
            y, x = bit // 4 * 16, bit % 4 * 16
            image[y:y + 16, x:x + 16] = 255
    return image


def number_of(image: NDArray[np.uint8]) -> int:
    """What a decoded picture says it is."""
    centres = [int(image[bit // 4 * 16 + 8, bit % 4 * 16 + 8].mean()) for bit in range(BITS)]
    return sum((value > 128) << bit for bit, value in enumerate(centres))


def write_video(path: Path, frames: int, rate: Fraction | int | str, *, codec: str = "libx264", first: int = 0,
                times: Iterable[int] | None = None, size: tuple[int, int] = (WIDTH, HEIGHT), gop: int = 12,
                options: dict[str, str] | None = None, container: dict[str, str] | None = None, pixels: str = "yuv420p",
                format: str | None = None) -> Path:
    """Frames first, first + 1, … at a constant rate, or at the given times (in units of a frame)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rate = Fraction(rate)
    with av.open(str(path), "w", format=format, options=container or {}) as out:
        stream: Any = out.add_stream(codec, rate=rate)
        stream.width, stream.height, stream.pix_fmt, stream.gop_size = *size, pixels, gop
        stream.options = options or {}
        if codec == "mpeg4":
            stream.max_b_frames = 0
        for i, time in zip(range(frames), times or range(frames), strict=False):
            frame = av.VideoFrame.from_ndarray(picture(first + i, *size), "bgr24")
            frame.pts, frame.time_base = time, 1 / rate
            out.mux(stream.encode(frame))
        out.mux(stream.encode(None))
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "videos"
    folder.mkdir()
    return folder


@pytest.fixture
def write(root: Path) -> Callable[..., Path]:
    """write_video below the test's root."""
    return lambda name, *arguments, **options: write_video(root / name, *arguments, **options)


@pytest.fixture
def footage(root: Path, tmp_path: Path) -> Callable[..., Footage]:
    """open_footage below the test's root."""
    def opened(source: str, fps: Fraction | None = None) -> Footage:
        return open_footage(root, source, fps, tmp_path / "cache")
    return opened


@pytest.fixture
def numbers(tmp_path: Path) -> Callable[[Decoder, int, int], list[int]]:
    """Reads some frames and tells what they say they are."""
    into = tmp_path / "chunk"
    into.mkdir()

    def read(decoder: Decoder, first: int, count: int) -> list[int]:
        decoder.read(first, count, into)
        frames = np.load(into / "frames.npy", mmap_mode="r")
        assert frames.dtype == np.uint8 and frames.shape[0] == count and frames.shape[3] == 3
        return [number_of(frame) for frame in frames]
    return read
