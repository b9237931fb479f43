"""Uploads executables: Python modules with process(chunk), or programs. An executable is named after its file, without the suffix."""

from __future__ import annotations

import argparse
from pathlib import Path

import psycopg

from .options import data_option
from .stack import Stack
from .terminal import CommandFailed, progress

__all__ = ["SUMMARY", "arguments", "run"]

SUMMARY = "upload executables for the tables of an analyst"


def arguments(parser: argparse.ArgumentParser) -> None:
    data_option(parser)
    parser.add_argument("-U", "--username", metavar="ROLE", default="analyst",
                        help="role that the executables belong to (default: analyst)")
    parser.add_argument("--name", metavar="NAME",
                        help="name of the executable (with one file; default: the file's name without its suffix)")
    parser.add_argument("files", metavar="FILE", nargs="+", type=Path, help="file to upload")


def run(options: argparse.Namespace) -> int:
    if options.name is not None and len(options.files) != 1:
        raise CommandFailed("--name needs exactly one file")
    stack = Stack(options.data)
    if stack.postgres.pid() is None:
        raise CommandFailed(f'the stack in "{stack.layout.data}" is not running', "Start it with privid up.")
    contents = []
    for file in options.files:
        try:
            contents.append((options.name or file.stem, file.read_bytes()))
        except OSError as error:
            raise CommandFailed(f'could not read "{file}": {error.strerror}') from None
    with progress(len(contents)) as bar:
        try:
            with stack.postgres.connect(user=options.username) as connection:
                for name, content in contents:
                    bar.step(f"uploading {name}")
                    connection.execute("SELECT privid.upload(%s, %s)", (name, content))
        except psycopg.Error as error:
            diagnosis = error.diag
            raise CommandFailed(diagnosis.message_primary or str(error).strip(), diagnosis.message_hint) from None
    for name, content in contents:
        print(f"{name}: {len(content)} bytes, for role {options.username}")
    return 0
