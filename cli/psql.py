"""Runs psql in the database of a stack, as the superuser privid unless told otherwise: privid psql -- -U analyst -c 'SELECT ...'"""

from __future__ import annotations

import argparse
import os

from .library import postgres_build
from .options import data_option
from .stack import Stack
from .terminal import CommandFailed

__all__ = ["SUMMARY", "arguments", "run"]

SUMMARY = "run psql in a stack's database"


def arguments(parser: argparse.ArgumentParser) -> None:
    data_option(parser)
    parser.add_argument("args", nargs="*", metavar="ARG", help="arguments of psql, after --")


def run(options: argparse.Namespace) -> int:
    stack = Stack(options.data)
    if stack.postgres.pid() is None:
        raise CommandFailed(f'the stack in "{stack.layout.data}" is not running', "Start it with privid up.")
    psql = str(postgres_build().bindir / "psql")
    # of the caller's settings for psql, those of looks stay and those of where to connect go
    environment = {k: v for k, v in os.environ.items() if k and "=" not in k and not k.startswith("PG")}
    environment |= {"PGHOST": str(stack.layout.run), "PGPORT": str(stack.layout.socket_port), "PGDATABASE": "privid", "PGUSER": "privid"}
    os.execve(psql, ["psql", *options.args], environment)
