"""Where a stack keeps its things, and as whom its PostgreSQL runs."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pwd
import stat
import subprocess
import tempfile
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privid.closed import NO_FILE, check_path, drop_acl, read_file, write_file
from privid.errors import PrividError

from .terminal import CommandFailed

__all__ = ["POSTGRES_ACCOUNTS", "Account", "Layout", "check_videos", "default_data"]

#: Linux's limit for the path of a Unix socket, without the closing zero
_SOCKET_PATH = 107
#: whom PostgreSQL runs as when the stack is started by root: the first that exists
POSTGRES_ACCOUNTS = ("privid", "postgres")


def default_data() -> Path:
    """The stack that is meant when --data is not given."""
    if os.geteuid() == 0:
        return Path("/var/lib/privid/default")
    base = os.environ.get("XDG_DATA_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".local" / "share") / "privid" / "default"


@dataclass(frozen=True)
class Account:
    """An operating-system user."""

    uid: int
    gid: int
    groups: tuple[int, ...]

    @property
    def is_self(self) -> bool:
        return self.uid == os.geteuid()

    def popen(self) -> dict[str, Any]:
        """Arguments for subprocess that run a program as this user."""
        return {} if self.is_self else {"user": self.uid, "group": self.gid, "extra_groups": list(self.groups)}

    def reaches(self, directory: Path) -> bool:
        """Whether the user may walk down to a directory; asked of the system itself, which knows every kind of permission.

        Who is that user can take the process over, so it has nothing of ours.
        """
        done = subprocess.run(["/usr/bin/test", "-x", str(directory)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, cwd="/", env={}, check=False, start_new_session=True, **self.popen())
        return done.returncode == 0

    @staticmethod
    def of(uid: int) -> Account:
        try:
            entry = pwd.getpwuid(uid)
        except KeyError:  # a number without a name, as in many containers
            return Account(uid, os.getegid() if uid == os.geteuid() else uid, ())
        return Account(uid, entry.pw_gid, tuple(os.getgrouplist(entry.pw_name, entry.pw_gid)))

    @staticmethod
    def for_postgres() -> Account:
        """Ourselves; for root, which PostgreSQL refuses, somebody with fewer rights."""
        if os.geteuid() != 0:
            return Account.of(os.geteuid())
        for name in POSTGRES_ACCOUNTS:
            with contextlib.suppress(KeyError):
                return Account.of(pwd.getpwnam(name).pw_uid)
        raise CommandFailed("there is no user that PostgreSQL could run as",
                            "PostgreSQL does not run as root. Create a user: adduser --system --group privid")


class Layout:
    """The folders of one stack, and what is remembered about it between commands."""

    def __init__(self, data: Path) -> None:
        self.data = self.given = data if data.is_absolute() else Path.cwd() / data
        with contextlib.suppress(OSError):
            self.data = self.data.resolve()
        self.pg = self.data / "pg"
        self.log = self.data / "log"
        self.lib = self.data / "lib"
        self.cache = self.data / "cache"
        self.state = self.data / "state"

    @property
    def exists(self) -> bool:
        try:
            return (self.pg / "PG_VERSION").exists()
        except PermissionError:
            raise self._foreign() from None

    def check_mine(self) -> None:
        """A stack is started and stopped by whom it belongs to: root writing into a user's folders would be led astray by links."""
        if self.data.exists() and self.data.stat().st_uid != os.geteuid() and self.exists:
            raise self._foreign()

    def check(self) -> None:
        """Before anything is believed that lies there: nobody else leads us astray, on the path that was given or on the one that it led to
        when it was looked up, nor says what is remembered."""
        try:
            for path in (self.given, self.data, self.state):
                check_path(path)
        except PrividError as error:
            raise CommandFailed(f'data directory "{self.data}" cannot be used: {error.message}',
                                "Run the command as the user whose it is, or choose a directory of which every step belongs to root or "
                                "to you, and can be written to by nobody else.") from None

    def _foreign(self) -> CommandFailed:
        try:
            whose = pwd.getpwuid(self.data.stat().st_uid).pw_name
        except (KeyError, OSError):
            whose = "somebody else"
        return CommandFailed(f'the stack in "{self.data}" belongs to {whose}',
                             "Run the command as that user, or use --data for a stack of your own.")

    @property
    def mark(self) -> str:
        """A short name of this data directory, for things that must live elsewhere."""
        return hashlib.sha256(os.fsencode(self.data)).hexdigest()[:12]

    # What is remembered

    def remembered(self) -> dict[str, Any]:
        place = self.state / "stack.json"
        try:
            known = json.loads(read_file(place))
        except (FileNotFoundError, PermissionError, ValueError):  # a stack of root's is closed to us
            return {}
        except OSError as error:
            raise CommandFailed(f'could not read "{place}": {error.strerror}',
                                "Move away what is there, and run privid up again.") from None
        return known if isinstance(known, dict) else {}

    def remember(self, **facts: Any) -> None:
        write_file(self.state / "stack.json", json.dumps(self.remembered() | facts, indent=1) + "\n")

    @property
    def port(self) -> int | None:
        """The TCP port on localhost, or None: reachable by its socket only."""
        return self.remembered().get("port") or None

    @property
    def socket_port(self) -> int:
        """The number in the name of PostgreSQL's socket, which lives in a directory of its own: it collides with nobody."""
        return self.port or 5432

    @property
    def lanes(self) -> int | None:
        """How many lanes the engine has, or None: as many as fit the machine."""
        return self.remembered().get("lanes") or None

    @property
    def videos(self) -> Path:
        return Path(self.remembered().get("videos") or self.data / "videos")

    @property
    def run(self) -> Path:
        """The directory of the sockets."""
        return Path(self.remembered().get("run") or self.data / "run")

    def server(self) -> dict[str, Any]:
        """How libpq reaches PostgreSQL: by its socket in a directory of the stack's own, whatever host a file could name, and without a
        password of the caller's, for which it never asks."""
        if "," in str(self.run) or not _is_private(self.run, self.account, 0o022):
            raise CommandFailed(f'"{self.run}" is not a directory of the stack\'s own for sockets', "Run privid up again: it makes one.")
        return {"host": str(self.run), "port": str(self.socket_port), "passfile": NO_FILE}

    @property
    def engine_socket(self) -> Path:
        return self.run / "engine.sock"

    @property
    def account(self) -> Account:
        """Whom PostgreSQL runs as: whoever owns its files, once there are any."""
        return Account.of(self.pg.stat().st_uid) if self.exists else Account.for_postgres()

    # Making it

    def create(self, videos: Path | None) -> None:
        """Makes what is missing; harmless on a stack that exists."""
        _check_name(self.data)
        self.check()
        check_videos(videos.absolute() if videos is not None else self.videos)
        account = self.account
        try:
            _make_parents(self.data.parent)
            self.data.mkdir(mode=0o700, exist_ok=True)
            self.check()  # somebody else may have been first in /tmp
            drop_acl(self.data)
            for folder in (self.log, self.lib, self.cache, self.state):
                folder.mkdir(mode=0o700, exist_ok=True)
            if videos is None and not self.remembered().get("videos"):
                self.videos.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise CommandFailed(f'could not create the data directory "{self.data}": {error.strerror}',
                                "Choose a directory that you may write to with --data.") from None
        if videos is not None:
            self.remember(videos=str(videos.absolute()))
        if not self.videos.is_dir():
            raise CommandFailed(f'video directory "{self.videos}" does not exist', "Create it, or give another one with --videos.")
        self._create_run(account)

    def _create_run(self, account: Account) -> None:
        """A private directory for the sockets: in the data directory, or elsewhere when that path is too long for a socket, or has a
        comma, which separates hosts for PostgreSQL's clients."""
        wanted = self.data / "run"
        if len(os.fsencode(wanted / ".s.PGSQL.65535")) <= _SOCKET_PATH and "," not in str(wanted):
            wanted.mkdir(mode=0o700, exist_ok=True)
            self.remember(run=None)
        else:
            known = self.remembered().get("run")
            wanted = Path(known) if known and _is_private(Path(known), account) else Path(tempfile.mkdtemp(prefix="privid-", dir="/tmp"))
            self.remember(run=str(wanted))
        try:
            fd = os.open(wanted, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise CommandFailed(f'could not open directory "{wanted}": {error.strerror}',
                                "It must be a directory of the stack's own: move away what is there.") from None
        try:
            os.fchmod(fd, 0o700)
            if os.fstat(fd).st_uid != account.uid:
                os.fchown(fd, account.uid, account.gid)
        finally:
            os.close(fd)


def check_videos(videos: Path) -> None:
    """Nobody else exchanges the directory that the engine reads, root's too; who may write in it, its owner decides."""
    try:
        check_path(videos, place=True)
    except PrividError as error:
        raise CommandFailed(f'video directory "{videos}" cannot be used: {error.message}',
                            "Choose one with --videos of which every directory above belongs to root or to you, and can be written to "
                            "by nobody else.") from None


def _check_name(data: Path) -> None:
    """A path ends up in settings, in logs and on terminals."""
    name = str(data)
    if not name.isprintable() and any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") and c != "\t" for c in name):
        shown = "".join(c if c.isprintable() else "?" for c in name)
        raise CommandFailed(f'"{shown}" cannot be the name of a data directory: it has control characters, or bytes that are not UTF-8',
                            "Choose another directory with --data.")


def _make_parents(directory: Path) -> None:
    """Directories on the way, which others may pass but not write to, whatever the umask is."""
    if not directory.exists():
        _make_parents(directory.parent)
        directory.mkdir(mode=0o755, exist_ok=True)


def _is_private(directory: Path, account: Account, closed: int = 0o077) -> bool:
    """Whether it is the user's, and closed to others as far as these bits of its mode tell."""
    if not directory.is_absolute():
        return False
    try:
        info = directory.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(info.st_mode) and info.st_uid == account.uid and not info.st_mode & closed
