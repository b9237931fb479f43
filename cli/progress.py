"""Tells how far the tables that are being read have come, by the public timetable; on a terminal, draws it until nothing is left.

With --once, or without a terminal, prints one line for each table and ends.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import psycopg

from .options import data_option
from .stack import Stack
from .terminal import CommandFailed, progress

__all__ = ["SUMMARY", "arguments", "run"]

SUMMARY = "tell how far the tables that are being read have come"

_QUERY = """SELECT camera, coalesce("table", '-'), slots, slots_over, percent::float8,
                   greatest(0, extract(epoch FROM ends - clock_timestamp()))::float8
            FROM privid.progress ORDER BY begins, job"""


def arguments(parser: argparse.ArgumentParser) -> None:
    data_option(parser)
    parser.add_argument("-U", "--username", metavar="ROLE", default="analyst", help="role whose tables are named (default: analyst)")
    parser.add_argument("--once", action="store_true", help="print how things stand, and end")


def run(options: argparse.Namespace) -> int:
    stack = Stack(options.data)
    if stack.postgres.pid() is None:
        raise CommandFailed(f'the stack in "{stack.layout.data}" is not running', "Start it with privid up.")
    try:
        with stack.postgres.connect(user=options.username) as connection:
            if options.once or not sys.stderr.isatty():
                rows = connection.execute(_QUERY).fetchall()
                for row in rows:
                    print(_line(row))
                if not rows:
                    print("Nothing is being read.")
                return 0
            _draw(connection)
    except psycopg.Error as error:
        raise CommandFailed(error.diag.message_primary or str(error).strip(), error.diag.message_hint) from None
    return 0


def _draw(connection: psycopg.Connection[Any]) -> None:
    """One bar for all slots, until the last is over."""
    while rows := connection.execute(_QUERY).fetchall():
        slots = sum(row[2] for row in rows)
        with progress(slots) as bar:
            for _ in range(20):
                rows = connection.execute(_QUERY).fetchall()
                if not rows or sum(row[2] for row in rows) != slots:
                    break
                done, left = sum(row[3] for row in rows), max(row[5] for row in rows)
                bar.reach(done, f"slot {done} of {slots}, {left:.0f} s left")
                time.sleep(0.5)


def _line(row: tuple[Any, ...]) -> str:
    camera, table, slots, over, percent, left = row
    return f"{camera} {table}: slot {over} of {slots}, {percent:.0f} %, {left:.0f} s left"
