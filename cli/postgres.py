"""The PostgreSQL of a stack: created, started, found again and stopped."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import stat
import subprocess
from pathlib import Path
from typing import IO, Any

import psycopg

from privid.closed import is_private_group, make_directory, open_file, read_file, write_file

from .layout import Account, Layout
from .library import PostgresBuild, postgres_build
from .processes import ended, inside, wait_until
from .terminal import CommandFailed

__all__ = ["Postgres"]

#: a clean environment: nothing of the caller's PG* settings, locale or time zone gets in
#: what a server says that has no connection left; before anybody is let in there is no SQLSTATE for a client to look at
_FULL = ("too many clients", "remaining connection slots are reserved")
_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}

#: inside the new mount namespace: show the data directory at a place that the unprivileged user can reach, then step down
_STEP_DOWN = ('mount --bind -- "$1" "$2" && uid=$3 gid=$4 && shift 4 && cd / && '
              'exec setpriv --reuid "$uid" --regid "$gid" --init-groups -- "$@"')


#: statements can hold passwords, and values that only their writer may see: no line of the log repeats one, whole or in part
_SILENCE = {
    "log_statement": "none",
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_min_duration_statement": -1,
    "log_min_duration_sample": -1,
    "log_transaction_sample_rate": 0,
    "log_parameter_max_length": 0,
    "log_parameter_max_length_on_error": 0,
}


class Postgres:
    """One cluster below a stack's data directory, with its sockets in the stack's run directory."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    @property
    def build(self) -> PostgresBuild:
        return postgres_build()

    # Paths as PostgreSQL itself sees them

    @property
    def hidden(self) -> bool:
        """Whether the user that PostgreSQL runs as cannot walk down to the data directory (it is below somebody's private folder)."""
        account = self.layout.account
        return not account.is_self and not account.reaches(self.layout.data)

    @property
    def mount_point(self) -> Path:
        """Where PostgreSQL sees a hidden data directory, in its own mount namespace only."""
        return Path("/run/privid") / self.layout.mark

    def _seen(self, path: Path, hidden: bool) -> Path:
        return self.mount_point / path.relative_to(self.layout.data) if hidden and path.is_relative_to(self.layout.data) else path

    def _command(self, argv: list[str], hidden: bool) -> list[str]:
        """Wraps a command so that it finds a hidden data directory: a mount in a namespace of its own, seen by nobody else."""
        if not hidden:
            return argv
        account, place = self.layout.account, self.mount_point
        make_directory(place, 0o755)
        return ["unshare", "--mount", "--propagation", "slave", "--", "sh", "-c", _STEP_DOWN, "sh",
                str(self.layout.data), str(place), str(account.uid), str(account.gid), *argv]

    def _spawn(self, argv: list[str], hidden: bool, output: IO[bytes] | int) -> subprocess.Popen[bytes]:
        identity = {} if hidden else self.layout.account.popen()  # when hidden, setpriv steps down after the mount
        return subprocess.Popen(self._command(argv, hidden), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                cwd="/", env=_ENVIRONMENT, umask=0o077, start_new_session=True, **identity)

    # Creating

    def create(self) -> None:
        """initdb, once; one that was interrupted is begun again."""
        layout = self.layout
        if layout.exists:
            return
        new = layout.data / "pg.new"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(mode=0o700)
        account = layout.account
        if not account.is_self:
            os.chown(new, account.uid, account.gid)
        hidden = self.hidden
        process = self._spawn([str(self.build.bindir / "initdb"), "-D", str(self._seen(new, hidden)), "-U", "privid", "-E", "UTF8",
                               "--locale=C.UTF-8", "--auth-local=trust", "--auth-host=scram-sha-256"], hidden, subprocess.PIPE)
        output = process.communicate()[0].decode(errors="replace")
        if process.returncode != 0:
            if hidden and "mount" in output:
                raise CommandFailed(f'the user that PostgreSQL runs as cannot reach "{layout.data}", and it could not be mounted elsewhere',
                                    "Choose a directory whose parents everybody may enter with --data.")
            raise CommandFailed(f"initdb failed: {output.strip().splitlines()[-1] if output.strip() else process.returncode}")
        _include_settings(new, account.uid)
        new.rename(layout.pg)

    def configure(self, destdir: Path) -> bool:
        """Writes the settings; True when they differ from those that the server was last started with."""
        layout, hidden = self.layout, self.hidden
        run = self._seen(layout.run, hidden)
        settings = {
            "extension_destdir": self._seen(destdir, hidden),
            "shared_preload_libraries": "$libdir/privid",
            "privid.socket": run / "engine.sock",
            "unix_socket_directories": '"' + str(run).replace('"', '""') + '"',
            "unix_socket_permissions": "0700",
            "listen_addresses": "127.0.0.1" if layout.port else "",
            "port": layout.socket_port,
            "password_encryption": "scram-sha-256",
            "max_connections": 250,
            "fsync": "on",
            "log_line_prefix": "%m [%p] %q%u@%d ",
            **_SILENCE,
            "cluster_name": "privid",
        }
        text = "# Written by privid up. Use ALTER SYSTEM for settings of your own.\n" + "".join(
            f"{name} = '{_quoted(value)}'\n" for name, value in settings.items())
        conf = layout.state / "postgresql.conf"
        write_file(conf, text)
        _let_read(conf, layout.account)
        return bool(layout.remembered().get("settings") != text)

    # Running

    def pid(self) -> int | None:
        """The postmaster: the process of the lock file, if it really stands in this data directory."""
        try:
            pid = int(read_file(self.layout.pg / "postmaster.pid").split("\n", 1)[0])
        except (OSError, ValueError):
            return None
        return pid if pid in inside(self.layout.pg) else None

    def connect(self, user: str = "privid", dbname: str = "privid", **options: Any) -> psycopg.Connection[tuple[object, ...]]:
        """A connection through the socket, whatever PG* the environment says: a service or a way to authenticate would lead astray."""
        for name in [name for name in os.environ if name.startswith("PG") and name != "PG_CONFIG"]:
            del os.environ[name]
        return psycopg.connect(**self.layout.server(), user=user, dbname=dbname, autocommit=True, connect_timeout=10, **options)

    def answers(self) -> bool:
        """Whether it lets us in; one that has too many clients does so later, and is there."""
        try:
            self.connect(dbname="postgres").close()
        except psycopg.OperationalError as error:
            return any(words in str(error) for words in _FULL)
        return True

    def start(self) -> None:
        """Starts the server and waits until it answers."""
        layout, hidden = self.layout, self.hidden
        self._clear_crashed()
        file = layout.log / "postgresql.log"
        with contextlib.suppress(FileNotFoundError):
            if file.stat().st_size > 10_000_000:
                file.rename(file.with_suffix(".log.1"))
        begin = file.stat().st_size if file.exists() else 0
        layout.remember(settings=read_file(layout.state / "postgresql.conf"))
        with os.fdopen(open_file(file, os.O_WRONLY | os.O_APPEND), "ab") as log:
            process = self._spawn([str(self.build.bindir / "postgres"), "-D", str(self._seen(layout.pg, hidden))], hidden, log)
        if not wait_until(lambda: process.poll() is not None or self.answers(), 60) or process.poll() is not None:
            if process.poll() is None:
                process.send_signal(signal.SIGQUIT)
            with file.open("rb") as log:
                log.seek(begin)
                told = [line for line in log.read().decode(errors="replace").splitlines() if "FATAL" in line or "mount" in line]
            raise CommandFailed("could not start PostgreSQL" + (": " + told[0].split("FATAL:")[-1].strip() if told else ""),
                                f'See "{file}".')

    def _clear_crashed(self) -> None:
        """After a kill of the postmaster: its orphans end, and lock files whose number a stranger may have by now go away."""
        orphans = inside(self.layout.pg)
        if orphans and not wait_until(lambda: ended(orphans), 10):
            for pid in set(orphans) & set(inside(self.layout.pg)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGQUIT)
            wait_until(lambda: ended(orphans), 5)
        if not inside(self.layout.pg):
            for lock in (self.layout.pg / "postmaster.pid", *self.layout.run.glob(".s.PGSQL.*")):
                lock.unlink(missing_ok=True)

    def stop(self) -> bool:
        """A fast shutdown, waited for. False when it was not running."""
        pid = self.pid()
        if pid is None:
            return False
        family = inside(self.layout.pg)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGINT)
            if not wait_until(lambda: ended(family), 60):
                os.kill(pid, signal.SIGQUIT)
        if not wait_until(lambda: not inside(self.layout.pg), 10):
            raise CommandFailed("PostgreSQL does not stop", f'See "{self.layout.log / "postgresql.log"}".')
        return True


def _quoted(value: object) -> str:
    """Between the quotes of a file of settings."""
    return str(value).replace("\\", "\\\\").replace("'", "''").replace("\t", "\\t")


def _include_settings(cluster: Path, uid: int) -> None:
    """The settings live in a file that the stack writes anew at each start; ALTER SYSTEM still wins over it.

    The directory is PostgreSQL's: what is opened there is the very file that initdb made, and no link in its place.
    """
    fd = os.open(cluster / "postgresql.conf", os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "ab") as conf:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode) or info.st_uid != uid or info.st_nlink != 1:
            raise CommandFailed(f'"{cluster / "postgresql.conf"}" is not the file that initdb made',
                                "Remove the data directory, and try again.")
        conf.write(b"\ninclude '../state/postgresql.conf'\n")


def _let_read(conf: Path, account: Account) -> None:
    """PostgreSQL reads its settings, and nobody else does, if the group that it runs with is its own."""
    if account.is_self:
        return
    if is_private_group(account.gid, account.uid):
        os.chown(conf, -1, account.gid, follow_symlinks=False)
        conf.chmod(0o640)
    else:
        conf.chmod(0o644)
