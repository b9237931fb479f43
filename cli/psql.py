"""Runs psql in a database: privid psql -- -U analyst -c 'SELECT ...'

In that of a stack it is the superuser privid unless told otherwise; elsewhere it is as psql finds
it.
"""

from __future__ import annotations

import argparse
import os
import shutil
from typing import Any

from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from .library import postgres_build
from .options import database_options
from .stack import Stack
from .target import find_target
from .terminal import CommandFailed

__all__ = ["SUMMARY", "arguments", "environment_of", "run"]

SUMMARY = "run psql in a database"


def arguments(parser: argparse.ArgumentParser) -> None:
    database_options(parser)
    parser.add_argument("args", nargs="*", metavar="ARG", help="arguments of psql, after --")


def run(options: argparse.Namespace) -> int:
    target = find_target(options)
    # a name of a variable that a shell would not take is none that execve takes
    environment = {k: v for k, v in os.environ.items() if k and "=" not in k}
    given: list[str] = []
    if target.stack is not None:
        _check_running(target.stack)
        environment = environment_of(target.stack)
    else:
        given = _of_server(target.dsn, environment)
    os.execve(_program(target.stack), ["psql", *given, *options.args], environment)


def _program(stack: Stack | None) -> str:
    if stack is not None:
        return str(postgres_build().bindir / "psql")
    found = shutil.which("psql")  # who speaks to another machine need not have a server
    if found is None:
        raise CommandFailed("could not find psql",
                            "Install PostgreSQL's client: apt-get install postgresql-client-15.")
    return found


def _check_running(stack: Stack) -> None:
    if stack.postgres.pid() is None:
        raise CommandFailed(f'the stack in "{stack.layout.data}" is not running',
                            "Start it with privid up.")


def environment_of(stack: Stack) -> dict[str, str]:
    """Of the caller's settings for psql, those of looks stay; those of where to connect go."""
    kept = {k: v for k, v in os.environ.items() if k and "=" not in k and not k.startswith("PG")}
    server = {f"PG{name.upper()}": said for name, said in stack.layout.server().items()}
    return kept | server | {"PGDATABASE": "privid", "PGUSER": "privid"}


def _of_server(dsn: str, environment: dict[str, str]) -> list[str]:
    """A connection string as variables: options of psql win, and no list of processes shows it."""
    variables = {option.keyword.decode(): option.envvar.decode()
                 for option in pq.Conninfo.get_defaults() if option.envvar}
    rest: dict[str, Any] = {}
    for name, value in conninfo_to_dict(dsn).items():
        if name in variables:
            environment[variables[name]] = str(value)
        else:
            rest[name] = value
    return ["-d", make_conninfo(**rest)] if rest else []
