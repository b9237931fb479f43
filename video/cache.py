"""Facts and content hashes of files already read, on disk and in memory, each tied to the very file it was read from."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

from .facts import Facts

__all__ = ["Identity", "content_hash", "identity", "known_hash", "load", "remember", "store"]

log = logging.getLogger(__name__)

#: device, inode, size, modification and change time: the kernel changes the last on every write, and nobody can set it back
Identity = tuple[int, int, int, int, int]

_FORMAT = 1
#: hashes found in this process, so that a decoder need not read a file again that was hashed a moment ago
_hashes: dict[Identity, str] = {}
_MAX_HASHES = 200_000


def identity(fd: int) -> Identity:
    kind = os.fstat(fd)
    return kind.st_dev, kind.st_ino, kind.st_size, kind.st_mtime_ns, kind.st_ctime_ns


def content_hash(fd: int) -> str:
    """sha256 of the whole file, whatever the descriptor's offset."""
    digest, at = hashlib.sha256(), 0
    while block := os.pread(fd, 1 << 20, at):
        digest.update(block)
        at += len(block)
    return digest.hexdigest()


def remember(who: Identity, sha256: str) -> None:
    if len(_hashes) >= _MAX_HASHES:
        _hashes.clear()
    _hashes[who] = sha256


def known_hash(who: Identity) -> str | None:
    return _hashes.get(who)


def load(cache: Path, who: Identity, fps: Fraction | None) -> tuple[Facts, str] | None:
    """What was stored for this file, or None when there is nothing or not what was written."""
    try:
        entry = json.loads((cache / _name(who, fps)).read_bytes())
        body = entry["body"]
        if entry["check"] != _check(body) or body["who"] != list(who) or body["given"] != (None if fps is None else str(fps)):
            return None
        sha256 = body["sha256"]
        return (Facts.from_json(body["facts"]), sha256) if len(bytes.fromhex(sha256)) == 32 else None
    except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError):
        return None


def store(cache: Path, who: Identity, fps: Fraction | None, facts: Facts, sha256: str) -> None:
    """Written beside and moved into place. A cache that cannot be written costs time, not the answer."""
    body = {"who": list(who), "given": None if fps is None else str(fps), "sha256": sha256, "facts": facts.as_json()}
    try:
        cache.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile("w", dir=cache, delete=False) as file:
            json.dump({"body": body, "check": _check(body)}, file)
        Path(file.name).replace(cache / _name(who, fps))
    except OSError as error:
        log.warning("could not store what is known of a video file: %s", error.strerror)


def _name(who: Identity, fps: Fraction | None) -> str:
    return hashlib.sha256(repr((_FORMAT, who, fps)).encode()).hexdigest() + ".json"


def _check(body: Any) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
