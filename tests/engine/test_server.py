"""The socket and the process: who may speak, what a bad message costs, how an engine begins and ends."""

from __future__ import annotations

import io
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path

import pytest

from privid.engine.cancel import Cancel
from privid.engine.log import Log
from privid.engine.server import MAX_SILENT, Admit, Server, listen
from privid.engine.wire import LIMIT, pack_json
from privid.errors import PrividError
from tests.engine.client import HELLO, Client, EngineProcess, Refused, running, wait_for
from tests.engine.conftest import House

LEVELS = [0] * 40

RAW_BYTES = [b"\0", b"\x05\0\0\0H{", struct.pack("<I", 0), struct.pack("<I", LIMIT + 1), b"GET / HTTP/1.0\r\n\r\n", b"\xff" * 64]
MESSAGES: list[tuple[str, bytes]] = [
    ("R", b""), ("R", b"[]"), ("R", b"{}"), ("R", b"[" * 50_000), ("X", b'{"epsilon": NaN}'), ("X", b"\xff\xfe"), ("Q", b"{}"),
    ("\0", b"{}"), ("S", b'{"handle": "0", "table": "0"}'), ("S", b'{"handle": [], "table": 0}'), ("D", b'{"handle": "0"}'),
    ("Z", b'{"handle": "0"}'), ("K", b'{"kind": "view"}'),
    ("T", b'{"epsilon": "1", "tables": [], "settings": {}}'), ("T", b'{"tables": [], "settings": {}, "candidate": {"number": 1}}'),
    ("K", b'{"kind": "server", "server": 1}'), ("W", b'{"tables": {}}'), ("R", b'{"epsilon": "1", "tables": [1]}'),
    ("R", b'{"epsilon": "1", "tables": [{"name": "a"}]}'),
]


def still_serves(house: House) -> bool:
    with house.engine.connect() as client:
        return client.ask("X", house.request(house.table(house.video(LEVELS))))[0] == "x"


def test_bytes_that_are_not_the_protocol_cost_that_connection_only(house: House) -> None:
    for sent in RAW_BYTES:
        with Client(house.engine.socket) as client:
            client.socket.sendall(sent)
            client.socket.shutdown(socket.SHUT_WR)
            assert client.closed(), sent
    assert still_serves(house)


def test_malformed_requests_cost_that_connection_only(house: House) -> None:
    for kind, body in MESSAGES:
        with house.engine.connect() as client:
            client.send(kind, body)
            try:
                answer, content = client.receive()
                assert answer == "E" and b"internal" not in content, (kind, body)
            except (EOFError, ConnectionResetError):
                pass
    assert still_serves(house)
    assert not house.engine.events("internal error")


def test_nothing_is_served_before_hello_nor_any_long_message(house: House) -> None:
    with Client(house.engine.socket) as client:
        client.send("X", house.request(house.table("none.mp4")))
        assert client.closed()
    with Client(house.engine.socket) as client:
        client.socket.sendall(struct.pack("<I", 100_000) + b"H" + b" " * 1000)
        assert client.closed()


def test_a_message_that_is_as_long_as_allowed_is_read_and_a_longer_one_is_not(house: House) -> None:
    with house.engine.connect() as client:
        client.send("S", b'{"table": 0, "handle": "' + b"x" * (LIMIT - 27) + b'"}')
        assert client.receive()[0] == "E"
        client.socket.sendall(struct.pack("<I", LIMIT + 1))
        assert client.closed()


@pytest.mark.parametrize(("change", "sqlstate"),
                         [({"version": "0.0.1"}, "PV006"), ({"protocol": 1}, "PV006"), ({"database": "x"}, "PV004")])
def test_a_library_of_another_version_or_database_is_refused_with_a_hint(house: House, change: dict[str, object], sqlstate: str) -> None:
    with Client(house.engine.socket) as client:
        with pytest.raises(Refused) as refused:
            client.ask("H", {**HELLO, "database": house.database.name, **change})
        assert refused.value.sqlstate == sqlstate and refused.value.body["hint"]
        client.send("X", {})
        assert client.closed()


def test_an_extension_of_another_version_is_refused(house: House) -> None:
    set_version = "UPDATE pg_extension SET extversion = %s WHERE extname = 'privid'"
    house.database.rows(set_version, "9.9")
    try:
        with pytest.raises(Refused) as refused:
            house.engine.connect()
        assert refused.value.sqlstate == "PV006"
    finally:
        house.database.rows(set_version, HELLO["version"])


def test_the_socket_is_for_its_peer_alone(house: House) -> None:
    status = house.engine.socket.stat()
    assert (status.st_mode & 0o777, status.st_uid) == (0o600, os.getuid())
    if os.getuid() != 0:
        return  # nobody else can be played
    connect = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); sys.exit(len(s.recv(1)))"
    house.engine.data.chmod(0o755)
    house.engine.socket.chmod(0o666)  # the door open, the guard still looks at who comes
    try:
        done = subprocess.run([sys.executable, "-c", connect, str(house.engine.socket)], user="nobody", check=False)
    finally:
        house.engine.socket.chmod(0o600)
    assert done.returncode == 0
    assert house.engine.events("peer refused")
    done = subprocess.run([sys.executable, "-c", connect, str(house.engine.socket)], user="nobody", check=False, capture_output=True)
    assert b"PermissionError" in done.stderr


def test_many_idle_connections_cost_little_and_hold_nobody_up(house: House) -> None:
    assert house.engine.process is not None
    status = Path(f"/proc/{house.engine.process.pid}/status")

    def resident() -> int:
        return int(next(line for line in status.read_text().splitlines() if line.startswith("VmRSS")).split()[1])

    before = resident()
    clients = [house.engine.connect(login=f"role{number % 3}") for number in range(150)]
    try:
        assert resident() - before < 30_000  # KiB
        assert still_serves(house)
    finally:
        for client in clients:
            client.close()


class Echo:
    """A conversation that shows the server alone."""

    greeted = True

    def __init__(self, cancel: Cancel, admit: Admit) -> None:
        self.cancel, self.admit = cancel, admit

    def entering(self, length: int) -> AbstractContextManager[object]:
        return nullcontext()

    def serve(self, kind: str, body: bytes, send: Callable[[bytes], None]) -> None:
        if kind == "w":
            self.cancel.wait_until(time.monotonic() + 30)
        send(b"\x01\0\0\0e")

    def close(self) -> None:
        pass


def test_connections_beyond_the_limit_are_told_so(tmp_path: Path) -> None:
    server = Server(listen(tmp_path / "s", os.getuid()), os.getuid(), Echo, Log(io.StringIO()), limit=2)
    thread = threading.Thread(target=server.serve)
    thread.start()
    try:
        with Client(tmp_path / "s") as one, Client(tmp_path / "s") as two, Client(tmp_path / "s") as three:
            for client in (one, two):
                client.send("x", b"")
                assert client.receive()[0] == "e"
            assert three.receive()[0] == "E" and three.closed()
            # a request that waits ends with the server
            one.send("w", b"")
            time.sleep(0.1)
            begun = time.monotonic()
            server.stop()
            assert one.closed() and time.monotonic() - begun < 5
    finally:
        server.stop()
        thread.join(10)
    with socket.socket(socket.AF_UNIX) as late, pytest.raises(ConnectionRefusedError):
        late.connect(str(tmp_path / "s"))


@pytest.fixture
def other(house: House, tmp_path: Path) -> EngineProcess:
    """A second engine on the same database."""
    return EngineProcess(tmp_path, house.engine.videos, house.engine.conninfo)


#: a signal that another thread gets interrupts nothing in the one that waits
DEAF = """
import signal, socket, sys, threading, time
from privid.engine.log import Log
from privid.engine.server import Server
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
server = Server(listener, 0, lambda cancel, admit: None, Log())
server.stop_on(signal.SIGTERM)
def send():
    time.sleep(0.5)
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
threading.Thread(target=send).start()
server.serve()
"""


def test_a_signal_stops_an_engine_whichever_thread_gets_it(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", DEAF, str(tmp_path / "socket")], check=True, timeout=20)


def test_sigterm_ends_an_engine_cleanly_in_the_middle_of_a_job(house: House, other: EngineProcess) -> None:
    request = house.request(house.table(house.video(LEVELS), "endless", timeout="90s"), query="terminated")
    with running(other):
        scratch = other.place()
        assert scratch.is_dir() and other.scratch().is_dir()
        with other.connect() as client:
            client.send("R", request)
            assert wait_for(lambda: bool(other.events("release charged")))
            begun = time.monotonic()
            assert other.stop() == 0
            assert time.monotonic() - begun < 60  # and not when its slot is over
            assert client.closed()
    assert not scratch.exists() and not other.socket.exists()
    assert other.events("engine stopped") and not other.events("internal error")
    assert house.database.rows("SELECT state FROM privid.release_log WHERE query = 'terminated'") == [("failed",)]


def test_a_second_engine_on_the_same_data_is_refused_and_a_killed_one_is_succeeded(other: EngineProcess) -> None:
    with running(other):
        second = subprocess.run([sys.executable, "-m", "privid.engine", *other.options], capture_output=True, text=True, check=False)
        assert second.returncode == 1 and "another engine is running" in second.stderr
        other.connect().close()  # the first is not disturbed
        scratch = other.place()
        assert other.stop(signal.SIGKILL) == -signal.SIGKILL
        assert scratch.exists() and other.socket.exists()  # nobody cleared up
        other.log_file.unlink()
        other.start()
        assert not scratch.exists()
        other.connect().close()


class Stranger(Echo):
    """A conversation that waits for a hello."""

    def __init__(self, cancel: Cancel, admit: Admit) -> None:
        super().__init__(cancel, admit)
        self.greeted = False

    def serve(self, kind: str, body: bytes, send: Callable[[bytes], None]) -> None:
        if not self.greeted:
            try:
                self.admit(body.decode())
            except PrividError as error:
                send(pack_json("E", error.as_message()))
                return
        self.greeted = True
        super().serve(kind, body, send)


@contextmanager
def strangers(path: Path, **options: float) -> Iterator[io.StringIO]:
    told = io.StringIO()
    server = Server(listen(path, os.getuid()), os.getuid(), Stranger, Log(told), **options)  # type: ignore[arg-type]
    thread = threading.Thread(target=server.serve)
    thread.start()
    try:
        yield told
    finally:
        server.stop()
        thread.join(10)


def test_a_connection_that_says_no_hello_is_closed_in_time_however_slowly_it_drips(tmp_path: Path) -> None:
    with strangers(tmp_path / "s", hello_seconds=0.6) as told, Client(tmp_path / "s") as silent, Client(tmp_path / "s") as slow, \
            Client(tmp_path / "s") as polite:
        polite.send("H", b"{}")
        assert polite.receive()[0] == "e"
        begun = time.monotonic()
        with suppress(OSError):
            for byte in struct.pack("<I", 1000) + b"H" + b" " * 995:
                slow.socket.sendall(bytes([byte]))
                time.sleep(0.05)
        assert time.monotonic() - begun < 5
        assert silent.closed() and slow.closed()
        polite.send("x", b"")
        assert polite.receive()[0] == "e"  # who has said hello may be silent for as long as he likes
    assert told.getvalue().count("no hello in time") == 2


def test_no_role_has_more_connections_than_are_left_for_others(tmp_path: Path) -> None:
    with strangers(tmp_path / "s", limit=8), ExitStack() as opened:

        def greet(role: str) -> tuple[Client, str]:
            client = opened.enter_context(Client(tmp_path / "s"))
            client.send("H", role.encode())
            kind = client.receive()[0]
            if kind == "E":
                client.close()
            return client, kind

        ana = [greet("ana") for _ in range(5)]
        assert [kind for _, kind in ana] == ["e"] * 4 + ["E"]
        assert [greet("bob")[1] for _ in range(3)] == ["e", "e", "E"]
        ana[0][0].close()
        ana[1][0].close()
        assert wait_for(lambda: greet("ana")[1] == "e")


def test_silent_connections_shut_nobody_out(tmp_path: Path) -> None:
    with strangers(tmp_path / "s", limit=4), ExitStack() as opened:
        silent = [opened.enter_context(Client(tmp_path / "s")) for _ in range(4)]
        time.sleep(1.2)
        for number in range(4):
            polite = opened.enter_context(Client(tmp_path / "s"))
            polite.send("H", b"role %d" % number)
            assert polite.receive()[0] == "e"
        assert all(client.closed() for client in silent)


def test_many_silent_connections_are_fewer_than_all(tmp_path: Path) -> None:
    with strangers(tmp_path / "s"), ExitStack() as opened:
        silent = [opened.enter_context(Client(tmp_path / "s")) for _ in range(MAX_SILENT)]
        time.sleep(1.2)
        polite = opened.enter_context(Client(tmp_path / "s"))
        polite.send("H", b"{}")
        assert polite.receive()[0] == "e" and silent[0].closed()


def bound(path: Path) -> socket.socket:
    other = socket.socket(socket.AF_UNIX)
    other.bind(str(path))
    return other


def test_only_a_socket_of_its_own_that_nobody_listens_on_makes_room_for_another(tmp_path: Path) -> None:
    path = tmp_path / "s"
    bound(path).close()
    listen(path, os.getuid()).close()
    listen(path, os.getuid()).close()
    path.unlink()
    path.write_text("precious")
    with pytest.raises(PrividError, match="is not a socket"):
        listen(path, os.getuid())
    assert path.read_text() == "precious"
    path.rename(tmp_path / "goal")
    path.symlink_to(tmp_path / "goal")
    with pytest.raises(PrividError, match="is not a socket"):
        listen(path, os.getuid())
    assert path.is_symlink() and (tmp_path / "goal").read_text() == "precious"


def test_a_socket_that_somebody_listens_on_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privid.engine.server.PATIENCE", 0.2)
    path = tmp_path / "s"
    with bound(path) as other, socket.socket(socket.AF_UNIX) as client:
        other.listen()
        with pytest.raises(PrividError, match="somebody listens"):
            listen(path, os.getuid())
        client.connect(str(path))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a socket away")
def test_a_socket_of_somebody_else_stays(tmp_path: Path) -> None:
    path = tmp_path / "s"
    bound(path).close()
    os.chown(path, 64_000, 64_000)
    with pytest.raises(PrividError, match="belongs to user 64000"):
        listen(path, os.getuid())
    assert path.is_socket()
    listen(path, 64_000).close()  # which it was given to by an engine for the same peer


def test_a_link_in_the_place_of_the_sockets_directory_leads_to_no_socket(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    bound(tmp_path / "theirs" / "s").close()
    (tmp_path / "run").symlink_to("theirs")
    with pytest.raises(PrividError, match="run"):
        listen(tmp_path / "run" / "s", os.getuid())
    assert (tmp_path / "theirs" / "s").is_socket()
