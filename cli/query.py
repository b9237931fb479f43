"""Runs a file in the language of the Privid paper: SPLIT, PROCESS and SELECT.

A file named in PROCESS … USING is uploaded when it lies in the query's folder or below, and not with --explain. Tables live
as long as the run. The whole file is read before anything runs; a mistake is shown with its line and column, and the exit code is then 1.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from privid.language.source import Mistake, Source

from .files import read_bounded
from .options import database_options, role_option
from .target import find_target, reported
from .terminal import CommandFailed, progress

__all__ = ["SUMMARY", "arguments", "run"]

SUMMARY = "run a file of SPLIT, PROCESS and SELECT statements"

#: bytes of a query file
_LONGEST = 1 << 20


def arguments(parser: argparse.ArgumentParser) -> None:
    database_options(parser)
    role_option(parser, "role to run as", "analyst")
    parser.add_argument("--epsilon", metavar="X", help="what each SELECT takes of the budget (default: the role's setting privid.epsilon)")
    parser.add_argument("--explain", action="store_true",
                        help="show what each SELECT would cost and how exact it would be; upload, run and charge nothing")
    parser.add_argument("--sql", action="store_true", help="show the file as PostgreSQL's SQL, and do nothing else")
    parser.add_argument("file", metavar="FILE", type=Path, help="file to run")


def run(options: argparse.Namespace) -> int:
    try:
        content = read_bounded(options.file, _LONGEST, "a query file",
                               "Is it a query file? Large data belongs into a table or an attached file.")
        source = Source(str(options.file), content.decode("utf-8-sig").replace("\r\n", "\n"))
    except UnicodeDecodeError:
        raise CommandFailed(f'file "{options.file}" is not text in UTF-8') from None
    if "\0" in source.text:
        raise CommandFailed(f'file "{options.file}" is not text: it has zero bytes')
    try:
        return _run(source, options)
    except Mistake as mistake:
        print(source.tell("ERROR", mistake), file=sys.stderr)
        return 1


def _run(source: Source, options: argparse.Namespace) -> int:
    # they load sqlglot; the other commands start without
    from privid.language import reader
    from privid.language import run as runner

    program = reader.read(source)
    translated = runner.translate(program)
    for message, at in program.overlooked:
        print(source.tell("WARNING", Mistake(message, at)), file=sys.stderr)
    if options.sql:
        print("\n".join(f"{sql};" for _, sql in translated))
        return 0
    with find_target(options).connect(options.username, "analyst") as connection, progress(len(translated)) as bar:
        if options.epsilon is not None:
            with reported():
                connection.execute("SELECT set_config('privid.epsilon', %s, false)", (options.epsilon,))
        answers = runner.run(translated, connection, options.file.parent, explain=options.explain)
        for number in range(len(translated)):
            bar.step(f"statement {number + 1} of {len(translated)}")
            answer = next(answers)
            bar.clear()
            if answer.columns:
                print(answer.table())
            for notice in answer.notices:
                print(notice)
            if answer.columns:
                print(flush=True)
    return 0
