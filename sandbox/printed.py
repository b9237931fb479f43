"""What a run has printed: a file that it wrote, and that nobody here has looked into.

Reading it while the program runs would cost the engine time that depends on what, and how, the program prints.
"""

from __future__ import annotations

import os
from collections.abc import Callable

__all__ = ["Printed"]


class Printed:
    """A descriptor of its own, until it is closed. What comes after `size` bytes was written by somebody who outlived the program."""

    def __init__(self, fd: int, let_go: Callable[[], None] = lambda: None) -> None:
        self.size = os.fstat(fd).st_size
        self._fd, self._let_go = os.dup(fd), let_go

    @classmethod
    def of(cls, content: bytes) -> Printed:
        """As if it had been printed."""
        with os.fdopen(os.memfd_create("printed"), "wb", buffering=0) as file:
            file.write(content)
            return cls(file.fileno())

    def fileno(self) -> int:
        return self._fd

    def content(self) -> bytes:
        return os.pread(self._fd, self.size, 0)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            self._let_go()

    def __del__(self) -> None:
        self.close()
