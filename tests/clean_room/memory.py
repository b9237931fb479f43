"""Looks for bytes in the memory of a process, as root."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Watch", "find"]

_BLOCK = 1 << 22


def find(pid: int, marker: bytes, private: bool = False) -> list[str]:
    """The mappings of a process, or its private ones, that hold the marker, as /proc names them."""
    found = []
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            fields = line.split(maxsplit=5)
            if (
                "r" not in fields[1]
                or (private and "w" not in fields[1])
                or (private and "s" in fields[1])
            ):
                continue
            name = fields[5] if len(fields) > 5 else "anonymous"
            if name in ("[vvar]", "[vsyscall]", "[vdso]"):
                continue
            begin, end = (int(place, 16) for place in fields[0].split("-"))
            if _holds(memory.fileno(), begin, end, marker):
                found.append(f"{name} {fields[0]} {fields[1]}")
    return found


def _holds(descriptor: int, begin: int, end: int, marker: bytes) -> bool:
    place, rest = begin, b""
    while place < end:
        try:
            block = os.pread(descriptor, min(_BLOCK, end - place), place)
        except OSError:
            return False  # gone meanwhile, or never there
        if not block:
            return False
        if marker in rest + block:
            return True
        place, rest = place + len(block), block[-len(marker) :]
    return False


@dataclass
class Watch:
    """Looks again and again at the private memory of a process while a block runs."""

    pid: int
    marker: bytes
    looks: int = 0
    found: list[str] = field(default_factory=list)

    def __enter__(self) -> Watch:
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def _run(self) -> None:
        while not self._enough.is_set() and not self.found:
            self.found = find(self.pid, self.marker, private=True)
            self.looks += 1
            time.sleep(0.002)

    def __exit__(self, *raised: object) -> None:
        self._enough.set()
        self._thread.join()
