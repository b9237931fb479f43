"""Programs and the files attached to them where lanes can read them, in memory: one copy for all jobs of a role with the same executable.

Two roles never have one in common: pages that both map, and the numbers and times of a file, would tell each what the other runs.
"""

from __future__ import annotations

import os
import secrets
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

from privid.model import Executable

__all__ = ["FILES", "PROGRAM", "Copy", "size_of"]

PROGRAM, FILES = "program", "files"
_PAGE = 4096


def size_of(executable: Executable) -> int:
    """Bytes of memory that a copy takes, in whole pages."""
    return sum(-(-size // _PAGE) * _PAGE for size in (executable.size, *executable.sizes))


class Copy:
    """Written by the first job that needs it. Its space is taken before that (frame_space.py), and given back when it is empty again."""

    def __init__(self, scratch: Path) -> None:
        self._folder = scratch / f"copy-{secrets.token_hex(8)}"
        self._lock = threading.Lock()
        self._written = False

    def install(self, executable: Executable, content: bytes, read_file: Callable[[str], bytes], folder: Path) -> None:
        """Show it in the folder of a job, by links that no sandbox sees: it finds what they lead to."""
        with self._lock:
            if not self._written:
                self._write(executable, content, read_file)
                self._written = True
        (folder / PROGRAM).symlink_to(self._folder / PROGRAM)
        if executable.files:
            (folder / FILES).symlink_to(self._folder / FILES)

    def _write(self, executable: Executable, content: bytes, read_file: Callable[[str], bytes]) -> None:
        self.clear()
        self._folder.mkdir(mode=0o711)
        (self._folder / PROGRAM).write_bytes(content)
        (self._folder / PROGRAM).chmod(0o555)
        if executable.files:
            (self._folder / FILES).mkdir(mode=0o755)
        for name, sha256 in executable.files:
            path = self._folder / FILES / name
            path.write_bytes(read_file(sha256))
            path.chmod(0o444)

    def clear(self) -> None:
        """File systems of runs that are kept for their numbers hold files that have no name any more: these are made empty first."""
        for path in self._folder.rglob("*"):
            if path.is_file():
                path.chmod(0o600)
                os.truncate(path, 0)
        shutil.rmtree(self._folder, ignore_errors=True)
