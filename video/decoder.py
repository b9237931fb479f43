"""Exact frames of a camera, decoded once and in order by a process of their own, written where the sandbox maps them."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import numpy as np

from privid.errors import VideoUnreadable
from privid.model import Footage, VideoFile

from . import cache as _cache
from .probe import raise_answer
from .process import Worker, WorkerGone
from .source import open_file, shown

__all__ = ["Decoder", "Overspent"]

#: overlapping reads keep the frames they share, up to this; beyond, they are decoded again
_KEEP_BYTES = 512 << 20
_PATIENCE = 60.0


class Overspent(Exception):
    """A read took more processor time than it may. The next one goes on from there."""


class Decoder:
    """The client of one decoder process. Reads that ascend decode each frame once, whatever the stride."""

    def __init__(self, root: Path, footage: Footage, take: Callable[[], Worker] = Worker) -> None:
        """`take`: where a process comes from."""
        self._root, self._footage, self._take = root, footage, take
        self._worker: Worker | None = None
        self._current: tuple[VideoFile, int, _cache.Identity] | None = None  # the file that the process has open
        self._last = (0, 0)
        self._closed = False
        self._reading = threading.Lock()

    def __enter__(self) -> Decoder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def start(self) -> int:
        """Starts the process, whose number this is, before the first read does."""
        with self._reading:
            if self._closed:
                raise VideoUnreadable("could not read the video", detail="The decoder was closed.")
            if self._worker is None:
                self._forget()  # a new process has nothing open
                self._worker = self._take()
            return self._worker.pid

    def read(self, first: int, count: int, into: Path, time_limit: int | None = None) -> None:
        """Writes into/frames.npy: frames first … first + count - 1 of the camera, uint8, count × height × width × 3, BGR. Raises Overspent
        if that takes more processor time than the limit, in nanoseconds."""
        footage = self._footage
        if count < 1 or first < 0 or first + count > footage.frames:
            raise ValueError(f"frames {first} to {first + count} of {footage.frames}")
        with self._reading:
            self._read(first, count, into, time_limit)

    def _read(self, first: int, count: int, into: Path, time_limit: int | None) -> None:
        footage = self._footage
        target = into / "frames.npy"
        if target.is_symlink() or (target.exists() and target.stat().st_size):
            target.unlink()  # a reader that still maps the old one keeps it; an empty one was made for this
        output = os.open(target, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            header = _header((count, footage.height, footage.width, 3))
            try:
                os.ftruncate(output, len(header) + count * footage.height * footage.width * 3)
                os.pwrite(output, header, 0)
            except OSError as error:
                raise_answer({"failed": error.strerror})
            self._unchanged()
            self._ask(first, count, output, len(header), time_limit)
            self._unchanged()
        except BaseException:
            target.unlink(missing_ok=True)
            raise
        finally:
            os.close(output)

    def close(self) -> None:
        """Ends the decoder process; safe to call twice, and from another thread to cancel a read."""
        self._closed = True
        if worker := self._worker:
            worker.cancel()  # a read under way in another thread ends with an error, and only then are descriptors closed
        with self._reading:
            self._discard()
            self._forget()

    def _ask(self, first: int, count: int, output: int, offset: int, time_limit: int | None) -> None:
        """One read; the process asks for the files that it needs on the way."""
        if self._closed:
            raise VideoUnreadable("could not read the video", detail="The decoder was closed.")
        if self._worker is None:
            self._forget()  # a new process has nothing open
            self._worker = self._take()
        limit = 600 + 0.5 * count
        message = {"op": "read", "first": first, "count": count, "keep": self._keep(first, count), "offset": offset, "time": time_limit}
        try:
            answer = self._worker.ask(message, [output], _PATIENCE, limit)
            for _ in range(count):
                if "need" not in answer:
                    break
                file, fd = self._file(answer["need"])
                message = {"op": "file", "name": file.path, "first": file.first_frame, "frames": file.frames,
                           "fps": str(self._footage.fps), "width": self._footage.width, "height": self._footage.height}
                answer = self._worker.ask(message, [fd], _PATIENCE, limit)
            raise_answer(answer)
            if time_limit is not None and set(answer) == {"overspent"}:
                raise Overspent
            if answer != {"done": count}:
                raise WorkerGone("answered something else")
        except WorkerGone as error:
            self._discard()
            if self._closed:
                raise VideoUnreadable("could not read the video", detail="The decoder was closed.") from None
            name = self._current[0].path if self._current else self._holder(first).path
            raise VideoUnreadable(f'could not decode video file "{shown(name)}"', detail=f"The process that decoded frames {first} to "
                                  f"{first + count - 1} {error}.", hint="The file is damaged or hostile; check it with a player.") from None
        except Overspent:
            raise
        except BaseException:
            self._discard()
            raise

    def _discard(self) -> None:
        """After an error the process is in the middle of something; the next read gets a new one."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def _keep(self, first: int, count: int) -> int:
        """How many frames the next read will want again, judged by the two last."""
        before, self._last = self._last, (first, first + count)
        again = before[1] - first if before[0] < first < before[1] else 0
        return again if again * self._footage.width * self._footage.height * 3 <= _KEEP_BYTES else 0

    def _holder(self, frame: int) -> VideoFile:
        return next(f for f in self._footage.files if f.first_frame <= frame < f.first_frame + f.frames)

    def _file(self, frame: object) -> tuple[VideoFile, int]:
        """Opens the file of a frame, after making sure that it is still the one that was probed."""
        if type(frame) is not int or not 0 <= frame < self._footage.frames:
            raise VideoUnreadable("could not read the video", detail="The decoder asked for a frame that does not exist.")
        self._forget()
        file = self._holder(frame)
        fd = open_file(self._root, file.path)
        try:
            self._current = file, fd, _check_content(fd, file)
        except BaseException:
            os.close(fd)
            raise
        return file, fd

    def _unchanged(self) -> None:
        """A file that was touched while open is hashed again: the answer must be about the recording that was charged."""
        if self._current is not None:
            file, fd, who = self._current
            if _cache.identity(fd) != who:
                self._current = file, fd, _check_content(fd, file)

    def _forget(self) -> None:
        if self._current is not None:
            os.close(self._current[1])
            self._current = None


def _check_content(fd: int, file: VideoFile) -> _cache.Identity:
    who = _cache.identity(fd)
    sha256 = _cache.known_hash(who)
    if sha256 is None:
        sha256 = _cache.content_hash(fd)
        _cache.remember(who, sha256)
    if sha256 != file.sha256:
        raise VideoUnreadable(f'video file "{shown(file.path)}" changed since the camera was examined',
                              hint="A changed file is another recording. Put the old one back, or run the query again.")
    return who


def _header(shape: tuple[int, ...]) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": "|u1", "fortran_order": False, "shape": shape})
    return out.getvalue()
