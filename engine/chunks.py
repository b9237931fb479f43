"""The chunk cache: what a program said about a chunk is kept, so that a second query over the same table runs nothing.

An entry is found by everything that the program could see or that decides how its output is read. Whether an entry is still here
decides how many slots a release takes, which everybody can see; therefore entries are weighed by the most they could take, not by what
they do take, and the least recently used leave first: of all roles when all is full, of one role when it has its quota. Here is the index,
from which all of that is decided and in which every entry takes the same; the rows themselves are in a file of their own (kept.py), so
that nobody who asks waits for them.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from privid.model import Table
from privid.room.space import free_disk
from privid.sandbox.runtime import DEFAULT_RUNTIME, runtime_label

from .kept import Entry, Keeper, Kept, rows_file
from .series import Series, Stretch, parts_of

__all__ = ["ChunkCache", "program_of", "series_of"]

#: changes when entries are laid out, or programs started, in another way
FORMAT = 1
#: changes when the table is another
LAYOUT = 4
#: bytes that entries may take together, and the share of the disk that is left without them
_LIMIT, _SHARE = 10 * 1024**3, 4
_BATCH = 500


def series_of(table: Table, kind: str, runtime: str) -> Series:
    """Where the runs of a table lie in the cache."""
    columns = [[c.name, c.type, c.default, c.labels, *c.domain] for c in table.untrusted]
    shared = hashlib.sha256(json.dumps([*program_of(table, kind, runtime), columns]).encode())
    return Series(table, shared, [_view(table, region) for region in range(len(table.region_names))])


def program_of(table: Table, kind: str, runtime: str) -> list[Any]:
    """What decides what its program prints, beside footage and view, and how much of it is read."""
    camera = table.camera
    return [FORMAT, camera.name, str(camera.footage.fps), camera.footage.width, camera.footage.height,
            table.executable.sha256, kind, runtime if table.runtime == DEFAULT_RUNTIME else runtime_label(table.runtime),
            str(table.timeout), table.max_rows, table.grid.size]


def _view(table: Table, region: int) -> list[Any]:
    """What of the picture a program sees, when it is not all: by content, so that a name could never stand for something else."""
    mask, regions, seen = table.mask, table.regions, list[Any]()
    if mask is not None:
        seen.append(["mask", mask.shapes, None if mask.bitmap is None else hashlib.sha256(mask.bitmap).hexdigest()])
    if regions is not None:
        seen.append(["region", regions.parts[region].name, regions.parts[region].shape])
    return seen


class ChunkCache:
    """A SQLite file; safe from several threads. A damaged file is started afresh: it holds nothing that cannot be computed again."""

    def __init__(self, path: Path, limit: int | None = None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._pins: dict[int, int] = {}  # pin -> clock when it was taken
        self._next_pin = 0
        self._gone: dict[bytes, None] = {}  # keys that have left, whose rows are still there
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            self._db = self._open(path)
        except sqlite3.DatabaseError:
            for file in self._files():
                file.unlink(missing_ok=True)
            self._db = self._open(path)
        path.chmod(0o600)
        self._kept = Kept(rows_file(path))
        (self._clock,) = self._db.execute("SELECT coalesce(max(used), 0) FROM chunk").fetchone()
        self._of: Counter[str] = Counter(dict(self._db.execute("SELECT role, sum(weight) FROM chunk GROUP BY role").fetchall()))
        self._weight = self._of.total()
        self._heaviest = self._weight
        self._limit = min(_LIMIT, (free_disk(path.parent) + self._size()) // _SHARE) if limit is None else limit

    @staticmethod
    def _open(path: Path) -> sqlite3.Connection:
        Keeper(rows_file(path)).close()
        db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            if db.execute("PRAGMA user_version").fetchone() != (LAYOUT,):
                if db.execute("SELECT 1 FROM sqlite_master").fetchone():
                    raise sqlite3.DatabaseError("of another version")
                db.execute(f"PRAGMA user_version = {LAYOUT}")
            db.execute("CREATE TABLE IF NOT EXISTS chunk (key BLOB PRIMARY KEY, outcome TEXT NOT NULL, weight INTEGER NOT NULL,"
                       " used INTEGER NOT NULL, place INTEGER NOT NULL, role TEXT NOT NULL)")
            db.execute("CREATE INDEX IF NOT EXISTS chunk_used ON chunk (used, weight)")
            db.execute("CREATE INDEX IF NOT EXISTS chunk_role ON chunk (role, used, weight)")
            db.execute("CREATE INDEX IF NOT EXISTS chunk_place ON chunk (substr(key, 1, 32), place)")
            db.execute("CREATE TABLE IF NOT EXISTS shape (program BLOB NOT NULL, columns TEXT NOT NULL, UNIQUE (program, columns))")
            # a crash may have left one without the other
            db.execute("ATTACH ? AS kept", (str(rows_file(path)),))
            db.execute("DELETE FROM chunk WHERE NOT EXISTS (SELECT 1 FROM kept.piece WHERE piece.key = chunk.key AND number = 0)")
            db.execute("DELETE FROM kept.piece WHERE key NOT IN (SELECT key FROM chunk)")
            db.execute("DETACH kept")
        except sqlite3.DatabaseError:
            db.close()
            raise
        return db

    def close(self) -> None:
        with self._lock:
            self._db.close()
            self._kept.close()

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """While inside, what is looked up or kept does not leave."""
        pin = self.pin()
        try:
            yield
        finally:
            self.unpin(pin)

    def pin(self) -> int:
        with self._lock:
            self._next_pin += 1
            self._pins[self._next_pin] = self._clock
            return self._next_pin

    def unpin(self, pin: int) -> None:
        with self._lock:
            self._pins.pop(pin, None)
            self._evict()

    def known(self, keys: Sequence[bytes], *, touch: bool) -> set[bytes]:
        """Which of these are here; `touch` counts as a use (EXPLAIN does not)."""
        found: set[bytes] = set()
        with self._lock:
            for start in range(0, len(keys), _BATCH):
                batch = keys[start:start + _BATCH]
                marks = ",".join("?" * len(batch))
                found.update(key for (key,) in self._db.execute(f"SELECT key FROM chunk WHERE key IN ({marks})", batch))
            if touch and found:
                self._clock += 1
                self._db.execute("BEGIN")
                self._db.executemany("UPDATE chunk SET used = ? WHERE key = ?", [(self._clock, key) for key in found])
                self._db.execute("COMMIT")
        return found

    def count(self, stretches: Sequence[Stretch]) -> int:
        """How many of these runs are here, without a look at each of them. Counts as no use."""
        found = 0
        for start in range(0, len(stretches), _BATCH):
            with self._lock:
                for one in stretches[start:start + _BATCH]:
                    found += self._db.execute("SELECT count(*) FROM chunk WHERE substr(key, 1, 32) = ? AND place >= ? AND place < ?"
                                              " AND (place - ?) % ? = 0",
                                              (one.series, one.place, one.end, one.place, one.step)).fetchone()[0]
        return found

    def get(self, key: bytes) -> Entry | None:
        return self._kept.get(key)

    def put(self, key: bytes, outcome: str, weight: int, role: str = "") -> None:
        """The rows of a run are kept; `weight` is the most that any output of this table could take, `role` whose table it ran for."""
        with self._lock:
            self._clock += 1
            self._gone.pop(key, None)
            for old, owner in self._db.execute("SELECT weight, role FROM chunk WHERE key = ?", (key,)).fetchall():
                self._add(owner, -old)
            self._db.execute("INSERT OR REPLACE INTO chunk VALUES (?, ?, ?, ?, ?, ?)",
                             (key, outcome, weight, self._clock, parts_of(key)[1], role))
            self._add(role, weight)
            self._heaviest = max(self._heaviest, self._weight)  # the files do not shrink
            self._evict()

    def make_room(self, role: str, most: int, coming: Mapping[bytes, int]) -> int:
        """Of what was kept for a role's tables, what was used longest ago leaves, until all that it has fits its quota. `coming` are its
        runs under way, with their weights, which count as if they were kept already: when they are, nobody may tell. What it has then."""
        with self._lock:
            keys = list(coming)
            here = sum(self._weight_of(role, keys[start:start + _BATCH]) for start in range(0, len(keys), _BATCH))
            found, leaving = self._of[role] - here + sum(coming.values()), list[tuple[bytes, int]]()
            if found > most:
                floor = min(self._pins.values(), default=self._clock)
                for key, weight in self._db.execute("SELECT key, weight FROM chunk WHERE role = ? AND used <= ? ORDER BY used",
                                                    (role, floor)):
                    if found <= most:
                        break
                    if key not in coming:
                        leaving.append((key, weight))
                        found -= weight
            for key, weight in leaving:
                self._drop(key, weight, role)
        return found

    def _weight_of(self, role: str, keys: Sequence[bytes]) -> int:
        marks = ",".join("?" * len(keys))
        return int(self._db.execute(f"SELECT coalesce(sum(weight), 0) FROM chunk WHERE key IN ({marks}) AND role = ?",
                                    (*keys, role)).fetchone()[0])

    def _add(self, role: str, weight: int) -> None:
        self._of[role] += weight
        self._weight += weight

    def _drop(self, key: bytes, weight: int, role: str) -> None:
        self._db.execute("DELETE FROM chunk WHERE key = ?", (key,))
        self._gone[key] = None
        self._add(role, -weight)

    def gone(self, most: int) -> list[bytes]:
        """Some of the entries that have left, whose rows are to be dropped; each is told once."""
        with self._lock:
            keys = list(islice(self._gone, most))
            for key in keys:
                del self._gone[key]
        return keys

    def shapes(self, program: bytes) -> list[str]:
        """The columns under which runs of a program have been read, those first that were first."""
        with self._lock:
            return [text for (text,) in self._db.execute("SELECT columns FROM shape WHERE program = ? ORDER BY rowid", (program,))]

    def add_shape(self, program: bytes, columns: str, most: int) -> None:
        with self._lock:
            (count,) = self._db.execute("SELECT count(*) FROM shape WHERE program = ?", (program,)).fetchone()
            if count < most:
                self._db.execute("INSERT OR IGNORE INTO shape VALUES (?, ?)", (program, columns))

    def hidden(self) -> int:
        """Bytes that its files would have more if every entry were as large as it could be: added to them they tell nothing of rows."""
        with self._lock:
            return int(self._heaviest) - self._size()

    def _size(self) -> int:
        return sum(file.stat().st_size for file in self._files() if file.exists())

    def _files(self) -> list[Path]:
        return [path.with_name(path.name + tail) for path in (self._path, rows_file(self._path)) for tail in ("", "-wal", "-shm")]

    def _evict(self) -> None:
        floor = min(self._pins.values(), default=self._clock)
        while self._weight > self._limit:
            old = self._db.execute("SELECT key, weight, role FROM chunk WHERE used <= ? ORDER BY used LIMIT 100", (floor,)).fetchall()
            if not old:
                return
            for key, weight, role in old:
                self._drop(key, weight, role)
                if self._weight <= self._limit:
                    break
