"""What the tests of all rooms share: one real embedded stack for the whole session, and small videos whose every pixel is known."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import av
import numpy as np
import psycopg
import pytest
from psycopg import sql

from privid.cli.daemon import Engine
from privid.cli.layout import Layout
from privid.cli.processes import wait_until
from privid.postgres_build import room_library
from tests.guard import guarded

Rows = list[tuple[Any, ...]]

REPOSITORY = Path(__file__).resolve().parent.parent

#: Files that take longest, longest first: they are begun first, so that no worker is left alone with one in the end.
LONGEST = [f"tests/{name}.py" for name in (
    "clean_room/test_fuzz", "clean_room/test_fuzz_again", "clean_room/test_kills", "cli/test_restore", "cli/test_stack", "cli/test_beside",
    "clean_room/test_time", "algebra/test_discovery", "algebra/test_hostile_values", "algebra/test_differential", "ledger/test_kills")]

#: when frame 0 of every test camera was filmed
STARTS = "2026-03-01 06:00+00"

#: an executable that tells the brightness of the first pixel of a chunk's first frame, which the tests know
BRIGHTNESS = """
def process(chunk):
    yield {"v": float(chunk.frames[0, 0, 0, 0])}
"""


def run_privid(*arguments: str | Path, check: bool = True, command: Sequence[str] = (sys.executable,),
               **popen: Any) -> subprocess.CompletedProcess[str]:
    """The command line, as people run it, without a terminal."""
    done = subprocess.run([*command, "-m", "privid.cli.main", *map(str, arguments)], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=120, **popen)
    assert not check or done.returncode == 0, f"privid {arguments}: {done.stdout}{done.stderr}"
    return done


def copy_room_library(folder: Path) -> str:
    """privid_room.so where a test's PostgreSQL can read it, whoever that runs as."""
    place = folder / "privid_room.so"
    if not place.exists():
        place.write_bytes(room_library().read_bytes())
        place.chmod(0o644)
    return str(place)


def write_video(path: Path, levels: Sequence[int], fps: int = 10, width: int = 64, height: int = 48) -> Path:
    """A lossless video: frame i is all of brightness levels[i], to the last bit."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264rgb", rate=fps)
        stream.width, stream.height, stream.pix_fmt = width, height, "rgb24"
        stream.options = {"qp": "0", "preset": "ultrafast"}
        for level in levels:
            picture = np.full((height, width, 3), level, dtype=np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode(None))
    return path


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ranks = {REPOSITORY / name: rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(item.path, len(ranks)))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Notes how a whole run ended, for .ci/unsteady.py."""
    if session.config.cache is not None and not hasattr(session.config, "workerinput"):
        session.config.cache.set("privid/ended", int(exitstatus))


class RunningStack:
    """A stack that runs, and the few things that almost every test does with one."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.layout = Layout(data)
        self.videos = self.layout.videos

    def connect(self, user: str = "analyst", **options: Any) -> psycopg.Connection[tuple[Any, ...]]:
        """A connection in autocommit mode, as a role of the stack."""
        return psycopg.connect(host=str(self.layout.run), port=self.layout.socket_port, dbname="privid", user=user,
                               **{"autocommit": True, "connect_timeout": 10, **options})

    def run(self, statement: str, *parameters: Any, user: str = "analyst", settings: dict[str, str] | None = None) -> Rows:
        """One statement in a connection of its own, and its rows."""
        with self.connect(user) as connection:
            for name, value in (settings or {}).items():
                connection.execute(sql.SQL("SET {} = {}").format(sql.Identifier(*name.split(".")), sql.Literal(value)))
            cursor = connection.execute(statement.encode(), parameters or None)
            return cursor.fetchall() if cursor.description else []

    # The engine

    def engine_pid(self) -> int | None:
        return Engine(self.layout).pid()

    def kill_engine(self) -> None:
        """As hard as it gets."""
        pid = self.engine_pid()
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        assert wait_until(lambda: self.engine_pid() is None, 10)

    def restart_engine(self) -> None:
        Engine(self.layout).stop()
        self.up()

    def up(self) -> None:
        """Starts whatever a test has ended."""
        run_privid("up", "--data", self.data)

    # Cameras, executables, tables

    def camera(self, name: str, source: str, **options: str) -> None:
        """A camera of the role owner, usable by analyst; nothing is protected unless the options say so."""
        options = {"source": source, "starts": STARTS, "rho": "0s", "k": "1", "epsilon": "10", **options}
        with self.connect("owner") as connection:
            connection.execute(sql.SQL("CREATE SERVER {} FOREIGN DATA WRAPPER privid OPTIONS ({})").format(
                sql.Identifier(name), _options(options)))
            connection.execute(sql.SQL("GRANT USAGE ON FOREIGN SERVER {} TO analyst").format(sql.Identifier(name)))

    def executable(self, name: str, content: str | bytes = BRIGHTNESS, user: str = "analyst") -> None:
        """An executable of a role."""
        self.run("SELECT privid.upload(%s, %s)", name, content.encode() if isinstance(content, str) else content, user=user)

    def table(self, name: str, camera: str, executable: str, columns: str = "chunk timestamptz, v float8 DEFAULT 0",
              user: str = "analyst", **options: str) -> None:
        """A foreign table over the first ten seconds of a camera, in chunks of a second, unless the options say otherwise."""
        options = {"executable": executable, "begin": STARTS, "end": "2026-03-01 06:00:10+00", "chunk": "1s", "stride": "0s",
                   "timeout": "200ms", "max_rows": "1", **options}
        with self.connect(user) as connection:
            connection.execute(sql.SQL("CREATE FOREIGN TABLE {} ({}) SERVER {} OPTIONS ({})").format(
                sql.Identifier(name), sql.SQL(columns), sql.Identifier(camera), _options(options)))


def _options(options: dict[str, str]) -> sql.Composable:
    return sql.SQL(", ").join(sql.SQL("{} {}").format(sql.Identifier(k), sql.Literal(v)) for k, v in options.items())


def _reachable() -> Path:
    path = Path(tempfile.mkdtemp(prefix="privid-test-"))
    path.chmod(0o755)
    return path


@pytest.fixture(scope="session")
def reachable_directory() -> Iterator[Path]:
    """A temporary directory that the user PostgreSQL steps down to can enter (pytest's own are private)."""
    path = _reachable()
    with guarded(path, ["true"]):
        yield path


@pytest.fixture(scope="session")
def stack() -> Iterator[RunningStack]:
    """One stack for all tests: make cameras and tables with names of your own (see unique)."""
    directory = _reachable()
    data = directory / "stack"
    with guarded(directory, [sys.executable, "-m", "privid.cli.main", "down", "--data", data]):
        run_privid("up", "--data", data)
        running = RunningStack(data)
        write_video(running.videos / "levels.mp4", LEVELS)
        yield running


#: brightness of the frames of levels.mp4 (10 frames per second, 20 s): the frames of second s are of brightness 10 * s
LEVELS = [10 * (i // 10) for i in range(200)]


@pytest.fixture
def unique(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """Names that no other test uses: unique("camera")."""
    mark = f"{abs(hash(request.node.nodeid)) % 16**8:08x}"
    return lambda stem: f"{stem}_{mark}"


@pytest.fixture(scope="session")
def make_video() -> Callable[..., Path]:
    """write_video, for tests that want a video of their own."""
    return write_video
