"""The chunks of a table: window, chunk and stride as whole frames of the camera, or a refusal that shows what would fit."""

from __future__ import annotations

from datetime import datetime, timedelta
from fractions import Fraction
from math import ceil, floor

from privid.errors import WindowInvalid
from privid.model import Footage, Grid
from privid.quantities import show_duration

__all__ = ["first_frame_at", "make_grid", "moment"]


def moment(starts: datetime, fps: Fraction, frame: int) -> datetime:
    """When a frame was filmed, to the microsecond (as privid.model.Camera tells it)."""
    return starts + timedelta(microseconds=round(frame * 1_000_000 / fps))


def first_frame_at(starts: datetime, fps: Fraction, when: datetime) -> int:
    """The first frame filmed at or after a time.

    A frame's time is the microsecond that is shown for it, so that a shown time names its own frame also where 1/fps is no whole
    number of microseconds.
    """
    frame = floor(Fraction((when - starts) // timedelta(microseconds=1)) * fps / 1_000_000) - 1
    while moment(starts, fps, frame) < when:
        frame += 1
    return frame


def make_grid(camera_starts: datetime, footage: Footage, begin: datetime, end: datetime, chunk: Fraction, stride: Fraction) -> Grid:
    """Chunks of `chunk` seconds, `stride` seconds apart (negative: overlapping), wholly inside [begin, end).

    Frames with begin <= time < end belong to the window; a chunk that would run past it is dropped.
    """
    fps = footage.fps
    size = _chunk_frames(chunk, fps)
    step = _step_frames(chunk, size, stride, fps)
    if end <= begin:
        raise WindowInvalid("end of the window is not after its begin", detail=f"It begins {begin} and ends {end}.",
                            hint="Set the options begin and end so that end comes later.")
    stops = moment(camera_starts, fps, footage.frames)
    if begin < camera_starts or end > stops:
        raise WindowInvalid("window is outside the recording", detail=f"The recording of {footage.frames} frames, {fps} per second, "
                            f"runs from {camera_starts} to {stops}; the window runs from {begin} to {end}.",
                            hint="Set the options begin and end within the recording.")
    first, last = first_frame_at(camera_starts, fps, begin), first_frame_at(camera_starts, fps, end)
    if last - first < size:
        raise WindowInvalid(f"chunk of {show_duration(chunk)} is longer than the window", detail=f"The window has {last - first} frames, "
                            f"a chunk has {size}.", hint="Use a shorter chunk or a longer window.")
    return Grid(first, (last - first - size) // step + 1, size, step)


def _chunk_frames(chunk: Fraction, fps: Fraction) -> int:
    frames = chunk * fps
    if frames.denominator != 1 or frames < 1:
        raise WindowInvalid(f"chunk of {show_duration(chunk)} is not a whole number of frames" if chunk > 0 else
                            f"chunk of {show_duration(chunk)} has no frames",
                            detail=_told(frames, fps), hint=_nearest("chunk", frames, fps, 1))
    return frames.numerator


def _step_frames(chunk: Fraction, size: int, stride: Fraction, fps: Fraction) -> int:
    frames = stride * fps
    if frames.denominator != 1:
        raise WindowInvalid(f"stride of {show_duration(stride)} is not a whole number of frames", detail=_told(frames, fps),
                            hint=_nearest("stride", frames, fps, 1 - size))
    if size + frames < 1:
        raise WindowInvalid(f"stride of {show_duration(stride)} never gets past a chunk of {show_duration(chunk)}",
                            detail=f"Each chunk would begin {size + frames.numerator} frames after the one before it.",
                            hint=f"Use a stride of at least {show_duration(Fraction(1 - size) / fps)}.")
    return size + frames.numerator


def _told(frames: Fraction, fps: Fraction) -> str:
    return f"At {fps} frames per second it is {float(frames):.6g} frames."


def _nearest(option: str, frames: Fraction, fps: Fraction, least: int) -> str:
    """The valid durations on both sides, in words that the option accepts."""
    fits = sorted({max(least, floor(frames)), max(least, ceil(frames))})
    return f"Set {option} to " + " or ".join(f"'{show_duration(n / fps)}' ({n} frame{'' if n == 1 else 's'})" for n in fits) + "."
