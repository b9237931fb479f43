"""The room is what it has to be, closed to others, and leaves nothing at its end."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import psycopg
import pytest

from privid.errors import EngineUnavailable, PrividError
from privid.room.description import describe
from privid.room.place import possible_places
from privid.room.pool import RoomConnection, RoomPool
from privid.room.server import RoomServer
from tests.room.conftest import House, ServedDatabase, directory_for_data, running, standing_in

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives the room a user of its own")


# What it is

def test_it_has_one_database_one_role_and_no_durability(house: House) -> None:
    with house.server.connect(psycopg.Connection) as conn:
        assert conn.execute("SELECT array_agg(datname::text) FROM pg_database").fetchone() == (["room"],)
        assert conn.execute("SELECT array_agg(rolname::text) FROM pg_roles WHERE rolname !~ '^pg_'").fetchone() == (["room"],)
        shown = {name: conn.execute(b"SHOW " + name.encode()).fetchone() for name in (
            "fsync", "full_page_writes", "synchronous_commit", "wal_level", "listen_addresses", "jit", "log_min_messages",
            "log_min_error_statement", "max_parallel_workers", "max_wal_senders", "privid.socket")}
    assert shown == {"fsync": ("off",), "full_page_writes": ("off",), "synchronous_commit": ("off",), "wal_level": ("minimal",),
                     "listen_addresses": ("",), "jit": ("off",), "log_min_messages": ("fatal",), "log_min_error_statement": ("panic",),
                     "max_parallel_workers": ("0",), "max_wal_senders": ("0",), "privid.socket": ("../engine.sock",)}


def test_idle_it_takes_little_memory_and_comes_first(house: House, pool: RoomPool) -> None:
    found = house.server.describe()
    assert found.running and found.pid is not None and found.directory == house.data / "room"
    assert 1 << 20 < found.memory < 60 << 20
    assert describe(house.data).pid == found.pid
    assert (found.priority == -10 and found.remark is None) if os.geteuid() == 0 else "ordinary priority" in (found.remark or "")


def test_its_memory_is_never_written_to_a_file(house: House) -> None:
    for pid in standing_in(house.data / "room"):
        process = Path("/proc") / str(pid)
        assert int((process / "coredump_filter").read_text(), 16) == 0
        assert "Max core file size        0                    0" in (process / "limits").read_text()


@needs_root
def test_it_runs_as_a_user_that_has_no_account_and_no_lane(house: House) -> None:
    uid = house.server.uid
    assert uid not in range(64099, 65100) and uid != 0
    for pid in standing_in(house.data / "room"):
        status = (Path("/proc") / str(pid) / "status").read_text()
        assert f"Uid:\t{uid}\t{uid}\t{uid}\t{uid}\n" in status and "NoNewPrivs:\t1" in status and "CapEff:\t0000000000000000" in status
    info = (house.data / "room").stat()
    assert (info.st_uid, info.st_mode & 0o777) == (uid, 0o700)


@needs_root
def test_two_rooms_have_two_users(house: House, mortal: House) -> None:
    assert house.server.uid != mortal.server.uid


def test_a_room_that_is_in_use_is_not_taken_over(house: House) -> None:
    second = RoomServer(house.data)
    with pytest.raises(PrividError, match="another engine uses the room"):
        second.start(house.served)
    assert house.server.describe().running


def test_what_fails_in_it_is_not_written_down(house: House) -> None:
    with house.server.connect(psycopg.Connection) as conn:
        with pytest.raises(psycopg.DataError):
            conn.execute("SELECT 'a-secret-value'::int")
        conn.execute("DO $$ BEGIN RAISE WARNING 'a-secret-value'; END $$")
    cluster = house.server._current
    assert cluster is not None
    cluster.drain()
    assert b"a-secret-value" not in cluster._told
    assert not list((house.data / "room").rglob("*.log"))


# The engine's socket

def test_its_processes_reach_the_engine_and_other_users_do_not(house: House) -> None:
    program = "import socket; s = socket.socket(socket.AF_UNIX); s.connect('../engine.sock'); print(s.recv(5).decode())"
    with house.server.listen() as listener:
        listener.settimeout(10)

        def call(uid: int) -> subprocess.Popen[str]:
            step_down = [] if os.geteuid() != 0 else ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
            return subprocess.Popen([*step_down, "/usr/bin/python3", "-c", program], cwd=house.data / "room" / "pristine",
                                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

        process = call(house.server.uid)
        with listener.accept()[0] as conn:
            conn.sendall(b"hello")
        assert process.communicate(timeout=10)[0] == "hello\n"
        if os.geteuid() == 0:
            assert call(65534).communicate(timeout=10)[0] == ""


def test_a_long_path_does_not_matter_and_nothing_is_left_at_the_end(served: ServedDatabase) -> None:
    with directory_for_data() as directory:
        data = directory / ("a, 'long' \"name\" " * 9) / "b" / ("c" * 150)
        data.mkdir(parents=True)
        with running(served, data) as house, house.server.listen(), house.server.connect(psycopg.Connection) as conn:
            assert len(str(house.server.describe().directory)) > 300
            assert conn.execute("SELECT room.total_add(1::float8, 2)").fetchone() == (3.0,)
        assert not (data / "room").exists() and not house.server.describe().running
        with pytest.raises(EngineUnavailable):
            house.server.connect(RoomConnection)


@needs_root
def test_a_data_directory_that_its_user_cannot_reach_has_its_room_elsewhere(served: ServedDatabase) -> None:
    with directory_for_data() as directory:
        directory.chmod(0o700)
        data = directory / "data"
        data.mkdir()
        with running(served, data) as house:
            found = house.server.describe()
            assert found.running and found.directory == possible_places(data)[1]
            assert found.directory.parent == Path("/var/lib/privid") and not (data / "room").exists()
        assert not found.directory.exists()
