"""Where the bounds of time are tried: statements through the real hook, judged as an engine judges
them, and run in a real room over rows that are as bad as a program can make them.

The room's foreign tables call an engine for their rows. Here that is a thread that gives out what
was laid ready, as often as it is asked, over a connection each time, as an engine does.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any, Self
from unittest import mock

import psycopg
from psycopg import errors, sql

import privid
from privid.calculus.reader import parse_select
from privid.engine.judge import Judged
from privid.engine.rows import Row, encode_columns, header
from privid.engine.wire import Malformed, pack, pack_json, parse_body, read_message
from privid.errors import PrividError
from privid.model import TableUse
from privid.room import room as room_module
from privid.room.allowance import Bound, bound
from privid.room.evaluate import chunk_moments
from privid.room.inner import QUERY, run, set_up
from privid.room.plans import Planned
from privid.room.pool import Connection, RoomPool
from privid.room.query import objects, publics
from privid.room.remote import RemoteRoom
from privid.room.settings import HASH_FACTOR, SESSION

from .calculus_stand import Stand, own_postgres
from .calculus_world import COLUMNS, STARTS

__all__ = ["PUBLIC", "TABLES", "Fill", "Ran", "Refused", "Shape", "Trial", "own_trial"]

#: plate, v, w, red and size of a table's row, by its number
Fill = Callable[[int], Row]

#: all columns of a table, and those without texts, which are read much more quickly
WIDE, THIN = COLUMNS, "chunk timestamptz, v float8 DEFAULT 0, w float8 DEFAULT 0"


@dataclass(frozen=True)
class Shape:
    """A table: how many chunks of how many seconds, with how many rows each."""

    chunks: int
    rows: int
    seconds: str = "1"
    columns: str = WIDE


#: `heap` is for hash tables that do not fit where memory is scarce (own_trial)
TABLES = {"heap": Shape(20, 5_000, columns=THIN), "tiny": Shape(2, 1), "small": Shape(4, 60), "large": Shape(10, 300),
          "thin": Shape(20, 1_000, columns=THIN), "few": Shape(10, 500, columns=THIN),
          "grid": Shape(400, 1, "0.1", THIN)}

#: what a statement may take by its bound: more is not worth the wait
LONGEST = Fraction(20)

PUBLIC = """
CREATE TABLE many (k float8 PRIMARY KEY, t text NOT NULL, n int4 NOT NULL, u text NOT NULL);
INSERT INTO many SELECT i, 'k' || i, i, repeat(chr(97 + i % 26), 30) FROM generate_series(0, 1499) i;
CREATE TABLE long (t text PRIMARY KEY, u text NOT NULL, k float8 NOT NULL);
INSERT INTO long SELECT repeat('x', 30) || i, (SELECT string_agg(md5(i || '.' || j), '')
  FROM generate_series(1, 150) j), 7 FROM generate_series(1, 300) i;
CREATE TABLE longer (t text PRIMARY KEY, u text NOT NULL, k float8 NOT NULL);
INSERT INTO longer VALUES ('A', repeat('a', 1000000), 7), ('Z', '', 8);
CREATE TABLE days (d date PRIMARY KEY, at timestamp NOT NULL, n int8 NOT NULL);
INSERT INTO days SELECT date '2026-03-01' + i, timestamp '2026-03-01' + i * interval '1 day', i
  FROM generate_series(-700, 700) i;
"""


#: temporary files that the steps of a plan make at most, if no join splits its rows
_STEPS = 100


class Refused(Exception):
    """The statement has no release, or none that is tried here."""


@dataclass(frozen=True)
class Ran:
    """What one statement took, and what it might have taken."""

    statement: str
    seconds: float  # of the processor, in the backend
    bound: float
    ended: bool  # or stopped when it had taken twice the bound
    #: how often the engine was asked for rows more often than the query names tables
    again: int = 0
    #: bytes by which the backend grew, and by which it may
    memory: int = 0
    most_memory: int = 0
    #: the same of temporary files
    files: int = 0
    most_files: int = 0
    #: how many of them were made, beyond those of steps and of what is split by the plan
    split: int = 0

    @property
    def share(self) -> float:
        return self.seconds / self.bound


@dataclass
class Larder:
    """Rows of tables, by number: what the room's scans are given."""

    bodies: dict[int, list[bytes]] = field(default_factory=dict)
    served: int = 0

    def fill(self, use: TableUse, row: Fill) -> None:
        """The chunks that a release reads of a table, with all rows that they may have."""
        table, names = use.table, ("plate", "v", "w", "red", "size")
        moments = [moment for span in use.chunks for moment in chunk_moments(table, span)]
        places = [names.index(column.name) for column in table.untrusted]
        found = []
        for chunk, moment in enumerate(moments):
            made = [row(chunk * table.max_rows + i) for i in range(table.max_rows)]
            rows = [[one[place] for place in places] for one in made]
            found.append(header(len(rows), moment, b"") + encode_columns(table.untrusted, rows))
        self.bodies[table.index] = found

    def accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = listener.accept()
                threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        with peer, contextlib.suppress(OSError, Malformed):
            while (message := read_message(peer)) is not None:
                if message[0] == "H":
                    peer.sendall(pack_json("h", {"version": privid.__version__}))
                    continue
                self.served += 1
                for body in self.bodies[parse_body(message[1])["table"]]:
                    peer.sendall(pack("B", body))
                peer.sendall(pack_json("e", {}))


class Files:
    """Looks at the temporary files of a room again and again, in a thread."""

    def __init__(self, directory: Path) -> None:
        #: bytes that they had at most, and the number of the last one
        self.most = self.made = 0
        self._directory = directory
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _files(self) -> Iterator[Path]:
        """As the servers see them: as root, on a file system that nobody else has."""
        for lock in self._directory.glob("pg-*/postmaster.pid"):
            with contextlib.suppress(OSError, ValueError, IndexError):
                seen = Path(f"/proc/{int(lock.read_text().split()[0])}/root{lock.parent}/base/pgsql_tmp")
                yield from seen.iterdir()

    def _look(self) -> None:
        while not self._over.wait(0.005):
            bytes_ = 0
            for file in self._files():
                self.made = max(self.made, int(file.name.rpartition(".")[2]) + 1)
                with contextlib.suppress(OSError):
                    bytes_ += file.stat().st_size
            self.most = max(self.most, bytes_)


class Trial:
    """Judges statements and runs their inner queries."""

    def __init__(self, stand: Stand) -> None:
        self.stand, self.room = stand, stand.engine.room
        self.larder, self.heard, self.planned = Larder(), list[dict[str, Any]](), Planned()
        self._listener = self.room.listen()
        remote = RemoteRoom(self.room.directory, self.room.connections, self.room.suspect)
        self.room.observe(remote.change)
        self.pool = RoomPool(remote)
        threading.Thread(target=self.larder.accept, args=(self._listener,), daemon=True).start()
        answer = stand.engine._answer

        def listening(kind: str, body: dict[str, Any]) -> bytes:
            if kind == "X":
                self.heard.append(body)
            return answer(kind, body)

        stand.engine._answer = listening  # type: ignore[method-assign]
        self._define()

    def close(self) -> None:
        self.pool.close()
        self._listener.close()

    def _define(self) -> None:
        with self.stand.connect("analyst") as connection:
            connection.execute("SET search_path = verify, public")
            for statement in filter(None, map(str.strip, PUBLIC.split(";"))):
                connection.execute(statement.encode())
            for name, shape in TABLES.items():
                connection.execute(_table(name, shape))
        self.stand.claims.execute("SET privid.allowance = '600s'")

    def judged(self, statement: str) -> tuple[dict[str, Any], Judged]:
        """The one release of a statement, and the request for it."""
        self.heard.clear()
        try:
            self.stand.claims.execute(f"EXPLAIN {statement}".encode())
        except psycopg.Error as error:
            raise Refused(f"{error.sqlstate} {error.diag.message_primary}: "
                          f"{error.diag.message_detail}") from error
        if len(self.heard) != 1:
            raise Refused("not one release")
        try:
            return self.heard[0], self.stand.engine.judge.judge(self.heard[0])
        except PrividError as error:
            raise Refused(str(error)) from error

    def bound(self, request: dict[str, Any], judged: Judged) -> Bound:
        """What the inner query may take, with the margin for a busy machine."""
        uses = judged.plan.uses
        self.planned = planned = self.room.rehearse(judged.inner, judged.tables, uses, judged.settings)
        return bound(parse_select(request["select"]), judged.plan.columns, judged.tables, uses,
                     planned=planned, room=judged.inner.premises)

    def run(self, statement: str, fill: Fill, patience: float = 2.0) -> Ran:
        """One statement over rows of one kind, stopped when it has taken so many bounds."""
        request, judged = self.judged(statement)
        if not judged.plan.computes:
            raise Refused("reads nothing")
        most, most_memory, most_files = self.bound(request, judged)
        if most > LONGEST:
            raise Refused("takes too long to try")
        for use in judged.plan.uses:
            self.larder.fill(use, fill)
        before = self.larder.served
        with Files(self.room.directory) as files:
            seconds, ended, memory = self._measured(judged, float(most) * patience)
        named = sum(judged.inner.query.count(f"pg_temp.{name} ") for _, name in judged.inner.tables)
        again = max(0, self.larder.served - before - named)
        split = max(0, files.made - _STEPS - 4 * self.planned.batches)
        return Ran(statement, seconds, float(most), ended, again, memory, most_memory, files.most, most_files, split)

    def _measured(self, judged: Judged, patience: float) -> tuple[float, bool, int]:
        with self.pool.take(judged.settings) as connection:
            self._set_up(connection, judged)
            pid, begun = connection.info.backend_pid, processor(connection.info.backend_pid)
            before = peak(pid)
            try:
                run(connection, time.monotonic_ns() + int(max(patience, 0.05) * 1e9))
            except errors.QueryCanceled:
                return processor(pid) - begun, False, peak(pid) - before
            return processor(pid) - begun, True, peak(pid) - before

    def _set_up(self, connection: Connection, judged: Judged) -> None:
        set_up(connection, objects(judged.inner, judged.tables, judged.plan.uses, "rows"), publics(judged.inner), judged.inner.query)

    def shown(self, statement: str) -> str:
        """The plan of the inner query, for whoever looks into a finding."""
        _, judged = self.judged(statement)
        with self.pool.take(judged.settings) as connection:
            self._set_up(connection, judged)
            rows = connection.execute(f"EXPLAIN (COSTS ON) EXECUTE {QUERY}".encode()).fetchall()
            return "\n".join(str(row[0])[:300] for row in rows)


def processor(pid: int) -> float:
    """Seconds that a process has computed, whatever else the machine does."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def peak(pid: int) -> int:
    """The most bytes that a process ever had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


def _table(name: str, shape: Shape) -> sql.Composed:
    last = STARTS + timedelta(seconds=shape.chunks * float(shape.seconds))
    options = {"executable": "rows", "begin": STARTS.isoformat(), "end": last.isoformat(),
               "chunk": f"{shape.seconds}s", "timeout": "500ms", "max_rows": str(shape.rows)}
    listed = sql.SQL(", ").join(sql.SQL("{} {}").format(sql.Identifier(key), sql.Literal(value))
                                for key, value in options.items())
    return sql.SQL("CREATE FOREIGN TABLE {} ({}) SERVER verify_north OPTIONS ({})").format(
        sql.Identifier(name), sql.SQL(shape.columns), listed)


@contextlib.contextmanager
def own_trial(hash_factor: int = HASH_FACTOR) -> Iterator[Trial]:
    """`hash_factor`: how many times as much as a sort hash tables have. With few, they do not fit when
    there are few rows, and what happens then is quickly tried."""
    scarce = (mock.patch.dict(SESSION, hash_mem_multiplier=str(hash_factor)),
              mock.patch.object(room_module, "HASH_FACTOR", hash_factor))
    with scarce[0], scarce[1], own_postgres() as layout:
        stand = Stand(layout)
        try:
            trial = Trial(stand)
            try:
                yield trial
            finally:
                trial.close()
        finally:
            stand.close()
