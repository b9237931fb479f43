"""How long a container says it is: mp4 boxes, RIFF chunks and Matroska's segment tell of bytes that a cut file lacks."""

from __future__ import annotations

import os

__all__ = ["declared_bytes"]

_EBML, _SEGMENT = b"\x1a\x45\xdf\xa3", b"\x18\x53\x80\x67"
_FIRST_BOXES = (b"ftyp", b"styp", b"moov", b"mdat", b"free", b"skip", b"wide", b"pnot", b"moof")
#: a real file has a handful of top-level boxes; fragmented recordings have one pair per fragment
_MAX_BOXES = 1_000_000


def declared_bytes(fd: int) -> int | None:
    """The size that the outermost structure declares, or None when it declares none (or is of a kind not known here)."""
    head = os.pread(fd, 16, 0)
    if head[:4] in (b"RIFF", b"RIFX"):
        return _riff(fd)
    if head[:4] == _EBML:
        return _matroska(fd)
    if head[4:8] in _FIRST_BOXES:
        return _boxes(fd)
    return None


def _boxes(fd: int) -> int | None:
    """ISO media: boxes end to end, each a length and a kind."""
    size, at = os.fstat(fd).st_size, 0
    for _ in range(_MAX_BOXES):
        if at >= size:
            break
        head = os.pread(fd, 16, at)
        if len(head) < 8:
            return at + 8
        length = int.from_bytes(head[:4], "big")
        if length == 1:
            length = int.from_bytes(head[8:16], "big") if len(head) == 16 else 16
        elif length == 0:  # to the end of the file
            return None
        if length < 8:
            return None
        at += length
    return at


def _riff(fd: int) -> int | None:
    """AVI: RIFF chunks end to end (a large file has several). Length 0 is a recording that was not closed."""
    size, at = os.fstat(fd).st_size, 0
    for _ in range(_MAX_BOXES):
        head = os.pread(fd, 8, at)
        if at >= size or head[:4] not in (b"RIFF", b"RIFX"):  # what follows the last chunk is not ours
            break
        length = int.from_bytes(head[4:8], "little" if head[:4] == b"RIFF" else "big")
        if length == 0:
            return None
        at += 8 + length + length % 2
    return at - 1 if at == size + 1 else at  # some writers leave the last pad byte out


def _matroska(fd: int) -> int | None:
    """EBML header, then one segment; live recordings leave its size open."""
    header = _vint(os.pread(fd, 8, 4))
    if header is None or header[0] is None:
        return None
    at = 4 + header[1] + header[0]
    head = os.pread(fd, 12, at)
    if head[:4] != _SEGMENT:
        return None
    segment = _vint(head[4:])
    if segment is None or segment[0] is None:
        return None
    return at + 4 + segment[1] + segment[0]


def _vint(data: bytes) -> tuple[int | None, int] | None:
    """EBML's number of variable length: value (None for "open") and its own length."""
    if not data or data[0] == 0:
        return None
    length = 9 - data[0].bit_length()
    if len(data) < length:
        return None
    value = int.from_bytes(data[:length], "big") & ((1 << 7 * length) - 1)
    return (None if value == (1 << 7 * length) - 1 else value), length
