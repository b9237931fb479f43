"""What a video file is, found inside the decoder process: every packet's time, both ends decoded."""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import av
import numpy as np
from av.video.stream import VideoStream

from privid.errors import VideoUnreadable

from .container import declared_bytes
from .rate import exact_rate, first_gap
from .source import shown
from .stream import HEAD, MAX_SIDE, REENCODE, FrameReader, open_stream

__all__ = ["MAX_FRAMES", "Facts", "find_facts"]

#: of one file; a week at 30 frames per second
MAX_FRAMES = 20_000_000


@dataclass(frozen=True)
class Facts:
    """What the camera's timeline needs to know of a file."""

    frames: int
    fps: Fraction
    width: int
    height: int

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"fps": str(self.fps)}

    @classmethod
    def from_json(cls, body: Any) -> Facts:
        """Checks what it is given: it comes from a process that has read a hostile file, or from a disk. ValueError if not right."""
        if not isinstance(body, dict) or set(body) != {"frames", "fps", "width", "height"}:
            raise ValueError("not facts")
        frames, width, height, fps = body["frames"], body["width"], body["height"], Fraction(str(body["fps"])[:60])
        for value, most in ((frames, MAX_FRAMES), (width, MAX_SIDE), (height, MAX_SIDE)):
            if type(value) is not int or not 0 < value <= most:
                raise ValueError("not facts")
        if not 0 < fps <= 1000:
            raise ValueError("not facts")
        return cls(frames, fps, width, height)


def find_facts(fd: int, name: str, given: Fraction | None, progress: Callable[[], None]) -> Facts:
    """Reads the whole file once. Everything that could make a frame's number doubtful is refused here."""
    size = os.fstat(fd).st_size
    if size == 0:
        raise VideoUnreadable(f'video file "{shown(name)}" is empty', hint="Copy the recording again.")
    declared = declared_bytes(fd)
    if declared is not None and declared > size:
        raise _truncated(name, f"The container declares {declared} bytes, but the file has {size}.")
    container, stream = open_stream(fd, name)
    try:
        if container.format.name == "avi" and stream.codec_context.has_b_frames:
            raise VideoUnreadable(f'video file "{shown(name)}" does not tell when its frames are shown',
                                  detail="An avi file stores no presentation times, and this one has reordered frames.",
                                  hint=REENCODE.format(rate=stream.average_rate or "RATE"))
        times, read = _times(container, stream, name, progress)
        if stream.frames and read < stream.frames:
            raise _truncated(name, f"The container declares {stream.frames} frames, but {read} can be read.")
        if not times:
            raise VideoUnreadable(f'video file "{shown(name)}" has no frames', hint="Copy the recording again.")
        rates = (stream.average_rate, stream.base_rate, stream.guessed_rate)
        tick, width, height = stream.time_base or Fraction(1), stream.width, stream.height
        fps = _rate(np.sort(np.frombuffer(times, np.int64)), tick, rates, given, name)
        if min(times) != min(times[:HEAD]):
            raise VideoUnreadable(f'video file "{shown(name)}" has its first frame far from its start', hint=REENCODE.format(rate=fps))
        if len(container.streams) == 1:  # sound may be longer than the picture
            _check_duration(container.duration, len(times), fps, name)
    finally:
        container.close()
    _decode_ends(fd, name, Facts(len(times), fps, width, height), progress)
    return Facts(len(times), fps, width, height)


def _times(container: Any, stream: VideoStream, name: str, progress: Callable[[], None]) -> tuple[array[int], int]:
    """Presentation times of the frames that are shown, and the number of packets."""
    times, read = array("q"), 0
    try:
        for packet in container.demux(stream):
            if not packet.size:
                continue
            read += 1
            if read % 4096 == 0:
                progress()
            if packet.is_corrupt:
                raise _truncated(name, f"The data of frame {read - 1} is not complete.")
            if packet.is_discard:
                continue
            if packet.pts is None:
                raise VideoUnreadable(f'video file "{shown(name)}" does not tell when its frames are shown',
                                      detail=f"Packet {read - 1} has no presentation time.", hint=REENCODE.format(rate="RATE"))
            times.append(packet.pts)
            if len(times) > MAX_FRAMES:
                raise VideoUnreadable(f'video file "{shown(name)}" has more than {MAX_FRAMES} frames',
                                      hint="Split the recording into shorter files; they are joined by name.")
    except (av.FFmpegError, ValueError, OverflowError) as error:
        raise _truncated(name, f"Reading stopped after {read} frames: {shown(str(error))}.") from None
    return times, read


def _rate(times: Any, tick: Fraction, declared: Any, given: Fraction | None, name: str) -> Fraction:
    fps = exact_rate(times, tick, declared, given)
    if fps is not None and 0 < fps <= 1000:
        return fps
    plain = exact_rate(times, tick, declared, None)
    if given is not None and plain is not None:
        raise VideoUnreadable(f'video file "{shown(name)}" has {plain} frames per second, not {given}',
                              hint=f"Set the camera's option fps to '{plain}', or leave it out.")
    gap = first_gap(times, tick, declared)
    rate = next((r for r in declared if r), "RATE")
    if gap is not None:
        raise VideoUnreadable(f'frame {gap} of video file "{shown(name)}" is missing', detail="The file is damaged, or frames were "
                              "dropped when it was recorded.", hint=REENCODE.format(rate=rate))
    raise VideoUnreadable(f'video file "{shown(name)}" has a variable frame rate', detail="Frames are numbered by time, so the time "
                          "between them must be constant.", hint=REENCODE.format(rate=rate))


def _check_duration(microseconds: int | None, frames: int, fps: Fraction, name: str) -> None:
    """Matroska declares no number of frames, only how long it is."""
    if microseconds is None:
        return
    expected = Fraction(microseconds, 1_000_000) * fps
    if expected > frames + max(Fraction(2), fps / 4):
        raise _truncated(name, f"The container declares {float(expected / fps):.2f} seconds, "
                               f"but its {frames} frames last {float(frames / fps):.2f}.")


def _decode_ends(fd: int, name: str, facts: Facts, progress: Callable[[], None]) -> None:
    """Packets may be there and their bytes not: the first and the last frame must come out."""
    reader = FrameReader(fd, name, facts.fps, facts.width, facts.height, progress)
    try:
        for frame in (0, facts.frames - 1):
            for _ in reader.pictures(frame, 1):
                pass
    finally:
        reader.close()


def _truncated(name: str, detail: str) -> VideoUnreadable:
    return VideoUnreadable(f'video file "{shown(name)}" is truncated', detail=detail,
                           hint="Copy the recording again, or repair it: ffmpeg -i INPUT -c copy OUTPUT.mp4")
