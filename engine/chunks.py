"""The chunk cache: what a program said about a chunk is kept, so that a second query over the same table runs nothing.

An entry is found by everything that the program could see or that decides how its output is read. Whether an entry is still here
decides how many slots a release takes, which everybody can see; therefore every entry has a cell as large as its rows could be (kept.py),
and the segments of cells leave that were least recently used: of all roles when all is full, of one role when it has its quota. Here is
the index, from which all of that is decided and in which every entry takes the same; the rows themselves are elsewhere, so that nobody
who asks waits for them.
"""

from __future__ import annotations

import errno
import hashlib
import json
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from privid.model import Table
from privid.room.space import free_disk
from privid.sandbox.runtime import DEFAULT_RUNTIME, runtime_label

from .kept import Cells, Entry, Kept, Segments, segment_of, segments_of
from .series import Series, Stretch, parts_of

__all__ = ["ChunkCache", "program_of", "series_of"]

#: changes when entries are laid out, or programs started, in another way
FORMAT = 1
#: changes when the table is another
LAYOUT = 4
#: bytes that segments may take together, and the share of the disk that is left without them
_LIMIT, _SHARE = 10 * 1024**3, 4
_BATCH = 500
#: of a run: that it is in a stretch, given the series, the first place, the end, the first place and the step
_IN_STRETCH = "substr(key, 1, 32) = ? AND place >= ? AND place < ? AND (place - ?) % ? = 0"
#: what the kernel calls the time since the machine was started
_BOOT = Path("/proc/sys/kernel/random/boot_id")


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
            str(table.timeout), table.max_rows, table.grid.size, *_apart(table)]


def _apart(table: Table) -> list[Any]:
    """Whose runs these are, where nobody is to see what others ran: not even by how long his own releases take."""
    return [["role", table.kept_for]] if table.kept_for else []


def _view(table: Table, region: int) -> list[Any]:
    """What of the picture a program sees, when it is not all: by content, so that a name could never stand for something else."""
    mask, regions, seen = table.mask, table.regions, list[Any]()
    if mask is not None:
        seen.append(["mask", mask.shapes, None if mask.bitmap is None else hashlib.sha256(mask.bitmap).hexdigest()])
    if regions is not None:
        seen.append(["region", regions.parts[region].name, regions.parts[region].shape])
    return seen


class ChunkCache:
    """A SQLite file and the segments beside it; safe from several threads. What is damaged is started afresh: it holds nothing that cannot
    be computed again."""

    def __init__(self, path: Path, limit: int | None = None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._pins: dict[int, int] = {}  # pin -> clock when it was taken
        self._next_pin = 0
        self._filling: set[int] = set()  # segments that a job still writes to
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._segments = Segments(segments_of(path))
        try:
            self._db = self._open(path)
        except sqlite3.DatabaseError:
            for tail in ("", "-wal", "-shm"):
                path.with_name(path.name + tail).unlink(missing_ok=True)
            self._db = self._open(path)
        path.chmod(0o600)
        self._kept = Kept(segments_of(path))
        self._clear_away()
        (self._clock,) = self._db.execute("SELECT coalesce(max(used), 0) FROM segment").fetchone()
        self._weights: Counter[str] = Counter(dict(self._db.execute("SELECT role, sum(weight) FROM segment GROUP BY role").fetchall()))
        self._limit = min(_LIMIT, (free_disk(path.parent) + self._weights.total()) // _SHARE) if limit is None else limit

    @staticmethod
    def _open(path: Path) -> sqlite3.Connection:
        db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            if db.execute("PRAGMA user_version").fetchone() != (LAYOUT,):
                if db.execute("SELECT 1 FROM sqlite_master").fetchone():
                    raise sqlite3.DatabaseError("of another version")
                db.execute(f"PRAGMA user_version = {LAYOUT}")
            db.execute("CREATE TABLE IF NOT EXISTS segment (number INTEGER PRIMARY KEY, weight INTEGER NOT NULL, used INTEGER NOT NULL,"
                       " role TEXT NOT NULL)")
            db.execute("CREATE INDEX IF NOT EXISTS segment_used ON segment (used)")
            db.execute("CREATE TABLE IF NOT EXISTS chunk (key BLOB PRIMARY KEY, address INTEGER NOT NULL, segment INTEGER NOT NULL,"
                       " place INTEGER NOT NULL)")
            db.execute("CREATE INDEX IF NOT EXISTS chunk_segment ON chunk (segment)")
            db.execute("CREATE INDEX IF NOT EXISTS chunk_place ON chunk (substr(key, 1, 32), place)")
            db.execute("CREATE TABLE IF NOT EXISTS machine (boot TEXT NOT NULL)")
            db.execute("CREATE TABLE IF NOT EXISTS shape (program BLOB NOT NULL, columns TEXT NOT NULL, UNIQUE (program, columns))")
        except sqlite3.DatabaseError:
            db.close()
            raise
        return db

    def _clear_away(self) -> None:
        """What an earlier engine has left of entries: a segment without its index or the other way round. If the machine was started anew
        meanwhile, some of what was written may be missing in any of them."""
        boot, there = _BOOT.read_text(), self._segments.all()
        with self._transaction():
            if self._db.execute("SELECT boot FROM machine").fetchone() != (boot,):
                for key, address in self._db.execute("SELECT key, address FROM chunk").fetchall():
                    if self._kept.get(address) is None:
                        self._db.execute("DELETE FROM chunk WHERE key = ?", (key,))
                self._db.execute("DELETE FROM machine")
                self._db.execute("INSERT INTO machine VALUES (?)", (boot,))
            for (number,) in self._db.execute("SELECT number FROM segment").fetchall():
                if number not in there or not self._has_rows(number):
                    self._forget(number)
        self._segments.keep_only(number for (number,) in self._db.execute("SELECT number FROM segment"))

    def close(self) -> None:
        with self._lock:
            self._db.close()
            self._kept.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All of it or, if the disk is full, nothing."""
        self._db.execute("BEGIN")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def pin(self) -> int:
        """Until `unpin`, what is looked up or kept does not leave."""
        with self._lock:
            self._next_pin += 1
            self._pins[self._next_pin] = self._clock
            return self._next_pin

    def unpin(self, pin: int) -> None:
        with self._lock:
            self._pins.pop(pin, None)
            self._evict()

    def known(self, keys: Sequence[bytes]) -> dict[bytes, int]:
        """Which of these are here, and where their rows are. Counts as a use."""
        with self._lock:
            addresses = self._find(keys)
            if addresses:
                self._clock += 1
                with self._transaction():
                    self._db.executemany("UPDATE segment SET used = ? WHERE number = ?",
                                         [(self._clock, number) for number in {segment_of(address) for address in addresses.values()}])
        return addresses

    def addresses(self, keys: Sequence[bytes]) -> dict[bytes, int]:
        """The same, and counts as no use."""
        with self._lock:
            return self._find(keys)

    def _find(self, keys: Sequence[bytes]) -> dict[bytes, int]:
        found: dict[bytes, int] = {}
        for start in range(0, len(keys), _BATCH):
            batch = keys[start:start + _BATCH]
            marks = ",".join("?" * len(batch))
            found.update(self._db.execute(f"SELECT key, address FROM chunk WHERE key IN ({marks})", batch))
        return found

    def count(self, stretches: Sequence[Stretch], *, touch: bool = False) -> int:
        """How many of these runs are here, without a look at each of them."""
        found = 0
        for start in range(0, len(stretches), _BATCH):
            with self._lock:
                among = [(one.series, one.place, one.end, one.place, one.step) for one in stretches[start:start + _BATCH]]
                found += sum(self._db.execute(f"SELECT count(*) FROM chunk WHERE {_IN_STRETCH}", one).fetchone()[0] for one in among)
                if touch:
                    self._clock += 1
                    with self._transaction():
                        self._db.executemany("UPDATE segment SET used = ? WHERE number IN"
                                             f" (SELECT DISTINCT segment FROM chunk WHERE {_IN_STRETCH})",
                                             [(self._clock, *one) for one in among])
        return found

    def get(self, address: int) -> Entry | None:
        """The rows of a run; None if they were never there."""
        return self._kept.get(address)

    # Cells

    def allocate(self, count: int, size: int, role: str = "", quota: int | None = None) -> Cells:
        """Space for the rows of so many runs of a role's table, each of which could take so much; OSError if the disk does not have it. It
        is theirs until `settle`. What the role has beyond its quota leaves now, a public moment."""
        cells = self._segments.allocate(count, size)
        with self._lock:
            self._clock += 1
            try:
                with self._transaction():
                    self._db.executemany("INSERT INTO segment VALUES (?, ?, ?, ?)",
                                         [(number, cells.within(number) * size, self._clock, role) for number in cells.segments])
            except sqlite3.Error as error:
                for number in cells.segments:
                    self._segments.remove(number)
                raise OSError(errno.ENOSPC, str(error)) from error
            self._filling.update(cells.segments)
            self._weights[role] += count * size
            self._evict()
            if quota is not None:
                self._evict(role, quota)
        return cells

    def held(self, role: str) -> int:
        """Bytes that a role's tables have, by the most that their rows could take."""
        with self._lock:
            return self._weights[role]

    def put(self, key: bytes, address: int) -> None:
        """The rows of a run are in this cell."""
        with self._lock:
            self._db.execute("INSERT OR REPLACE INTO chunk VALUES (?, ?, ?, ?)", (key, address, segment_of(address), parts_of(key)[1]))

    def settle(self, cells: Cells) -> None:
        """Nothing more is written to them; segments in which nothing is go."""
        with self._lock:
            self._filling.difference_update(cells.segments)
            for number in cells.segments:
                if not self._has_rows(number):
                    self._remove(number)
            self._evict()

    def _evict(self, role: str | None = None, most: int | None = None) -> None:
        """Until all, or those of one role, weigh no more than they may, or all of them are in use."""
        floor, limit = min(self._pins.values(), default=self._clock), self._limit if most is None else most
        if self._weight(role) <= limit:
            return
        for (number,) in self._db.execute("SELECT number FROM segment WHERE used <= ? AND (? IS NULL OR role = ?) ORDER BY used",
                                          (floor, role, role)).fetchall():
            if number not in self._filling:
                self._remove(number)
            if self._weight(role) <= limit:
                return

    def _weight(self, role: str | None) -> int:
        return self._weights.total() if role is None else self._weights[role]

    def _has_rows(self, number: int) -> bool:
        return self._db.execute("SELECT 1 FROM chunk WHERE segment = ? LIMIT 1", (number,)).fetchone() is not None

    def _remove(self, number: int) -> None:
        """Unless the disk is so full that not even that can be written down: then it goes another time."""
        with suppress(sqlite3.OperationalError):
            found = self._db.execute("SELECT role, weight FROM segment WHERE number = ?", (number,)).fetchone()
            with self._transaction():
                self._forget(number)
            if found is not None:
                self._weights[found[0]] -= found[1]
            self._segments.remove(number)

    def _forget(self, number: int) -> None:
        self._db.execute("DELETE FROM chunk WHERE segment = ?", (number,))
        self._db.execute("DELETE FROM segment WHERE number = ?", (number,))

    # Columns

    def shapes(self, program: bytes) -> list[str]:
        """The columns under which runs of a program have been read, those first that were first."""
        with self._lock:
            return [text for (text,) in self._db.execute("SELECT columns FROM shape WHERE program = ? ORDER BY rowid", (program,))]

    def add_shape(self, program: bytes, columns: str, most: int) -> None:
        with self._lock:
            (count,) = self._db.execute("SELECT count(*) FROM shape WHERE program = ?", (program,)).fetchone()
            if count < most:
                self._db.execute("INSERT OR IGNORE INTO shape VALUES (?, ?)", (program, columns))
