"""Looks after the ledger.

privid ledger check tells whether the database knows every charge that was made, and whether its
history is whole.

privid ledger accept-restore goes on with a database that was restored from an older state. Charges
made since then are forgotten by that, and whoever was seen in the footage may lose more than the
policy promises, so it is written to the history that nobody can rewrite.

The charges are marked in a file of the engine's. Beside an existing cluster, --engine-data says
where: the directory that privid engine has as --data. The role is privid_engine or a superuser.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
from pathlib import Path

from privid.closed import open_file, read_file
from privid.errors import PrividError

from .daemon import Engine
from .layout import Layout
from .options import database_options
from .reading import rows
from .target import Target, find_target, reported
from .terminal import CommandFailed

__all__ = ["SUMMARY", "arguments", "run"]

SUMMARY = "check the ledger, or accept one that was restored"


def arguments(parser: argparse.ArgumentParser) -> None:
    database_options(parser)
    parser.add_argument("--engine-data", metavar="DIR", type=Path, default=None,
                        help="data directory of an engine beside an existing cluster (a stack "
                             "knows its own)")
    parser.add_argument("action", choices=["check", "accept-restore"], metavar="ACTION",
                        help="check or accept-restore")
    parser.add_argument("--yes", action="store_true",
                        help="accept a restored ledger: what was charged since is lost")


def run(options: argparse.Namespace) -> int:
    target = find_target(options)
    rows(target, "SELECT FROM privid.release_log LIMIT 0")  # refuses who may not look
    data = options.engine_data if target.stack is None else target.stack.layout.data
    if data is not None:
        Layout(data).check()
    if data is not None and not data.is_dir():
        raise CommandFailed(f'data directory "{data}" does not exist',
                            "Give the one that the engine has as --data.")
    if options.action == "check":
        return _check(target, data)
    if data is None:
        raise CommandFailed("it is not said where the engine has its data",
                            "Give --engine-data, the directory that privid engine has as --data; "
                            "run this on that machine.")
    return _accept(target, data, options.yes)


def _check(target: Target, data: Path | None) -> int:
    missing: list[int] = []
    if data is None:
        print("charges: not compared, for the mark is with the engine; --engine-data says where")
    else:
        marked, missing = _compare(target, data)
        print(f"charges: {marked} marked, {len(missing)} missing in the database")
    broken = rows(target, "SELECT chain, id, problem FROM privid.verify_history()")
    for chain, entry, problem in broken:
        print(f"history: chain {chain}, entry {entry}: {problem}")
    if not broken:
        print("history: whole")
    return 1 if missing or broken else 0


def _compare(target: Target, data: Path) -> tuple[int, list[int]]:
    """How many charges are marked, and those of them that the database lacks."""
    from privid.ledger.mark import Mark  # it loads the whole ledger; other commands start without

    mark = Mark(_mark(data))
    with target.connect() as connection, reported():
        return len(mark.charges), mark.missing(connection)


def _mark(data: Path) -> Path:
    return data / "state" / "ledger.mark"


def _accept(target: Target, data: Path, sure: bool) -> int:
    """The engine holds the mark in memory, so it does not run meanwhile."""
    missing: list[int] | None = None
    with contextlib.suppress(PrividError):  # a damaged mark is what may have to be accepted
        missing = _compare(target, data)[1]
    if missing == []:
        print("The database knows every charge that is marked; there is nothing to accept.")
        return 0
    lost = "an unknown number of" if missing is None else str(len(missing))
    if not sure:
        raise CommandFailed(f"the ledger lacks {lost} charges, which would be forgotten",
                            "Restore a newer state if there is one. If not, repeat the command "
                            "with --yes: what was charged since may then be spent again.")
    if target.stack is not None:
        Engine(target.stack.layout).stop()
    with os.fdopen(open_file(data / "engine.lock", os.O_RDWR), "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CommandFailed("the engine is running, and holds the mark",
                                "Stop it first: systemctl stop privid-engine.") from None
        details = {"missing": missing, "marked": read_file(_mark(data))[:100_000]}
        rows(target, "SELECT privid.write_history('engine', privid.invoker(), NULL, "
                     "'restore accepted', %s::jsonb)", json.dumps(details))
        _mark(data).unlink()
    print(f"Accepted: {lost} charges are forgotten. It is told in privid.history.")
    if target.stack is not None:
        target.stack.up()
    else:
        print("Start the engine again.")
    return 0
