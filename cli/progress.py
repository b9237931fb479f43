"""Tells how far the tables that are being read have come, by the public timetable; on a terminal, draws it until nothing is left.

With --once, or without a terminal, prints one line for each table and ends.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from .options import database_options, role_option
from .target import Connection, find_target, reported
from .terminal import progress

__all__ = ["SUMMARY", "arguments", "run"]

SUMMARY = "tell how far the tables that are being read have come"

_QUERY = """SELECT camera, coalesce("table", '-'), slots, slots_over, percent::float8,
                   greatest(0, extract(epoch FROM ends - clock_timestamp()))::float8
            FROM privid.progress ORDER BY begins, job"""


def arguments(parser: argparse.ArgumentParser) -> None:
    database_options(parser)
    role_option(parser, "role whose tables are named", "analyst")
    parser.add_argument("--once", action="store_true", help="print how things stand, and end")


def run(options: argparse.Namespace) -> int:
    with find_target(options).connect(options.username, "analyst") as connection, reported():
        if options.once or not sys.stderr.isatty():
            rows = connection.execute(_QUERY).fetchall()
            for row in rows:
                print(_line(row))
            if not rows:
                print("Nothing is being read.")
        else:
            _draw(connection)
    return 0


def _draw(connection: Connection) -> None:
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
