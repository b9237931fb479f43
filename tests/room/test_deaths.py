"""A room that dies is replaced; a room whose engine dies goes with it, and leaves nothing that the next does not clear away."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from privid.errors import EngineUnavailable
from privid.room.pool import RoomPool
from tests.room.conftest import House, ServedDatabase, directory_for_data, running, segments_of, soon, standing_in

ROOT = Path(__file__).resolve().parents[2]


def replaced(mortal: House, harm: Callable[[int], None]) -> None:
    """Does harm to the room, and sees that a fresh one answers and that nothing of the old one is left."""
    number, pid, uid = mortal.server.number, mortal.server.describe().pid, mortal.server.uid
    assert pid is not None
    harm(pid)
    assert soon(lambda: mortal.server.number > number, 20)
    with mortal.server.connect(psycopg.Connection) as conn:
        assert conn.execute("SELECT room.range(5, 0, 3)").fetchone() == (3,)
    room, now = mortal.data / "room", f"pg-{mortal.server.number}"
    assert pid not in standing_in(room) and soon(lambda: set(standing_in(room)) <= set(standing_in(room / now)))
    assert {path.name for path in room.iterdir() if path.name.startswith("pg-")} == {now}
    assert os.geteuid() != 0 or segments_of(uid) <= 1  # the running one's, which goes with it
    assert "room replaced" in mortal.events()


def test_a_killed_postmaster_is_replaced(mortal: House) -> None:
    replaced(mortal, lambda pid: os.kill(pid, signal.SIGKILL))


def test_a_killed_postmaster_takes_its_busy_sessions_along(mortal: House) -> None:
    with closing(mortal.server.connect(psycopg.Connection)) as conn:
        conn.pgconn.send_query(b"SELECT room.spin(9223372036854775807)")
        replaced(mortal, lambda pid: os.kill(pid, signal.SIGKILL))


def test_a_session_that_was_killed_makes_a_fresh_room(mortal: House) -> None:
    with closing(mortal.server.connect(psycopg.Connection)) as conn:
        backend = conn.info.backend_pid
        replaced(mortal, lambda pid: os.kill(backend, signal.SIGKILL))


def test_a_room_that_does_not_answer_is_replaced(mortal: House) -> None:
    def freeze(pid: int) -> None:
        os.kill(pid, signal.SIGSTOP)
        mortal.server.suspect(mortal.server.number)

    replaced(mortal, freeze)
    assert "room does not answer" in mortal.events()


def test_a_suspicion_without_reason_changes_nothing(mortal: House) -> None:
    number = mortal.server.number
    mortal.server.suspect(number)
    mortal.server.suspect(number - 1)
    time.sleep(0.2)
    assert mortal.server.number == number and mortal.server.describe().running


def test_a_room_that_cannot_be_replaced_is_told_and_tried_again(mortal: House) -> None:
    pool = RoomPool(mortal.server, patience=0.5)
    pool.take().close()
    pristine = mortal.data / "room" / "pristine"
    pristine.rename(mortal.data / "away")
    pid = mortal.server.describe().pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert soon(lambda: "room not replaced" in mortal.events())
    began = time.monotonic()
    with pytest.raises(EngineUnavailable, match="could not reach the engine's own PostgreSQL"):
        pool.take()
    with pytest.raises(EngineUnavailable), pool.public():
        pass
    assert time.monotonic() - began < 5
    (mortal.data / "away").rename(pristine)
    assert soon(lambda: mortal.server.number > 0) and soon(lambda: _takes(pool))
    pool.close()


def test_sessions_that_meet_a_death_fail_and_others_go_on(mortal: House) -> None:
    pool = RoomPool(mortal.server)
    stop = threading.Event()
    outcomes: Counter[str] = Counter()

    def release() -> None:
        while not stop.is_set():
            try:
                with pool.take() as conn:
                    conn.execute("CREATE TEMPORARY TABLE p0 (c0 float8)")
                    conn.execute("SELECT room.spin(%s)", (time.monotonic_ns() + 10_000_000,))
                outcomes["answered"] += 1
            except (psycopg.OperationalError, EngineUnavailable) as error:
                outcomes[type(error).__name__] += 1

    threads = [threading.Thread(target=release) for _ in range(6)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        number, pid = mortal.server.number, mortal.server.describe().pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        assert soon(lambda number=number: mortal.server.number > number)  # type: ignore[misc]
        before = outcomes["answered"]
        assert soon(lambda before=before: outcomes["answered"] > before + 5)  # type: ignore[misc]
    stop.set()
    for thread in threads:
        thread.join()
    pool.close()
    assert set(outcomes) <= {"answered", "OperationalError", "AdminShutdown", "CrashShutdown", "EngineUnavailable"}


def _takes(pool: RoomPool) -> bool:
    try:
        pool.take().close()
    except EngineUnavailable:
        return False
    return True


#: a process that has a room as an engine has
_ENGINE = """
import json, sys, time
from contextlib import contextmanager
from pathlib import Path
import psycopg
from privid.room import cluster, user
from privid.room.pool import RoomPool
from privid.room.server import RoomServer

class Served:
    @contextmanager
    def connection(self):
        with psycopg.connect(sys.argv[2], autocommit=True) as conn:
            yield conn

if sys.argv[3] == "outliving":  # as if the engine had been killed just before the room could ask to be told
    plain = user.step_down
    cluster.step_down = lambda uid, gid: [part for part in plain(uid, gid) if not part.startswith("--pdeathsig")]
server = RoomServer(Path(sys.argv[1]))
server.start(Served())
pool = RoomPool(server)
conn = pool.take()
conn.execute("SELECT 1")
conn.pgconn.send_query(b"SELECT room.spin(9223372036854775807)")
time.sleep(0.05)
found = server.describe()
print(json.dumps({"pid": found.pid, "uid": server.uid, "priority": found.priority, "remark": found.remark}), flush=True)
if sys.argv[3] == "ending":
    pool.close()
    server.stop()
else:
    time.sleep(600)
"""


def engine(served: ServedDatabase, data: Path, mode: str, user: str | None = None) -> tuple[subprocess.Popen[str], dict[str, object]]:
    """A process that has a room as an engine has, with a session that is busy."""
    conninfo = served._server.conninfo("prepared")
    process = subprocess.Popen([sys.executable, "-c", _ENGINE, data, conninfo, mode], stdout=subprocess.PIPE, text=True, cwd=ROOT,
                               user=user, extra_groups=[] if user else None, env={"PATH": "/usr/bin:/bin"})
    assert process.stdout is not None
    line = process.stdout.readline()
    return process, json.loads(line) if line else {}


def test_a_killed_engine_leaves_no_process(served: ServedDatabase) -> None:
    with directory_for_data() as data:
        process, found = engine(served, data, "plain")
        assert len(standing_in(data / "room")) > 4
        process.kill()
        process.communicate()
        assert soon(lambda: not standing_in(data / "room"))
        assert os.geteuid() != 0 or segments_of(int(str(found["uid"]))) == 0


def test_what_a_killed_engine_left_is_ended_and_removed_by_the_next(served: ServedDatabase) -> None:
    with directory_for_data() as data:
        process, found = engine(served, data, "outliving")
        process.kill()
        process.communicate()
        left = standing_in(data / "room")
        assert found["pid"] in left
        bystander = subprocess.Popen(["sleep", "60"], cwd=data / "room")  # somebody who looks around there
        try:
            with running(served, data) as house:
                now = standing_in(data / "room")
                assert not set(left) & set(now) and house.server.describe().pid in now
                assert bystander.poll() is None
                assert len([p for p in (data / "room").iterdir() if p.name.startswith("pg-")]) == 1
        finally:
            bystander.kill()
            bystander.wait()
        assert not (data / "room").exists()


def test_an_ordinary_user_has_a_room_too(served: ServedDatabase) -> None:
    with directory_for_data() as data:
        if os.geteuid() == 0:
            shutil.chown(data, "postgres")
        process, found = engine(served, data, "ending", "postgres" if os.geteuid() == 0 else None)
        assert process.wait(20) == 0
        process.communicate()
        assert found["uid"] == data.stat().st_uid
        assert found["priority"] == 0 and "an engine started by root raises it" in str(found["remark"])
        assert not (data / "room").exists()
