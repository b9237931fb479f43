"""Whether a page that a frozen child has in common with somebody is one that its witness has.

A write to a page that others have, too, copies it; who has it alone takes it over, which is quicker. So a child could tell whether an
earlier one still has what they had together, and the earlier one decides that by what its chunk shows. Therefore one child of each brood
never runs, the witness: a page that it has is copied, whoever else has it. But which pages it has was up to the module, which could leave
some to two neighbours, or undo later what they have in common. So the fact is looked at, when the zygote is dead and everybody left is
frozen: each anonymous page of a child is the child's alone, or it is at the same address in the witness. What is true then stays true, for
nobody but the child itself changes what it has mapped, and the witness never does.

It is page by page, so there must be no page that is part of a larger one: huge pages are switched off before the import, which is
verified. Pages of files are never taken over by who writes to them.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import re
import time
from collections.abc import Iterable, Sequence

import numpy as np

from .cgroups import read_whole
from .syscalls import settle_pages
from .verify import Refused

__all__ = ["check_pages"]

_Entries = np.ndarray[tuple[int, ...], np.dtype[np.uint64]]
_Truths = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
_Ranges = Sequence[tuple[int, int]]

#: An entry of /proc/PID/pagemap: the number of the page, whether nobody else has it mapped, whether it is a file's, in swap (or on its
#: way to another place in memory), or there.
_NUMBER = np.uint64((1 << 55) - 1)
_ALONE, _FILE, _SWAPPED, _PRESENT = (np.uint64(1 << bit) for bit in (56, 61, 62, 63))
_ENTRY = 8
#: Gaps of so many bytes are read with what is around them.
_GAP = 1 << 20
#: Where no process has memory of its own: what is mapped there by the kernel has no entries.
_BEYOND = 1 << 63
_BOUNDS = re.compile(rb"^([0-9a-f]+)-([0-9a-f]+) ", re.M)
#: The kernel moves pages; who looks while it does sees a page that is nowhere, or two where there is one.
_LOOKS, _MOMENT = 4, 0.002


def check_pages(children: Iterable[int], witness: int) -> None:
    """All of them are frozen, and nobody is left who made them; raises Refused."""
    settle_pages()
    look = _Look(witness)
    for child in children:
        for left in reversed(range(_LOOKS)):
            reason = look.refuses(child)
            if reason is None:
                break
            if not left:
                raise Refused(reason)
            time.sleep(_MOMENT)
            look = _Look(witness)


class _Look:
    """What a witness has, read once for all siblings with the same mappings."""

    def __init__(self, witness: int) -> None:
        self._witness = witness
        self._listing = b""
        self._ranges: _Ranges = ()
        self._kept: _Entries = np.empty(0, np.uint64)

    def refuses(self, child: int) -> str | None:
        """Why a child is not what it must be."""
        if (listing := read_whole(f"/proc/{child}/maps")) != self._listing:
            self._ranges = _ranges(listing)
            self._kept = _entries(self._witness, self._ranges)
            self._listing = listing
            there = self._kept[_has(self._kept, _PRESENT)]
            if not (there.size and (there & _NUMBER).all()):
                return "the pages of its witness cannot be seen"
            if _has(self._kept, _SWAPPED).any():
                return "a page of its witness is in swap"
        own = _entries(child, self._ranges)
        other = own != self._kept
        return _compare(own[other], self._kept[other])


def _compare(own: _Entries, kept: _Entries) -> str | None:
    """Where a child and its witness do not have the same."""
    if _has(own, _SWAPPED).any():
        return "a page of it is in swap"
    same = _has(own & kept, _PRESENT) & ((own & _NUMBER) == (kept & _NUMBER))
    harmless = _has(own, _ALONE) | _has(own, _FILE) | ((own & _NUMBER) == _zero_page())
    if (_has(own, _PRESENT) & ~same & ~harmless).any():
        return "it shares a page that its witness does not have"
    return None


def _has(entries: _Entries, bit: np.uint64) -> _Truths:
    found: _Truths = (entries & bit) != 0
    return found


def _ranges(listing: bytes) -> _Ranges:
    """Where something is mapped, with small gaps."""
    found: list[tuple[int, int]] = []
    for first, last in _BOUNDS.findall(listing):
        begin, end = int(first, 16), int(last, 16)
        if begin >= _BEYOND:
            continue
        if found and begin - found[-1][1] <= _GAP:
            begin = found.pop()[0]
        found.append((begin, end))
    return found


def _entries(pid: int, ranges: _Ranges) -> _Entries:
    """Of all pages in these ranges, one after the other."""
    page = mmap.PAGESIZE
    found: _Entries = np.empty(sum(end - begin for begin, end in ranges) // page, np.uint64)
    room = found.data.cast("B")
    fd = os.open(f"/proc/{pid}/pagemap", os.O_RDONLY | os.O_CLOEXEC)
    try:
        for begin, end in ranges:
            size = (end - begin) // page * _ENTRY
            if os.preadv(fd, [room[:size]], begin // page * _ENTRY) != size:
                raise Refused("its pages cannot be seen")
            room = room[size:]
    finally:
        os.close(fd)
    return found


@functools.cache
def _zero_page() -> np.uint64:
    """The number of the page that everybody has who read where nobody had written."""
    with mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        _ = memory[0]
        begin = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        (entry,) = _entries(os.getpid(), [(begin, begin + mmap.PAGESIZE)])
    return np.uint64(entry & _NUMBER)
