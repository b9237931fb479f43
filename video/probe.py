"""Footage of a camera: the files of its source end to end, each read once in the decoder process and known by content."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path
from typing import Any

from privid.errors import SandboxFailed, VideoUnreadable
from privid.model import Footage, VideoFile

from . import cache as _cache
from .facts import Facts
from .process import Worker, WorkerGone
from .source import list_files, open_file, shown

__all__ = ["MAX_TOTAL", "open_footage", "raise_answer"]

#: frames of one camera; ten years at 30 frames per second
MAX_TOTAL = 10_000_000_000
_PATIENCE = 60.0


def open_footage(root: Path, source: str, fps: Fraction | None, cache: Path) -> Footage:
    """What the camera has recorded. Quick when nothing has changed; refuses files that do not fit together."""
    files: list[VideoFile] = []
    first: Facts | None = None
    prober = _Prober()
    try:
        at = 0
        for path in list_files(root, source):
            facts, sha256 = _known(root, path, fps, cache, prober)
            first = first or facts
            _agree(files[0].path if files else path, first, path, facts)
            files.append(VideoFile(path, sha256, at, facts.frames))
            at += facts.frames
    finally:
        prober.close()
    assert first is not None
    if at > MAX_TOTAL:
        raise VideoUnreadable(f'source "{shown(source)}" has {at} frames, more than {MAX_TOTAL}', hint="Use a narrower pattern.")
    return Footage(tuple(files), first.fps, first.width, first.height)


class _Prober:
    """A decoder process that is started when the first unknown file turns up."""

    def __init__(self) -> None:
        self._worker: Worker | None = None

    def facts(self, fd: int, path: str, fps: Fraction | None) -> Facts:
        self._worker = self._worker or Worker()
        size = os.fstat(fd).st_size
        try:
            answer = self._worker.ask({"op": "probe", "name": path, "fps": None if fps is None else str(fps)}, [fd],
                                      _PATIENCE, limit=120 + size / 5e6)
        except WorkerGone as error:
            self.close()
            raise VideoUnreadable(f'video file "{shown(path)}" cannot be read', detail=f"The process that read it {error}.",
                                  hint="The file is damaged or hostile; remove it from the camera's source.") from None
        raise_answer(answer)
        try:
            return Facts.from_json(answer.get("facts"))
        except (ValueError, ZeroDivisionError):
            raise VideoUnreadable(f'video file "{shown(path)}" cannot be read',
                                  hint="The file is damaged or hostile; remove it from the camera's source.") from None

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None


def _known(root: Path, path: str, fps: Fraction | None, cache: Path, prober: _Prober) -> tuple[Facts, str]:
    fd = open_file(root, path)
    try:
        who = _cache.identity(fd)
        found = _cache.load(cache, who, fps)
        if found is None:
            facts = prober.facts(fd, path, fps)
            # by this process, not by the one that parsed the file: the ledger knows recordings by this value
            found = facts, _cache.content_hash(fd)
            if _cache.identity(fd) != who:
                raise VideoUnreadable(f'video file "{shown(path)}" changed while it was read',
                                      hint="Add a recording to the camera's source when it is complete.")
            _cache.store(cache, who, fps, *found)
        _cache.remember(who, found[1])
        return found
    finally:
        os.close(fd)


def _agree(first_path: str, first: Facts, path: str, facts: Facts) -> None:
    if (facts.width, facts.height) != (first.width, first.height):
        raise VideoUnreadable(f'video file "{shown(path)}" has {facts.width} x {facts.height} pixels, but '
                              f'"{shown(first_path)}" has {first.width} x {first.height}',
                              hint="All files of a camera must agree in size; make a camera for each.")
    if facts.fps != first.fps:
        raise VideoUnreadable(f'video file "{shown(path)}" has {facts.fps} frames per second, but "{shown(first_path)}" has {first.fps}',
                              hint="All files of a camera must agree in frame rate; make a camera for each.")


def raise_answer(answer: dict[str, Any]) -> None:
    """Raises what the decoder process reports; its words are those of a process that has read a hostile file."""
    if "failed" in answer:
        raise SandboxFailed("could not write decoded frames", detail=f"{_text(answer['failed'])}.",
                            hint="Make room in the engine's work directory, or use shorter chunks.")
    error = answer.get("error")
    if isinstance(error, dict):
        raise VideoUnreadable(_text(error.get("message")) or "could not read the video", detail=_text(error.get("detail")),
                              hint=_text(error.get("hint")))


def _text(value: Any) -> str | None:
    return "".join(c if c.isprintable() else "?" for c in value[:500]) if isinstance(value, str) else None
