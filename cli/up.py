"""Creates a stack if there is none in the data directory, and starts what is not running.

A stack is a PostgreSQL with the extension privid, and the engine. It is reachable by a socket in a private directory, and
disturbs no other PostgreSQL on the machine. Several stacks run side by side, each in a data directory of its own. It has a
database privid with the roles privid (superuser), owner and analyst.

Started by root, PostgreSQL runs as the user privid or postgres; started by anybody else, it runs as that user.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from .options import data_option, lane_count, port_number
from .stack import Stack

__all__ = ["SUMMARY", "arguments", "run"]

SUMMARY = "create and start a stack: PostgreSQL and the engine"


def arguments(parser: argparse.ArgumentParser) -> None:
    data_option(parser)
    parser.add_argument("--port", metavar="N", type=port_number, default=None,
                        help="also listen on 127.0.0.1:N, with passwords (0: no longer; default: as last time, at first not)")
    parser.add_argument("--videos", metavar="PATH", type=Path, default=None,
                        help="directory that cameras read from (default: as last time, at first DIR/videos)")
    parser.add_argument("--lanes", metavar="N", type=lane_count, default=None,
                        help="chunks that run at a time (0: one for each core but one; default: as last time, at first 0); with as many as "
                             "there are cores, slots are 100 ms apart")


def run(options: argparse.Namespace) -> int:
    from privid.sandbox.capabilities import obstacle  # it loads libraries of the system; other commands start without

    stack = Stack(options.data)
    stack.up(port=options.port, videos=options.videos, lanes=options.lanes)
    data = f" --data {shlex.quote(str(stack.layout.data))}" if options.data else ""
    print(f"The stack in {stack.layout.data} is running; videos are read from {stack.layout.videos}.")
    print(f"    {stack.psql_line()}")
    print(f"or  privid psql{data} -- -U analyst        (roles: analyst, owner, privid)")
    if stack.layout.port:
        print(f"It also listens on 127.0.0.1:{stack.layout.port}, for roles with a password (in psql: \\password analyst).")
    print(f"End it with: privid down{data}")
    if (found := obstacle()) is not None:
        print(f"WARNING:  programs cannot be run on this machine: {found.name}: {found.found}", file=sys.stderr)
        print(f"HINT:  {found.remedy}", file=sys.stderr)
    return 0
