"""Uploads executables: Python modules with process(chunk), or programs. An executable is named after its file, without the suffix.

A file that is neither (the weights of a model) is attached to the executable before it on the command line, which finds it as
/app/files/NAME under its full name.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from .files import read_bounded
from .options import database_options, role_option
from .target import find_target, reported
from .terminal import CommandFailed, progress

__all__ = ["SUMMARY", "arguments", "run"]

SUMMARY = "upload executables for the tables of an analyst"

#: bytes of an attached file and of an executable, as the server takes them
_LONGEST, _LONGEST_EXECUTABLE = 1 << 28, 1 << 26


def arguments(parser: argparse.ArgumentParser) -> None:
    database_options(parser)
    role_option(parser, "role that the executables belong to", "analyst")
    parser.add_argument("--name", metavar="NAME",
                        help="name of the executable (with one file; default: the file's name without its suffix)")
    parser.add_argument("files", metavar="FILE", nargs="+", type=Path,
                        help="file to upload; one that is no executable is attached to the executable before it")


def run(options: argparse.Namespace) -> int:
    target = find_target(options)
    contents: list[tuple[str, str | None, bytes]] = []  # executable, name of an attached file, content
    for file in options.files:
        content = read_bounded(file, _LONGEST if contents else _LONGEST_EXECUTABLE, "a file" if contents else "an executable",
                               "Large data is attached to an executable, which stands before it; recordings belong below the video root.")
        if contents and not _is_executable(file, content):
            contents.append((contents[-1][0], file.name, content))
        else:
            contents.append((options.name or file.stem, None, content))
    if options.name is not None and sum(attached is None for _, attached, _ in contents) != 1:
        raise CommandFailed("--name needs exactly one executable")
    with target.connect(options.username, "analyst") as connection, progress(len(contents)) as bar, reported():
        role = connection.info.user
        for name, attached, content in contents:
            bar.step(f"uploading {attached or name}")
            if attached is None:
                connection.execute("SELECT privid.upload(%s, %b)", (name, content))
            else:
                connection.execute("SELECT privid.attach(%s, %s, %b)", (name, attached, content))
    for name, attached, content in contents:
        size = f"{len(content)} bytes"
        print(f"{name}: {size}, for role {role}" if attached is None else f"  {attached}: {size}, attached")
    return 0


def _is_executable(file: Path, content: bytes) -> bool:
    return file.suffix == ".py" or content.startswith((b"#!", b"\x7fELF"))
