"""Temporary files of the room are in memory that nobody else can fill, whoever started the engine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from privid.room import cluster
from tests.guard import guarded
from tests.room.conftest import ServedDatabase, soon, standing_in

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system, and becomes another user")

ROOT = Path(__file__).resolve().parents[2]

#: a room on a disk that is full before it sorts what does not fit into memory
ROOM = """
import json, os, signal, sys
from contextlib import contextmanager
from pathlib import Path
import psycopg
from privid.room import cluster
from privid.room.server import RoomServer

class Served:
    @contextmanager
    def connection(self):
        with psycopg.connect(sys.argv[2], autocommit=True) as conn:
            yield conn

if sys.argv[3] == "on disk":
    cluster.files_in_memory = lambda: False
data = Path(sys.argv[1])
server = RoomServer(data)
server.start(Served())
found = {}
with server.connect(psycopg.Connection) as conn:
    conn.execute("SET work_mem = '64kB'")
    with (data / "filling").open("wb", buffering=0) as filling:
        try:
            while True:
                filling.write(bytes(65536))
        except OSError:
            pass
    try:
        rows = conn.execute("EXPLAIN (ANALYZE, FORMAT JSON) SELECT i FROM generate_series(1, 300000) i ORDER BY md5(i::text)").fetchone()
        found["sorted"] = rows[0][0]["Plan"]["Sort Space Type"]
    except psycopg.Error as error:
        found["error"] = error.sqlstate
    (data / "filling").unlink()
print(json.dumps(found), flush=True)
if sys.argv[3] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
server.stop()
"""


@pytest.fixture
def folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="privid-room-", dir="/dev/shm"))


def sorted_by(served: ServedDatabase, folder: Path, user: str | None, mode: str = "") -> dict[str, str]:
    """What a room on a small disk says when the disk is full."""
    with guarded(folder, ["umount", "--lazy", folder]):
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200m,mode=755", "small", folder], check=True)
        if user is not None:
            shutil.chown(folder, user)
        done = subprocess.run([sys.executable, "-c", ROOM, folder, served._server.conninfo("prepared"), mode], stdout=subprocess.PIPE,
                              text=True, cwd=ROOT, user=user, extra_groups=[] if user else None, env={"PATH": "/usr/bin:/bin"}, check=False)
        assert soon(lambda: not standing_in(folder / "room"))
        told: dict[str, str] = json.loads(done.stdout)
        return told


@pytest.mark.parametrize("user", ["postgres", None], ids=["an ordinary user", "root"])
def test_what_is_sorted_does_not_depend_on_whether_the_disk_is_full(served: ServedDatabase, folder: Path, user: str | None) -> None:
    assert sorted_by(served, folder, user) == {"sorted": "Disk"}


def test_on_a_disk_it_would(served: ServedDatabase, folder: Path) -> None:
    assert sorted_by(served, folder, "postgres", "on disk") == {"error": "53100"}


def test_an_ordinary_users_room_goes_with_an_engine_that_is_killed(served: ServedDatabase, folder: Path) -> None:
    assert sorted_by(served, folder, "postgres", "killed") == {"sorted": "Disk"}


def test_where_no_namespace_may_be_made_files_are_on_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    monkeypatch.setattr(cluster, "_alone_with", lambda directory, user: ["false"])
    cluster.files_in_memory.cache_clear()
    try:
        assert not cluster.files_in_memory()
    finally:
        cluster.files_in_memory.cache_clear()
