"""Whom the engine takes for its PostgreSQL.

While PostgreSQL is down, anybody may listen on its port, ask for the password, and name any path and any user. So the server is
known only by the other end of a Unix socket, of which the kernel says whose it is. Any other has to prove that it knows
the password (SCRAM), and is asked for neither paths nor users.
"""

from __future__ import annotations

import os
import pwd
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from privid.closed import user_name

from .layout import POSTGRES_ACCOUNTS, Account
from .target import Connection, Target
from .terminal import CommandFailed

__all__ = ["reached"]

#: libpq's require_auth: before it is known who listens, nothing is said from which the password follows; then both ends prove it
_NO_SECRET, _MUTUAL = "!password,!md5", "scram-sha-256"
#: the first libpq that has it
_LIBPQ = 160000


@contextmanager
def reached(dsn: str, peer: Account | None, path: Path | None) -> Iterator[tuple[Connection, Account | None]]:
    """A connection, and whom the server runs as if that is known; else what --peer and --socket say must do."""
    if pq.version() < _LIBPQ:
        raise CommandFailed(f"libpq of version {pq.version() // 10000} cannot keep a password from a server that asks for it in clear",
                            "Install psycopg[binary], which brings a newer one.")
    with Target(None, _with(dsn, _NO_SECRET)).connect() as connection:
        whose = _other_end(connection)
        if whose is not None and whose.uid in _trusted(peer):
            yield connection, whose
            return
    if peer is None or path is None:
        how = "over TCP" if whose is None else f"by a socket of {user_name(whose.uid)}"
        raise CommandFailed(f"the server was reached {how}, and what it says of users and paths is not believed",
                            "Connect by the socket of PostgreSQL's own user (host=/run/postgresql); or say with --peer whom it "
                            "runs as, and with --socket what privid.socket is in its postgresql.conf.")
    with Target(None, _with(dsn, _MUTUAL)).connect() as connection:
        yield connection, None


def _with(dsn: str, required: str) -> str:
    """Who says it otherwise, knows why: with a certificate, for one, no password is asked for."""
    if "require_auth" in conninfo_to_dict(dsn) or os.environ.get("PGREQUIREAUTH"):
        return dsn
    return make_conninfo(dsn, require_auth=required)


def _other_end(connection: Connection) -> Account | None:
    """Who listens on a Unix socket, as the kernel noted it; None elsewhere."""
    with socket.socket(fileno=os.dup(connection.pgconn.socket)) as end:
        if end.family != socket.AF_UNIX:
            return None
        return Account.of(struct.unpack("3i", end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1])


def _trusted(peer: Account | None) -> set[int]:
    """Root can be anybody anyway."""
    if peer is not None:
        return {0, peer.uid}
    found = {0, os.geteuid()}
    for name in POSTGRES_ACCOUNTS:
        with suppress(KeyError):
            found.add(pwd.getpwnam(name).pw_uid)
    return found
