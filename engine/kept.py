"""Rows of runs as they are kept. The reader alone writes them; whoever scans a table reads them; nobody waits for anybody.

They are in a file of their own beside the index of the chunk cache (chunks.py), so that the engine holds no lock, and moves no byte, that
depends on how many there are. Long ones lie in pieces, so that writing them can pause.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

__all__ = ["Entry", "Keeper", "Kept", "rows_file"]

#: bytes of a piece
_PIECE = 128 * 1024


class Entry(NamedTuple):
    """What is kept of a run. Whether it failed is kept of every run, whichever table it ran for: a table that asks runs nothing again."""

    rows: int
    body: bytes  # encoded columns
    failed: bool = False


def rows_file(index: Path) -> Path:
    """Where the rows are that belong to an index."""
    return index.with_name("rows.db")


class Keeper:
    """Writes them."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        try:
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = NORMAL")
            self._db.execute("CREATE TABLE IF NOT EXISTS piece (key BLOB NOT NULL, number INTEGER NOT NULL, pieces INTEGER NOT NULL,"
                             " rows INTEGER NOT NULL, failed INTEGER NOT NULL, body BLOB NOT NULL, PRIMARY KEY (key, number))")
            self._db.execute("SELECT count(*) FROM (SELECT 1 FROM piece LIMIT 1)").fetchone()
        except sqlite3.DatabaseError:
            self._db.close()
            raise
        path.chmod(0o600)

    def put(self, key: bytes, entry: Entry, pause: Callable[[], None] = lambda: None) -> None:
        """Keep the rows of a run; the first piece comes last, and with it they are there."""
        rows, body, failed = entry
        pieces = -(-len(body) // _PIECE) or 1
        self.drop([key])
        for number in reversed(range(pieces)):
            self._db.execute("INSERT INTO piece VALUES (?, ?, ?, ?, ?, ?)",
                             (key, number, pieces, rows, failed, body[number * _PIECE:(number + 1) * _PIECE]))
            pause()

    def drop(self, keys: Iterable[bytes]) -> None:
        for key in keys:
            self._db.execute("DELETE FROM piece WHERE key = ?", (key,))

    def close(self) -> None:
        self._db.close()


class Kept:
    """Reads them, in any thread of any process."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(f"file:{path}?mode=ro", uri=True, check_same_thread=False, isolation_level=None)
        self._lock = threading.Lock()

    def get(self, key: bytes) -> Entry | None:
        with self._lock:
            found = self._db.execute("SELECT pieces, rows, failed, body FROM piece WHERE key = ? ORDER BY number", (key,)).fetchall()
        if not found or len(found) != found[0][0]:
            return None
        _, rows, failed, body = found[0]
        return Entry(rows, body if len(found) == 1 else b"".join(piece[-1] for piece in found), bool(failed))

    def close(self) -> None:
        with self._lock:
            self._db.close()
