"""A million rows through the room against an ordinary table with the same rows, and what the room takes of the machine while it idles."""

from __future__ import annotations

import io
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psycopg

from privid.calculus import parse_select
from privid.engine.blocks import Blocks
from privid.engine.chunks import ChunkCache, series_of
from privid.engine.evaluator import Evaluator, KeptChunks
from privid.engine.kept import CELL_HEAD, Entry, segments_of, write_cell
from privid.engine.log import Log
from privid.engine.room_session import RoomSession
from privid.engine.rows import encode_columns
from privid.engine.server import Server
from privid.ledger.pool import Pool
from privid.model import Collected, Column, TableUse
from privid.room.deparse import inner_query
from privid.room.description import describe
from privid.room.evaluate import chunk_moments
from privid.room.inner import run, set_up
from privid.room.pool import RoomPool
from privid.room.query import objects
from privid.room.remote import RemoteRoom
from privid.room.room import Room

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.calculus import builders
from tests.verify.calculus_stand import own_postgres

CHUNKS, ROWS_PER_CHUNK = 20, 50_000
TOTAL = CHUNKS * ROWS_PER_CHUNK
TIMES = 7
#: what is released, and the same over the ordinary table
QUESTIONS = {
    "count(*)": builders.select([builders.count()]),
    "sum(range(speed, 0, 100))": builders.select([builders.total(builders.clamp(builders.col("speed"), 0, 100))]),
}


def main() -> None:
    """Each line: what, how fast, how fast from an ordinary table, and the ratio of the two."""
    with own_postgres() as layout, tempfile.TemporaryDirectory(prefix="privid-bench-") as place:
        Path(place).chmod(0o755)
        where = psycopg.conninfo.make_conninfo(host=str(layout.run), port=str(layout.socket_port), dbname="privid")
        pool = Pool(psycopg.conninfo.make_conninfo(where, user="privid_engine"))
        room = Room(Path(place), pool, lambda event, /, **fields: None)
        remote = RemoteRoom(room.directory, room.connections, room.suspect)
        room.observe(remote.change)
        sessions = RoomPool(remote)  # as the evaluator has them
        try:
            idle(Path(place))
            with psycopg.connect(where, user="privid", autocommit=True) as plain, reading(room, sessions, Path(place)) as ask:
                rows(plain, ask)
        finally:
            sessions.close()
            room.close()
            pool.close()


def idle(data: Path) -> None:
    time.sleep(2)  # its sessions are made
    found = describe(data)
    print(f"room, idle: {found.memory / 1e6:.1f} MB resident in all")


def rows(plain: psycopg.Connection[tuple[Any, ...]], ask: Callable[[str], float]) -> None:
    """The time of the inner query in the room, as a release runs it: its tables made, its rows read from the chunk cache."""
    for statement in ("SET max_parallel_workers_per_gather = 0", "SET jit = off",
                      f"CREATE TABLE ordinary AS SELECT timestamptz '2026-03-01 06:00+00' + n / {ROWS_PER_CHUNK} * interval '1 s' AS "
                      f"chunk, (n % 100)::float8 AS speed FROM generate_series(0, {TOTAL - 1}) n", "VACUUM ANALYZE ordinary"):
        plain.execute(statement.encode())
    if os.geteuid() == 0:  # at the priority that the room has
        os.setpriority(os.PRIO_PROCESS, plain.info.backend_pid, -10)
    for what in QUESTIONS:
        through = min(ask(what) for _ in range(TIMES))
        bare = min(elapsed(partial(plain.execute, f"SELECT {what} FROM ordinary".encode())) for _ in range(TIMES))
        print(f"rows, {what}: {TOTAL / through / 1e6:.2f} M/s through the room, {TOTAL / bare / 1e6:.2f} M/s from an ordinary table, ratio "
              f"{bare / through:.2f}")


@contextmanager
def reading(room: Room, sessions: RoomPool, place: Path) -> Iterator[Callable[[str], float]]:
    """Serves the room's scans from a chunk cache that has a million rows; what is yielded asks a question and tells the seconds."""
    table = builders.table(chunks=CHUNKS, max_rows=ROWS_PER_CHUNK)
    table = replace(table, columns=(Column("chunk", 1, "timestamptz", "timestamptz", True, None),
                                    Column("speed", 3, "float8", "float8", False, 0.0)))
    use = TableUse(table, ((0, CHUNKS),))
    moments = chunk_moments(table, (0, CHUNKS))
    keys = [key for one in series_of(table, "module", "none").stretches(use) for key in one.all_keys()]
    cache = ChunkCache(place / "chunks.db")
    rows, body = segments_of(place / "chunks.db"), encode_columns(table.untrusted, [(float(i % 100),) for i in range(ROWS_PER_CHUNK)])
    cells = cache.allocate(len(keys), CELL_HEAD + len(body))
    for number in range(len(keys)):
        file = cells[number].open(rows)
        write_cell(file, cells[number].offset, cells[number].size, Entry(ROWS_PER_CHUNK, body))
        os.close(file)
    blocks = Blocks.of(use, use.runs(), moments, [cells[number].address for number in range(len(keys))]), 1 << 62
    evaluator = cast(Evaluator, SimpleNamespace(blocks=lambda handle, number: blocks))
    server = Server(room.listen(), room.uid, partial(RoomSession, evaluator, KeptChunks(rows)), Log(io.StringIO()))
    serving = threading.Thread(target=server.serve)
    serving.start()

    def ask(what: str) -> float:
        inner = inner_query(parse_select(QUESTIONS[what]), (Collected(0),), [table])
        with sessions.take({}) as connection:
            set_up(connection, objects(inner, [table], [use], "bench"), (), inner.query)
            return elapsed(lambda: run(connection, time.monotonic_ns() + 60 * 10**9))

    try:
        yield ask
    finally:
        server.stop()
        serving.join()
        cache.close()


def elapsed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
