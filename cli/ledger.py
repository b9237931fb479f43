"""Looks after the ledger of a stack.

privid ledger check tells whether the database knows every charge that was made, and whether its history is whole.

privid ledger accept-restore goes on with a database that was restored from an older state. Charges made since then are forgotten by that,
and whoever was seen in the footage may lose more than the policy promises, so it is written to the history that nobody can rewrite."""

from __future__ import annotations

import argparse
import json

import psycopg

from privid.ledger.mark import Mark

from .daemon import Engine
from .options import data_option
from .reading import rows
from .stack import Stack
from .terminal import CommandFailed

__all__ = ["SUMMARY", "arguments", "run"]

SUMMARY = "check the ledger, or accept one that was restored"


def arguments(parser: argparse.ArgumentParser) -> None:
    data_option(parser)
    parser.add_argument("action", choices=["check", "accept-restore"], metavar="ACTION", help="check or accept-restore")
    parser.add_argument("--yes", action="store_true", help="accept a restored ledger: what was charged since is lost")


def run(options: argparse.Namespace) -> int:
    stack = Stack(options.data)
    rows(stack, "SELECT FROM privid.release_log LIMIT 0")  # refuses when the stack does not run
    path = stack.layout.state / "ledger.mark"
    if options.action == "check":
        return _check(stack, Mark(path))
    return _accept(stack, options.yes)


def _check(stack: Stack, mark: Mark) -> int:
    with stack.postgres.connect() as connection:
        missing = mark.missing(connection)
    broken = rows(stack, "SELECT chain, id, problem FROM privid.verify_history()")
    print(f"charges: {len(mark.charges)} marked, {len(missing)} missing in the database")
    for chain, entry, problem in broken:
        print(f"history: chain {chain}, entry {entry}: {problem}")
    if not broken:
        print("history: whole")
    return 1 if missing or broken else 0


def _accept(stack: Stack, sure: bool) -> int:
    """The engine holds the mark in memory, so it stops meanwhile."""
    path = stack.layout.state / "ledger.mark"
    missing: list[int] | None = None
    try:
        mark = Mark(path)
        with stack.postgres.connect() as connection:
            missing = mark.missing(connection)
    except psycopg.Error as error:
        raise CommandFailed(error.diag.message_primary or str(error).strip()) from None
    except Exception:  # a damaged mark is what may have to be accepted
        if not path.exists():
            raise
    if missing == []:
        print("The database knows every charge that is marked; there is nothing to accept.")
        return 0
    lost = "an unknown number of" if missing is None else str(len(missing))
    if not sure:
        raise CommandFailed(f"the ledger lacks {lost} charges, which would be forgotten",
                            "Restore a newer state if there is one. If not, repeat the command with --yes: what was charged since may "
                            "then be spent again.")
    Engine(stack.layout).stop()
    details = {"missing": missing, "marked": path.read_text()[:100_000]}
    rows(stack, "SELECT privid.write_history('engine', privid.invoker(), NULL, 'restore accepted', %s::jsonb)", json.dumps(details))
    path.unlink()
    stack.up()
    print(f"Accepted: {lost} charges are forgotten. It is told in privid.history.")
    return 0
