"""What the kernel remembers of files: pages and names, told by the time that an access takes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from .channel import CHUNKS, FACTS, Channel

#: Two files and two sets of names, of which a sender touches the first only. The second tells how long it takes otherwise.
KINDS = ("touched", "untouched")
_STEP, _PAGES, _NAMES = 1 << 18, 48, 400
SIZE = _STEP * _PAGES


def _faster(action: Callable[[str, int], object], numbers: int) -> float:
    """How much faster the touched ones are; taken in turns, so that nothing else weighs on one kind more than on the other."""
    spent: dict[str, list[int]] = {kind: [] for kind in KINDS}
    for number in range(numbers):
        for kind in KINDS:
            began = time.perf_counter_ns()
            action(kind, number)
            spent[kind].append(time.perf_counter_ns() - began)
    touched, untouched = (sorted(spent[kind])[numbers // 2] for kind in KINDS)
    return untouched / touched


def read_page(kind: str, number: int) -> None:
    descriptor = os.open(f"/app/files/{kind}", os.O_RDONLY)
    os.pread(descriptor, 16, number * _STEP)
    os.close(descriptor)


def load_file(bit: int) -> None:
    for number in range(_PAGES * bit):
        read_page(KINDS[0], number)


def look_up(kind: str, number: int) -> None:
    os.access(f"/app/files/{kind}-{FACTS['key']}-{number}", os.F_OK)


def ask_names(bit: int) -> None:
    for number in range(_NAMES * bit):
        look_up(KINDS[0], number)


CHANNELS = (
    Channel("page cache", load_file, lambda _: _faster(read_page, _PAGES) > 2, ("files in RAM",), (CHUNKS,)),
    Channel("names not there", ask_names, lambda _: _faster(look_up, _NAMES) > 1.4, ("files in RAM",), (CHUNKS,)),
)
