"""Looks at what this machine and its stack offer and tells what is missing or weaker, each with a remedy. With --dsn, or PostgreSQL's own
variables, it looks at a server elsewhere instead, as far as that can be seen through a connection.

A line begins with PASS, CAUTION (it works, with less of something) or FAIL (it does not work). The exit code is 1 when
anything fails.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import psycopg

import privid
from privid.accounts import holder
from privid.errors import PrividError
from privid.room.description import describe, parent_of
from privid.room.priority import priority_of
from privid.room.user import NUMBERS as ROOMS
from privid.sandbox.users import NUMBERS, SANDBOX_GID

from .closing import examine_closed
from .finding import Finding
from .library import library_files, offered_version, postgres_build, room_library
from .options import database_options
from .outside import examine_server
from .stack import Stack
from .target import Target, find_target
from .terminal import CommandFailed

__all__ = ["SUMMARY", "Finding", "arguments", "examine", "run"]

SUMMARY = "tell whether a machine or a server has what is needed"

_GIB = 1 << 30


def arguments(parser: argparse.ArgumentParser) -> None:
    database_options(parser)


def run(options: argparse.Namespace) -> int:
    worst = 0
    for finding in _findings(options):
        print(f"{finding.level:<8} {finding.subject}: {finding.detail}")
        if finding.remedy and finding.level != "PASS":
            print(f"         remedy: {finding.remedy}")
        worst = max(worst, int(finding.level == "FAIL"))
    return worst


def _findings(options: argparse.Namespace) -> Iterator[Finding]:
    try:
        target = find_target(options)
    except CommandFailed as failure:  # nothing of that directory is believed; the machine can be looked at all the same
        yield Finding("FAIL", "data directory", failure.message, failure.hint)
        yield from _all(_MACHINE)
        return
    yield from _outside(target) if target.stack is None else examine(target.stack)


def _outside(target: Target) -> Iterator[Finding]:
    try:
        connection = target.connect()
    except CommandFailed as failure:
        yield Finding("FAIL", "connection", failure.message, failure.hint)
        return
    with connection:
        yield from examine_server(connection)


def examine(stack: Stack) -> Iterator[Finding]:
    """All checks, of the machine and of its stack."""
    yield from _all(_MACHINE, stack)
    yield from _all((_account, _disk, _stack, _closed), stack)


def _all(checks: Iterable[Callable[..., Iterator[Finding]]], *stack: Stack) -> Iterator[Finding]:
    """One that cannot be made is a failure, not the end."""
    for check in checks:
        try:
            yield from check(*stack)
        except (CommandFailed, PrividError) as failure:
            yield Finding("FAIL", check.__name__.strip("_"), failure.message, failure.hint)


def _postgres(stack: Stack | None = None) -> Iterator[Finding]:
    build = postgres_build()
    yield Finding("PASS", "PostgreSQL", f"{build.version} in {build.bindir}")


def _library(stack: Stack | None = None) -> Iterator[Finding]:
    libraries = [library_files()[0], room_library()]
    offered = offered_version()
    if offered != privid.__version__:
        yield Finding("FAIL", "library", f"the extension's script is of version {offered}, this package of {privid.__version__}",
                      "Run make setup in the checkout, or install the package again.")
        return
    for library in libraries:
        if privid.__version__.encode() in library.read_bytes():
            yield Finding("PASS", "library", f"version {offered}, {library}")
        else:
            yield Finding("FAIL", "library", f"{library} is not of version {privid.__version__}", "Run make setup in the checkout.")


def _account(stack: Stack) -> Iterator[Finding]:
    account = stack.layout.account
    yield Finding("PASS", "user", f"PostgreSQL runs as uid {account.uid}")
    parent = next(p for p in (stack.layout.data, *stack.layout.data.parents) if p.exists())
    if not account.is_self and not account.reaches(parent):
        yield Finding("CAUTION", "data directory", f"{parent} is closed to the user that PostgreSQL runs as; it will be shown to it "
                      "by a mount of its own", "Use a data directory whose parents everybody may enter.")


def _numbers(stack: Stack | None = None) -> Iterator[Finding]:
    """Those that programs and rooms run as; only root has them to give."""
    if os.geteuid() != 0:
        return
    ranges = f"{SANDBOX_GID} to {NUMBERS[-1]} and {ROOMS[0]} to {ROOMS[-1]}"
    taken = [(number, whose) for number in (SANDBOX_GID, *NUMBERS, *ROOMS) if (whose := holder(number)) is not None]
    if not taken:
        yield Finding("PASS", "numbers", f"no account has any of {ranges}, as which programs and rooms run")
        return
    more = f", and {len(taken) - 3} more" if len(taken) > 3 else ""
    yield Finding("CAUTION", "numbers", "; ".join(f"{number} is of {whose}" for number, whose in taken[:3]) + f"{more}: programs and rooms "
                  "do not run as these" + (", but lanes share their scratch with that group" if taken[0][0] == SANDBOX_GID else ""),
                  f"Keep {ranges} free of accounts, groups, containers and services of others: docs/sandbox.md tells what gives them away.")


def _sandbox(stack: Stack | None = None) -> Iterator[Finding]:
    try:
        from privid.sandbox.capabilities import survey
    except (ImportError, OSError, RuntimeError) as error:  # it loads libraries of the system, which may be missing
        yield Finding("FAIL", "sandbox", f"could not be loaded: {error}", "Run make setup in the checkout.")
        return
    for found in survey(None if stack is None else stack.layout.lanes):
        yield Finding(found.status.value, found.name, found.found, found.remedy or None)


#: what can be told without a stack
_MACHINE = (_postgres, _library, _numbers, _sandbox)


def _disk(stack: Stack) -> Iterator[Finding]:
    place = next(p for p in (stack.layout.data, *stack.layout.data.parents) if p.exists())
    free = shutil.disk_usage(place).free
    level = "PASS" if free >= 2 * _GIB else "CAUTION" if free >= _GIB // 4 else "FAIL"
    yield Finding(level, "disk", f"{free / _GIB:.1f} GiB free in {place}", "Free some space, or choose another place with --data.")


def _stack(stack: Stack) -> Iterator[Finding]:
    if not stack.layout.exists:
        yield Finding("PASS", "stack", f"none in {stack.layout.data} yet; privid up creates it")
        return
    pieces = stack.pieces()
    for piece in pieces:
        yield Finding("PASS" if piece.running else "CAUTION", piece.name, piece.detail, "Start it with privid up.")
    room = describe(stack.layout.data)
    if room.remark:
        yield Finding("CAUTION", "room", room.remark, _ALONE)
    elif room.running:
        for name in _helpers_that_wait(stack):
            yield Finding("CAUTION", name, "it runs at ordinary priority: sessions that compute can delay it until a release has no rows",
                          _ALONE)
    if pieces[0].running:
        yield from _versions(stack)


_ALONE = "Start the stack as root, or keep the machine free of other work."
_HELPERS = (b"privid.engine.evaluator", b"privid.engine.reader")


def _helpers_that_wait(stack: Stack) -> Iterator[str]:
    """Processes of the engine on the way of rows that come after others."""
    engine = stack.engine.pid()
    for process in Path("/proc").glob("[0-9]*") if engine is not None else ():
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            name = next((word for word in _HELPERS if word in words), None)
            if name is not None and parent_of(int(process.name)) == engine and priority_of(int(process.name)) >= 0:
                yield name.rpartition(b".")[2].decode()


def _closed(stack: Stack) -> Iterator[Finding]:
    yield from examine_closed(stack.layout)


def _versions(stack: Stack) -> Iterator[Finding]:
    try:
        with stack.postgres.connect() as connection:
            row = connection.execute("SELECT extversion, privid.library_version() FROM pg_extension WHERE extname = 'privid'").fetchone()
    except psycopg.Error as error:
        yield Finding("FAIL", "extension", str(error).strip().splitlines()[0], "Run privid up again.")
        return
    installed, loaded = row or (None, None)
    same = installed == loaded == privid.__version__
    yield Finding("PASS" if same else "FAIL", "extension",
                  f"version {installed}, loaded library {loaded}, this package {privid.__version__}",
                  "Run privid up again: it restarts PostgreSQL with the library of this package.")
