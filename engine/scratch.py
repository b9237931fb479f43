"""The engine's place in memory: decoded frames, programs, and the lanes' root file systems."""

from __future__ import annotations

import secrets
from contextlib import suppress
from pathlib import Path

from privid.sandbox.root import remove_tree

__all__ = ["make_scratch"]

_MEMORY = Path("/dev/shm")
_PREFIX = "privid-"


def make_scratch(state: Path) -> Path:
    """A fresh directory in memory. Its path is kept in `state`, so that the next engine clears it away should this one be killed."""
    note = state / "engine.scratch"
    with suppress(OSError, ValueError):
        old = Path(note.read_text().strip())
        if old.parent == _MEMORY and old.name.startswith(_PREFIX):
            remove_tree(old)
    path = _MEMORY / f"{_PREFIX}{secrets.token_hex(8)}"
    note.write_text(f"{path}\n")
    path.mkdir(mode=0o711)
    return path
