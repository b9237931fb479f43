"""A served database, and a room like it, for all tests of the room; tests that break a room make one of their own."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from privid.ledger import Pool
from privid.room.place import processes_in
from privid.room.pool import RoomPool
from privid.room.server import RoomServer
from tests.guard import guarded
from tests.ledger.postgres import Database, Server, temporary_server


class ServedDatabase:
    """Connections to one database of a server, as a pool lends them."""

    def __init__(self, server: Server, name: str) -> None:
        self._server, self._name = server, name

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
        with self._server.connect(self._name) as conn:
            yield conn


class House:
    """A room, its sessions, its data directory, and what it has told the operator."""

    def __init__(self, data: Path, served: ServedDatabase) -> None:
        self.data, self.served = data, served
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.server = RoomServer(data, report=lambda event, /, **fields: self.told.append((event, fields)))

    def events(self) -> list[str]:
        return [event for event, _ in self.told]


@contextmanager
def directory_for_data(prefix: str = "privid-room-") -> Iterator[Path]:
    """One that the room's user can reach, removed whatever becomes of the tests; in memory, where a thousand files are made quickly."""
    path = Path(tempfile.mkdtemp(prefix=prefix, dir="/dev/shm"))
    path.chmod(0o755)
    with guarded(path, ["true"]):
        yield path


@contextmanager
def running(served: ServedDatabase, data: Path) -> Iterator[House]:
    house = House(data, served)
    house.server.start(served)
    try:
        yield house
    finally:
        house.server.stop()


def soon(condition: Callable[[], bool], seconds: float = 10) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def standing_in(path: Path) -> list[int]:
    if not path.is_dir():
        return []
    directory = os.open(path, os.O_RDONLY)
    try:
        return processes_in(directory)
    finally:
        os.close(directory)


def segments_of(uid: int) -> int:
    """System V segments that a user has: what a killed PostgreSQL could leave outside its directory."""
    lines = Path("/proc/sysvipc/shm").read_text().splitlines()
    place = lines[0].split().index("uid")
    return sum(1 for line in lines[1:] if int(line.split()[place]) == uid)


@pytest.fixture(scope="session")
def served_server() -> Iterator[Server]:
    with temporary_server() as server:
        yield server


@pytest.fixture(scope="session")
def served(served_server: Server) -> ServedDatabase:
    return ServedDatabase(served_server, "prepared")


@pytest.fixture(scope="session")
def ledger_pool(served_server: Server) -> Iterator[Pool]:
    """The connections that an engine has, with the rights that it has."""
    ledger = Database(served_server).ledger
    yield ledger.pool
    ledger.close()


@pytest.fixture(scope="session")
def house(served: ServedDatabase) -> Iterator[House]:
    with directory_for_data() as data, running(served, data) as made:
        yield made


@pytest.fixture(scope="session")
def pool(house: House) -> Iterator[RoomPool]:
    made = RoomPool(house.server)
    yield made
    made.close()


@pytest.fixture
def session(pool: RoomPool) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """A session of the room, for one test."""
    with pool.take() as conn:
        yield conn


@pytest.fixture(scope="session")
def mortal(served: ServedDatabase) -> Iterator[House]:
    """A room that tests may kill."""
    with directory_for_data() as data, running(served, data) as made:
        yield made
