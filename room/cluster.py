"""One PostgreSQL of the room, from its data directory to its end. One that has failed is not used again."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TypeVar

import psycopg
from psycopg import sql

from privid.closed import NO_FILE
from privid.errors import PrividError
from privid.postgres_build import postgres_build, room_library

from .facts import Connection, Facts
from .place import Place
from .priority import QUICK, set_priority
from .settings import SESSION, server_settings
from .user import ENVIRONMENT, RoomUser, step_down

__all__ = ["Cluster", "files_in_memory", "make_pristine", "next_cluster", "open_session"]

_PRISTINE = "pristine"
_LIBRARY = "privid_room.so"
#: the socket of the engine, as seen from a data directory: it stays when the server is replaced
_ENGINE_SOCKET = "../engine.sock"
_START, _PATIENCE = 30.0, 2.0

_NAMESPACE = ["unshare", "--mount", "--propagation", "slave", "--"]
#: initdb wants its user to have a name: this gives it one, in a mount namespace that it is alone in
_NAMED = 'mount --bind -- "$1" /etc/passwd && shift && exec "$@"'

#: Temporary files of a server: a file system in memory that it is alone with, so that nobody can fill it, nor see how full it is; it goes
#: with the last process. Who runs out of memory is another, where root says so.
_TEMPORARY = "base/pgsql_tmp"
_ALONE = ('mount -t tmpfs -o "size=100%,mode=0700,uid=$2,gid=$3" privid-room "$1" && shift 3 '
          '&& { echo -900 2>/dev/null >/proc/self/oom_score_adj || :; } && exec "$@"')

#: no memory of what is started so, or of its children, is written to a file when it crashes
_UNDUMPED = ["sh", "-c", 'ulimit -c 0; echo 0 > /proc/self/coredump_filter; exec "$@"', "sh"]

C = TypeVar("C", bound=Connection)


@cache
def files_in_memory() -> bool:
    """Whether a query's temporary files are in memory, rather than on a disk that others fill: root can arrange that, and other users where
    they may have namespaces of their own."""
    if os.geteuid() == 0:
        return True
    command = [*_alone_with("/tmp", RoomUser(os.geteuid(), os.getegid())), "true"]
    return subprocess.run(command, cwd="/", env=ENVIRONMENT, check=False, stdin=subprocess.DEVNULL, capture_output=True,
                          start_new_session=True).returncode == 0


def _alone_with(directory: str, user: RoomUser) -> list[str]:
    """The beginning of a command that has a file system in memory for itself there."""
    if user.is_self:  # root of a namespace of its own, until that is mounted; and then itself again, for PostgreSQL refuses root
        return ["unshare", "--user", "--map-root-user", *_NAMESPACE[1:], "sh", "-c", _ALONE, "sh", directory, "0", "0",
                "unshare", "--user", f"--map-user={user.uid}", f"--map-group={user.gid}", "--"]
    return [*_NAMESPACE, "sh", "-c", _ALONE, "sh", directory, str(user.uid), str(user.gid)]


def make_pristine(place: Place, facts: Facts, connections: int) -> None:
    """The library, and a cluster with the locale of the served database and what room.sql makes.

    All others are copies of it.
    """
    _write(place, _LIBRARY, room_library().read_bytes())
    provider = [f"--locale-provider={facts.provider}"]
    if facts.provider == "icu":
        provider += [f"--icu-locale={facts.icu_locale}"]
    user = place.user
    command = [*step_down(user.uid, user.gid), str(postgres_build().bindir / "initdb"),
               "-D", _PRISTINE, "-U", "room", "-E", "UTF8",
               "--locale=C", f"--lc-collate={facts.collate}", f"--lc-ctype={facts.ctype}", *provider,
               "--auth-local=trust", "--auth-host=reject",
               "--no-sync", "--no-instructions", "--wal-segsize=1"]
    if not user.is_self:
        _write(place, "passwd", f"room:x:{user.uid}:{user.gid}::/:/usr/sbin/nologin\n".encode())
        command = [*_NAMESPACE, "sh", "-c", _NAMED, "sh", str(place.path / "passwd"), *command]
    _run(place, command, "could not create the engine's own database cluster",
         "The locale of the served database must be installed on the engine's machine, and an engine "
         "that is started by root must be allowed to make mount namespaces and to run programs as "
         "another user.")
    cluster = Cluster(place, _PRISTINE, connections, "template1")
    try:
        _furnish(cluster)
        # only of what was shut down in order can a copy be made
        cluster.process.send_signal(signal.SIGINT)
        if cluster.process.wait(_START) != 0:
            raise PrividError("could not shut down the engine's own PostgreSQL",
                              detail=cluster.told)
    except BaseException:
        cluster.end()
        raise
    cluster.close()


def _furnish(cluster: Cluster) -> None:
    """Makes the one database. The templates of others go: each has as many files as all the rest."""
    with cluster.connect(psycopg.Connection, "template1") as conn:
        conn.execute("ALTER DATABASE postgres RENAME TO room")
    script = "".join(Path(__file__).with_name(name).read_text() for name in ("room.sql", "keyed.sql"))
    library = sql.Literal(str(cluster.place.path / _LIBRARY))
    with cluster.connect(psycopg.Connection) as conn:
        conn.execute(script.replace("'MODULE_PATHNAME'", library.as_string(conn)).encode())
        for template in ("template1", "template0"):
            name = sql.Identifier(template)
            conn.execute(sql.SQL("ALTER DATABASE {} IS_TEMPLATE false").format(name))
            conn.execute(sql.SQL("DROP DATABASE {}").format(name))


def _write(place: Place, name: str, content: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(name, flags, 0o644, dir_fd=place.fd)
    with os.fdopen(file, "wb") as stream:
        os.fchmod(file, 0o644)
        stream.write(content)


def _run(place: Place, command: list[str], failed: str, hint: str) -> None:
    done = subprocess.run(command, cwd=place.through(), env=ENVIRONMENT, umask=0o077,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", check=False, start_new_session=True)
    if done.returncode != 0:
        lines = done.stdout.strip().splitlines() or [f"{command[0]} said nothing"]
        told = next((line for line in lines if "error:" in line), lines[-1])
        raise PrividError(failed, detail=told.rstrip(".") + ".", hint=hint)


def next_cluster(place: Place, number: int, connections: int) -> Cluster:
    """A fresh server, a copy of the pristine one."""
    name, user = f"pg-{number}", place.user
    try:
        _run(place, [*step_down(user.uid, user.gid), "cp", "-a", "--reflink=auto", _PRISTINE, name],
             "could not copy the engine's own database cluster", "See whether the disk is full.")
        return Cluster(place, name, connections, number=number)
    except BaseException:
        place.discard(name)
        raise


def open_session(kind: type[C], directory: str, dbname: str = "room", timeout: int = 5) -> C:
    """A session with the server in a directory, with the settings of the room, whatever PG* the environment says."""
    conn = kind.connect(
        host=directory, hostaddr="", port="5432", passfile=NO_FILE, user="room", dbname=dbname, options="",
        client_encoding="utf8", application_name="privid engine", sslmode="disable",
        gssencmode="disable", connect_timeout=timeout, autocommit=True, prepare_threshold=None)
    try:
        conn.execute("SELECT pg_catalog.set_config(n, v, false) "
                     "FROM unnest(%s::text[], %s::text[]) s(n, v)",
                     (list(SESSION), list(SESSION.values())))
    except BaseException:
        conn.close()
        raise
    set_priority(conn.info.backend_pid, QUICK)
    return conn


class Cluster:
    """A running server. It ends with the thread that made it, however that ends."""

    def __init__(self, place: Place, name: str, connections: int, dbname: str = "room",
                 number: int = 0) -> None:
        self.place, self.name, self.number = place, name, number
        self._told = b""
        user = place.user
        settings = server_settings(place.path / _LIBRARY, _ENGINE_SOCKET, connections)
        raised = []
        if files_in_memory():
            _run(place, [*step_down(user.uid, user.gid), "mkdir", "-p", f"{name}/{_TEMPORARY}"],
                 "could not make a directory for temporary files", "See whether the disk is full.")
            raised = [*([] if user.is_self else ["nice", "-n", str(QUICK)]), *_alone_with(f"{name}/{_TEMPORARY}", user)]
        command = [*_UNDUMPED, *raised, *step_down(user.uid, user.gid),
                   str(postgres_build().bindir / "postgres"), "-D", name]
        command += [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        self.stderr, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            self.process = subprocess.Popen(
                command, cwd=place.through(), env=ENVIRONMENT, umask=0o077, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=writing)
        finally:
            os.close(writing)
        self.pidfd = os.pidfd_open(self.process.pid)
        try:
            set_priority(self.process.pid, QUICK)
            self._wait(dbname)
            place.release_memory(name)
        except BaseException:
            self.end()
            raise

    def _wait(self, dbname: str) -> None:
        """Returns when the server answers."""
        deadline = time.monotonic() + _START
        while self.process.poll() is None and time.monotonic() < deadline:
            with suppress(psycopg.OperationalError):
                self.connect(psycopg.Connection, dbname).close()
                return
            time.sleep(0.005)
        self.drain()
        raise PrividError("could not start the engine's own PostgreSQL", detail=self.told,
                          hint="See whether the machine has memory and disk left for it.")

    def connect(self, kind: type[C], dbname: str = "room", timeout: int = 5) -> C:
        """A new session."""
        return open_session(kind, self.place.through(self.name), dbname, timeout)

    def answers(self) -> bool:
        """Whether a new session can be made; no answer for a while is none."""
        try:
            self.connect(psycopg.Connection, timeout=2).close()
        except psycopg.Error:
            return False
        return True

    def drain(self) -> None:
        """Takes what the server has written to its standard error; the last of it is kept."""
        with suppress(BlockingIOError):
            while chunk := os.read(self.stderr, 65536):
                self._told = (self._told + chunk)[-4096:]

    @property
    def told(self) -> str | None:
        """The last failure that the server told of, as a sentence."""
        wanted = [line for line in self._told.decode(errors="replace").splitlines()
                  if ("FATAL:" in line or "PANIC:" in line) and "is starting up" not in line]
        return wanted[-1].split(":  ", 1)[-1].rstrip(".") + "." if wanted else None

    def end(self) -> None:
        """An immediate shutdown; what does not end by itself is killed. Nothing is left."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGQUIT)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_PATIENCE)
        self.place.discard(self.name)
        self.process.wait()
        self.close()

    def close(self) -> None:
        os.close(self.pidfd)
        os.close(self.stderr)
