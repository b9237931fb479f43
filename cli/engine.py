"""Runs the engine beside an existing PostgreSQL, in the foreground: what a systemd unit starts.

It runs on the server's machine, as root where programs of analysts shall each have a user and
control groups of their own. Before it begins it looks whether the server is ready for it
(extension, preloaded library, versions, login). --print-unit prints a unit for systemd that runs it
with the options given. An embedded stack (privid up) has an engine already.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pwd
from pathlib import Path

from psycopg import errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import privid
from privid.closed import make_directory

from .layout import Account, Layout, check_videos
from .notify import announce
from .options import dsn_option, shortened, whole_number
from .outside import readiness
from .reaching import reached
from .target import Connection, names_a_server, value
from .terminal import CommandFailed
from .unit import unit_file, usual_socket

__all__ = ["SUMMARY", "arguments", "run"]

SUMMARY = "run the engine beside an existing PostgreSQL, in the foreground"

#: Linux's limit for the path of a Unix socket, without the closing zero
_SOCKET_PATH = 107


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", metavar="DIR", type=Path, required=True,
                        help="directory of the engine's own: the mark of the ledger, and what "
                             "programs found; made if it does not exist")
    parser.add_argument("--videos", metavar="DIR", type=Path, required=True,
                        help="directory that cameras read from")
    dsn_option(parser, "the database, and the role privid_engine (default: as PostgreSQL's own "
                       "variables say)")
    parser.add_argument("--socket", metavar="PATH", type=Path, default=None,
                        help="where to listen, the same as privid.socket in postgresql.conf "
                             f"(default: {usual_socket('DATABASE')})")
    parser.add_argument("--peer", metavar="USER", default=None,
                        help="operating-system user that the server runs as (default: "
                             "found out by its Unix socket; over TCP it must be said, and --socket)")
    parser.add_argument("--lanes", metavar="N", type=_lanes, default=None,
                        help="programs that run at the same time (default: one per core but one)")
    parser.add_argument("--cold", action="store_true",
                        help="start every program from nothing, also where it could start warm")
    parser.add_argument("--print-unit", action="store_true",
                        help="print a unit for systemd, and do nothing else")


def _lanes(text: str) -> int:
    return whole_number(text, 1, 512, "a number from 1 to 512")


def run(options: argparse.Namespace) -> int:
    data, videos = options.data.absolute(), options.videos.absolute()
    places = ["--data", str(data), "--videos", str(videos)]
    more = [*(["--lanes", str(options.lanes)] if options.lanes else []),
            *(["--cold"] if options.cold else [])]
    if options.print_unit:
        path = options.socket or usual_socket(_database(options.dsn))
        given = {"--dsn": options.dsn, "--socket": options.socket, "--peer": options.peer}
        words = [str(word) for pair in given.items() if pair[1] is not None for word in pair]
        print(unit_file([*places, *words, *more], data, videos, path), end="")
        return 0
    if options.dsn is None and not names_a_server():
        raise _unnamed("Give it with --dsn 'dbname=cameras user=privid_engine', or with PGDATABASE "
                       "and PGUSER.")
    said = None if options.peer is None else _account(options.peer)
    with reached(options.dsn or "", said, options.socket) as (connection, whose):
        _check_ready(connection)
        peer = said or _peer(whose)
        path = _socket(options.socket, connection, known=whose is not None)
        conninfo = _settled(connection, whose)
    _prepare(data, videos, path, peer)
    for name in [name for name in os.environ if name.startswith("PG")]:
        del os.environ[name]  # conninfo has all of it; what the engine starts shall not see it
    announce(path)
    from privid.engine.__main__ import main as serve  # it loads everything; others start without

    return serve([*places, "--socket", str(path), "--conninfo", conninfo,
                  "--peer-uid", str(peer.uid), *more])


def _database(dsn: str | None) -> str:
    """The name of the database without a connection, as far as that can be told."""
    found = conninfo_to_dict(dsn or "").get("dbname") or os.environ.get("PGDATABASE")
    if not found:
        raise _unnamed("Give dbname in --dsn, or say with --socket where to listen.")
    return str(found)


def _unnamed(hint: str) -> CommandFailed:
    return CommandFailed("it is not said which database the engine serves", hint)


def _check_ready(connection: Connection) -> None:
    for finding in readiness(connection):
        if finding.level == "FAIL":
            raise CommandFailed(f"{finding.subject}: {finding.detail}", finding.remedy)
    loaded = value(connection, "SELECT privid.library_version()")
    if loaded != privid.__version__:
        raise CommandFailed(f"the server has loaded the library of version {loaded}, but this "
                            f"engine has version {privid.__version__}",
                            "Run privid install of this package, restart the server, and run ALTER "
                            "EXTENSION privid UPDATE; or start the engine of the server's version.")
    if not value(connection, "SELECT pg_has_role('privid_engine', 'MEMBER')"):
        raise CommandFailed(f'role "{connection.info.user}" cannot act as the engine',
                            "Connect as privid_engine, which a superuser lets in with ALTER ROLE "
                            "privid_engine LOGIN and a line in pg_hba.conf.")


def _account(given: str) -> Account:
    """A user by name or by number."""
    try:
        number = given.isascii() and given.isdigit() and len(given) <= 10
        return Account.of(int(given) if number else pwd.getpwnam(given).pw_uid)
    except (KeyError, OverflowError):
        raise CommandFailed(f'there is no user "{shortened(given)}"', "Give the user that the server runs "
                            "as, for example postgres.") from None


def _peer(whose: Account | None) -> Account:
    """Whom the server runs as, where --peer does not say it; PostgreSQL is never root."""
    if whose is None or whose.uid == 0:
        raise CommandFailed("could not find out which user the server runs as", "Say it with --peer postgres.")
    return whose


def _socket(given: Path | None, connection: Connection, *, known: bool) -> Path:
    """Where to listen: as said, as the setting of a known server says to who may read it, or as usual."""
    wanted = _setting(connection, "privid.socket") if known else None
    if given is None and wanted:
        return Path(wanted)
    path = given.absolute() if given is not None else usual_socket(connection.info.dbname)
    if wanted and Path(wanted) != path:
        raise CommandFailed(f'the server looks for the engine at "{wanted}", not at "{path}"',
                            "Give --socket the path that privid.socket has in postgresql.conf.")
    return path


def _setting(connection: Connection, name: str) -> str | None:
    """A setting that only superusers and their like may read; None for others."""
    try:
        return value(connection, "SELECT current_setting(%s, true)", name) or None
    except errors.InsufficientPrivilege:
        return None


def _settled(connection: Connection, whose: Account | None) -> str:
    """The connection as it was made, whatever service or variable said so, to make more of it.

    They are to the same user, also when PostgreSQL was down in between.
    """
    found = {option.keyword.decode(): option.val.decode() for option in connection.pgconn.info
             if option.val is not None and option.val != option.compiled}
    if whose is not None:
        with contextlib.suppress(KeyError):  # a number without a name, as in many containers
            found["requirepeer"] = pwd.getpwuid(whose.uid).pw_name
    return make_conninfo(**{name: value for name, value in found.items()
                            if name not in ("service", "servicefile")})


def _prepare(data: Path, videos: Path, path: Path, peer: Account) -> None:
    """Directories that are missing, where they may be made."""
    Layout(data).check()
    if Layout(data).exists:
        raise CommandFailed(f'directory "{data}" holds an embedded stack',
                            "It has an engine of its own; give another directory with --data.")
    if not videos.is_dir():
        raise CommandFailed(f'video directory "{videos}" does not exist',
                            "Create it, or give another one with --videos.")
    if len(os.fsencode(path)) > _SOCKET_PATH:
        raise CommandFailed(f'the path of the socket is too long: "{path}"',
                            "Choose a shorter one with --socket.")
    check_videos(videos)
    try:
        make_directory(data, 0o700)
        for name in ("cache", "state"):
            (data / name).mkdir(mode=0o700, exist_ok=True)
        if path == usual_socket(path.parent.name):
            make_directory(path.parent, 0o755)
    except OSError as error:
        raise CommandFailed(f'could not create "{error.filename}": {error.strerror}',
                            "Choose a place that you may write to with --data or --socket, or run "
                            "the engine as root.") from None
    if not path.parent.is_dir():
        raise CommandFailed(f'directory "{path.parent}" does not exist',
                            "Create it, or choose another place with --socket.")
    for place, option in ((data / "state", "--data"), (path.parent, "--socket")):
        if not os.access(place, os.W_OK | os.X_OK):
            raise CommandFailed(f'could not write to "{place}": permission denied',
                                f"Choose a place of your own with {option}, or run the engine as "
                                "root.")
    if not _enters(peer, path.parent):
        raise CommandFailed(f'the server, which runs as user {peer.uid}, cannot reach '
                            f'"{path.parent}"',
                            "Choose a place with --socket and privid.socket whose directories "
                            "everybody may enter.")


def _enters(peer: Account, directory: Path) -> bool:
    if peer.is_self or os.geteuid() == 0:
        return peer.reaches(directory)
    # nobody else can ask in his place: only what is closed to the group and to all is out of reach
    return all(folder.stat().st_mode & 0o011 for folder in (directory, *directory.parents))
