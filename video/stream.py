"""One video file inside the decoder process: FFmpeg on a short leash, frames by number and never by guess.

The number of a frame is its presentation time, counted from the file's first, times the rate. Decoding runs forward; going far
ahead or back means a seek to a key frame at or before the wanted frame and decoding on from there.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import chain, islice
from typing import Any

import av
import numpy as np
from av.container import InputContainer
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.reformatter import VideoReformatter
from av.video.stream import VideoStream
from numpy.typing import NDArray

from privid.errors import VideoUnreadable

from .rate import frame_number
from .source import shown

__all__ = ["HEAD", "MAX_SIDE", "REENCODE", "FrameReader", "open_stream", "packets"]

MAX_SIDE = 8192
#: the earliest presentation time lies among this many first packets (codecs reorder by at most 16)
HEAD = 64
REENCODE = "Convert the file: ffmpeg -i INPUT -map 0:v:0 -c:v libx264 -fps_mode cfr -r {rate} OUTPUT.mp4"
#: demuxers that read nothing but the file itself: no playlists, image sequences or devices
_FORMATS = "mov,mp4,matroska,webm,avi"
_CODECS = "h264,hevc,libdav1d,av1,vp8,vp9,libvpx,libvpx-vp9,mpeg4,mpeg2video,mpeg1video,msmpeg4v2,msmpeg4,mjpeg,ffv1,huffyuv,rawvideo"
#: up to this many frames ahead it is cheaper to decode on than to seek, if no key frame is between
_NEAR = 300
_THREADS = 2


def open_stream(fd: int, name: str) -> tuple[InputContainer, VideoStream]:
    """The file's one video stream, ready to demux; nothing but this descriptor is read."""
    os.lseek(fd, 0, os.SEEK_SET)
    try:
        container = av.open("fd:", mode="r", metadata_errors="replace", options={
            "fd": str(fd), "protocol_whitelist": "fd", "format_whitelist": _FORMATS, "codec_whitelist": _CODECS})
        streams = [s for s in container.streams.video if not s.disposition & av.stream.Disposition.attached_pic]
    except (av.FFmpegError, MemoryError, ValueError, RuntimeError) as error:
        raise VideoUnreadable(f'video file "{shown(name)}" cannot be read', detail=_reason(error),
                              hint="The file must be a complete mp4, mov, mkv, webm or avi file. A recording that was cut off "
                                   "before it was closed has no index; repair or remove it.") from None
    if not streams:
        what = "sound but no picture" if container.streams.audio else "no picture"
        raise VideoUnreadable(f'video file "{shown(name)}" has {what}', hint="The file must hold a video stream.")
    if len(streams) > 1:
        raise VideoUnreadable(f'video file "{shown(name)}" has {len(streams)} video streams',
                              hint="Keep one stream per file: ffmpeg -i INPUT -map 0:v:0 -c copy OUTPUT.mp4")
    stream = streams[0]
    if not (0 < stream.width <= MAX_SIDE and 0 < stream.height <= MAX_SIDE):
        raise VideoUnreadable(f'video file "{shown(name)}" has pictures of {stream.width} x {stream.height} pixels',
                              detail=f"Sides from 1 to {MAX_SIDE} pixels can be read.",
                              hint="Scale the recording down: ffmpeg -i INPUT -vf scale=1920:-2 OUTPUT.mp4")
    if not stream.time_base or stream.time_base <= 0:
        raise VideoUnreadable(f'video file "{shown(name)}" has no unit of time', hint=REENCODE.format(rate="RATE"))
    return container, stream


def packets(container: InputContainer, stream: VideoStream) -> Iterator[Packet[VideoStream]]:
    """Packets in the order of the file, without the empty one that PyAV ends with."""
    for packet in container.demux(stream):
        if packet.size:
            yield packet


class FrameReader:
    """Frames of one file, by number."""

    def __init__(self, fd: int, name: str, fps: Fraction, width: int, height: int, progress: Callable[[], None],
                 passed: Callable[[], None] = lambda: None) -> None:
        """`passed` is called for each frame that is decoded on the way to another."""
        self._fd, self._name, self._fps, self._size, self._progress, self._passed = fd, name, fps, (width, height), progress, passed
        self._reformat = VideoReformatter()
        self._container: InputContainer | None = None
        self._rewind()

    def close(self) -> None:
        if self._container is not None:
            self._container.close()
            self._container = None

    def pictures(self, first: int, count: int) -> Iterator[NDArray[np.uint8]]:
        """BGR pictures of frames first … first + count - 1, each h × 3w bytes; they stay valid for as long as they are referenced."""
        if not self._next <= first <= self._next + _NEAR or self._has_key(first):
            self._seek(first, 0)
        wanted = first
        while wanted < first + count:
            try:
                frame = self._advance()
            except VideoUnreadable:
                if self._settled:
                    raise
                self._seek(wanted, 2 * (wanted - self._landed) + 8)
                continue
            if self._next > wanted:
                yield self._convert(frame)
                wanted += 1
            else:
                self._passed()

    def _has_key(self, frame: int) -> bool:
        """Whether there is a key frame on the way to it, so that what is before that need not be decoded; as far as an index tells."""
        if frame - self._reordered <= self._next:
            return False
        entries = self._stream.index_entries
        found = entries.search_timestamp(self._origin + int((frame - self._reordered) / self._fps / self._tick), backward=True)
        return found >= 0 and self._number(entries[found].timestamp) > self._next

    def _rewind(self) -> None:
        """Opens the file anew, at its first frame."""
        self.close()
        self._container, self._stream = open_stream(self._fd, self._name)
        self._stream.thread_type = "AUTO"
        self._stream.thread_count = _THREADS
        # concealed errors would be pixels that nobody filmed, and not the same ones twice
        self._stream.codec_context.options = {"err_detect": "explode"}
        self._tick = self._stream.time_base or Fraction(1)
        head = list(islice(packets(self._container, self._stream), HEAD))
        times = [p.pts for p in head if p.pts is not None and not p.is_discard]
        if not times:
            raise self._broken(0, "Its packets carry no presentation times.")
        self._origin = min(times)
        # indexes tell when a frame is decoded: so many frames before it is shown
        decoded = min((p.dts for p in head if p.dts is not None), default=self._origin)
        self._reordered = max(0, math.ceil((self._origin - decoded) * self._tick * self._fps))
        self._start(chain(head, packets(self._container, self._stream)), 0, settled=True)

    def _start(self, source: Iterator[Packet[VideoStream]], first: int, *, settled: bool) -> None:
        # Not every key frame forgets what came before it (open groups of pictures in H.264): until the next key frame, an error may
        # be due to the seek and not to the file, and is tried again from further back.
        self._next = self._landed = first
        self._settled = settled
        self._decoded = self._decode(source)

    def _seek(self, frame: int, back: int) -> None:
        """To a key frame at least `back` before the frame; the index of some files points behind it, hence the growing steps."""
        while back < frame:
            assert self._container is not None
            target = self._origin + int((frame - back) / self._fps / self._tick)
            try:
                self._container.seek(target, stream=self._stream, backward=True)
                source = packets(self._container, self._stream)
                key = next(source)
            except (av.FFmpegError, StopIteration):
                break
            if key.is_keyframe and key.pts is not None and 0 <= (landed := self._number(key.pts)) <= frame - back:
                # leading pictures come after the key frame in the file and before it in time: they build on what was skipped
                trailing = (p for p in source if p.pts is not None and p.pts > key.pts)
                self._start(chain([key], trailing), landed, settled=False)
                return
            back = back * 2 or 8
        self._rewind()

    def _number(self, pts: int) -> int:
        return frame_number(pts - self._origin, self._tick, self._fps)

    def _decode(self, source: Iterator[Packet[VideoStream]]) -> Iterator[VideoFrame]:
        for packet in source:
            yield from self._stream.decode(packet)
        yield from self._stream.decode(None)

    def _advance(self) -> VideoFrame:
        """The next frame, whose number must be the next number."""
        try:
            frame = next(self._decoded)
            while frame.pts is not None and self._number(frame.pts) < self._next:
                frame = next(self._decoded)
        except StopIteration:
            raise self._broken(self._next, "The file ends before it.") from None
        except (av.FFmpegError, MemoryError, ValueError) as error:
            raise self._broken(self._next, _reason(error)) from None
        if frame.pts is None or self._number(frame.pts) != self._next:
            raise self._broken(self._next, "It is missing from the file.")
        if frame.is_corrupt:
            raise self._broken(self._next, "The data of it or of a frame that it builds on is damaged.")
        if (frame.width, frame.height) != self._size:
            raise self._broken(self._next, f"The size changes from {self._size[0]} x {self._size[1]} to {frame.width} x {frame.height}.")
        self._settled = self._settled or (frame.key_frame and self._next > self._landed)
        self._next += 1
        self._progress()
        return frame

    def _convert(self, frame: VideoFrame) -> NDArray[np.uint8]:
        width, height = self._size
        plane: Any = self._reformat.reformat(frame, format="bgr24", threads=1).planes[0]
        rows = np.frombuffer(plane, np.uint8)[: height * plane.line_size].reshape(height, plane.line_size)
        return np.ascontiguousarray(rows[:, : 3 * width])

    def _broken(self, frame: int, detail: str) -> VideoUnreadable:
        return VideoUnreadable(f'could not decode frame {frame} of video file "{shown(self._name)}"', detail=detail,
                               hint=REENCODE.format(rate=self._fps))


def _reason(error: Any) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return shown(text.rstrip(".")) + "."
