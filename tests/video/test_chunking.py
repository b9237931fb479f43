"""Windows, chunks and strides are whole frames, and a refusal shows what would fit."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest

from privid.errors import WindowInvalid
from privid.model import Camera, Footage, Grid, VideoFile
from privid.quantities import parse_duration
from privid.video import make_grid
from privid.video.chunking import first_frame_at

STARTS = datetime(2026, 3, 1, 6, tzinfo=UTC)


def _footage(frames: int, fps: Fraction) -> Footage:
    return Footage((VideoFile("a.mp4", "0" * 64, 0, frames),), fps, 64, 48)


def _at(seconds: float) -> datetime:
    return STARTS + timedelta(seconds=seconds)


def _grid(begin: float, end: float, chunk: str, stride: str = "0s", frames: int = 3000, fps: Fraction = Fraction(30)) -> Grid:
    return make_grid(STARTS, _footage(frames, fps), _at(begin), _at(end), parse_duration(chunk, "chunk"), parse_duration(stride, "stride"))


def _refused(*arguments: object, **options: object) -> WindowInvalid:
    with pytest.raises(WindowInvalid) as caught:
        _grid(*arguments, **options)  # type: ignore[arg-type]
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize(("arguments", "grid"), [
    ((0, 100, "5s"), Grid(0, 20, 150, 150)),
    ((10, 20, "5s"), Grid(300, 2, 150, 150)),
    ((0, 100, "5s", "1s"), Grid(0, 16, 150, 180)),
    ((0, 10, "5s", "-4s"), Grid(0, 6, 150, 30)),
    ((0, 1, "1/30s"), Grid(0, 30, 1, 1)),
    ((0, 1, "1/30s", "29/30 s"), Grid(0, 1, 1, 30)),
    ((0, 9, "5s"), Grid(0, 1, 150, 150)),  # what would run past the end is dropped
    ((0, 5, "5s"), Grid(0, 1, 150, 150)),
    ((0.01, 1.01, "1s"), Grid(1, 1, 30, 30)),  # the first frame at or after the begin; frames before the end
])
def test_chunks_lie_wholly_inside_the_window(arguments: tuple[float, float, str], grid: Grid) -> None:
    assert _grid(*arguments) == grid


@pytest.mark.parametrize("fps", [Fraction(30), Fraction(30000, 1001), Fraction(2401, 100), Fraction(7), Fraction(60000, 1001)])
def test_the_time_shown_for_a_frame_names_that_frame(fps: Fraction) -> None:
    camera = Camera("c", "o", STARTS, Fraction(0), 1, Fraction(1), Fraction(1, 10), _footage(10**7, fps))
    for frame in [*range(200), 999_999, 1_000_000, 5_432_101]:
        assert first_frame_at(STARTS, fps, camera.moment(frame)) == frame
        assert first_frame_at(STARTS, fps, camera.moment(frame) + timedelta(microseconds=1)) == frame + 1
        assert first_frame_at(STARTS, fps, camera.moment(frame) - timedelta(microseconds=1)) == frame


def test_a_chunk_that_is_not_whole_frames_is_refused_with_the_nearest_that_are() -> None:
    fps = Fraction(30000, 1001)
    error = _refused(0, 60, "5s", fps=fps)
    assert error.message == "chunk of 5 s is not a whole number of frames"
    assert error.hint == "Set chunk to '149149/30000 s' (149 frames) or '5005 ms' (150 frames)."
    for text in ("149149/30000 s", "5005 ms"):
        assert _grid(0, 60, text, fps=fps).size in (149, 150)
    assert _refused(0, 60, "10ms").hint == "Set chunk to '1/30 s' (1 frame)."
    assert _refused(0, 60, "50ms").hint == "Set chunk to '1/30 s' (1 frame) or '1/15 s' (2 frames)."


def test_an_empty_or_negative_chunk_is_refused() -> None:
    assert _refused(0, 60, "0s").message == "chunk of 0 s has no frames"
    assert _refused(0, 60, "-5s").hint == "Set chunk to '1/30 s' (1 frame)."


def test_a_stride_that_is_not_whole_frames_is_refused_with_the_nearest_that_are() -> None:
    error = _refused(0, 60, "1s", "-250ms")
    assert error.message == "stride of -250 ms is not a whole number of frames"
    assert error.hint == "Set stride to '-4/15 s' (-8 frames) or '-7/30 s' (-7 frames)."


def test_a_stride_that_does_not_advance_is_refused() -> None:
    error = _refused(0, 60, "1s", "-1s")
    assert error.message == "stride of -1 s never gets past a chunk of 1 s" and error.hint == "Use a stride of at least -29/30 s."
    assert _grid(0, 60, "1s", "-29/30s").step == 1
    assert _refused(0, 60, "1s", "-2s").detail == "Each chunk would begin -30 frames after the one before it."


def test_an_end_that_is_not_after_the_begin_is_refused() -> None:
    assert _refused(10, 10, "1s").message == "end of the window is not after its begin"
    assert _refused(10, 5, "1s").message == "end of the window is not after its begin"


@pytest.mark.parametrize(("begin", "end"), [(-1, 10), (0, 100.1), (200, 300), (-10, -5)])
def test_a_window_outside_the_recording_is_refused_with_its_extent(begin: float, end: float) -> None:
    error = _refused(begin, end, "1s")
    assert error.message == "window is outside the recording"
    assert error.detail is not None and "3000 frames" in error.detail
    assert "2026-03-01 06:00:00+00:00 to 2026-03-01 06:01:40+00:00" in error.detail


def test_a_chunk_longer_than_the_window_is_refused_with_both_numbers() -> None:
    error = _refused(0, 4, "5s")
    assert error.message == "chunk of 5 s is longer than the window"
    assert error.detail == "The window has 120 frames, a chunk has 150."


def test_the_end_of_the_recording_as_shown_can_be_used() -> None:
    fps = Fraction(30000, 1001)
    footage = _footage(1000, fps)
    end = Camera("c", "o", STARTS, Fraction(0), 1, Fraction(1), Fraction(1, 10), footage).moment(1000)
    assert make_grid(STARTS, footage, STARTS, end, 10 / fps, Fraction(0)) == Grid(0, 100, 10, 10)
