"""The programs that a query file names after USING: files below the folder of the query, and no others.

A query file can come from somebody else. What it may have uploaded in one's name is what lies beside it; not a file that an absolute path,
".." or a symbolic link leads to.
"""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path, PurePath
from typing import Any

import psycopg

from .source import Mistake
from .statements import Process
from .table import executable_name

__all__ = ["check_uploaded", "read_program", "upload"]

Connection = psycopg.Connection[tuple[Any, ...]]

_HINT = "Put the file beside the query, or upload it with privid upload and write its name alone."


def read_program(process: Process, folder: Path) -> bytes | None:
    """The content of the file that PROCESS names; None if there is no such file."""
    path, base = PurePath(process.file), folder.resolve()
    if path.is_absolute() or ".." in path.parts:
        raise _mistake(process, f'file "{process.file}" is not below the folder of the query', _HINT)
    try:
        file = (base / path).resolve(strict=True)
        if not file.is_relative_to(base):
            raise _mistake(process, f'file "{process.file}" is a link out of the folder of the query', _HINT)
        with os.fdopen(os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as opened:
            return opened.read() if stat.S_ISREG(os.fstat(opened.fileno()).st_mode) else None
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    except (OSError, RuntimeError) as error:  # the latter for links in a circle
        raise _mistake(process, f'could not read "{process.file}": {getattr(error, "strerror", None) or error}') from None


def upload(connection: Connection, process: Process, content: bytes | None) -> None:
    """Uploads the file, unless it is there already; without a file, what was uploaded before under that name is taken."""
    name, known = executable_name(process.file), _known(connection, process)
    if content is None and known is None:
        raise _mistake(process, f'executable "{name}" does not exist',
                       f"Put the file {process.file} beside the query, or upload it with privid upload.")
    if content is not None and known != hashlib.sha256(content).hexdigest():
        connection.execute("SELECT privid.upload(%s, %s)", (name, content))


def check_uploaded(connection: Connection, process: Process, content: bytes | None) -> list[str]:
    """Where nothing is uploaded: refuses a program that is not there yet, and tells of one that is another than the file."""
    name, known = executable_name(process.file), _known(connection, process)
    if known is None:
        raise _mistake(process, f'executable "{name}" does not exist, and --explain uploads nothing',
                       "Upload the file first, with privid upload.")
    if content is not None and known != hashlib.sha256(content).hexdigest():
        return [f'NOTICE:  file "{process.file}" is not what was uploaded as executable "{name}", which is explained here']
    return []


def _known(connection: Connection, process: Process) -> str | None:
    found = connection.execute("SELECT sha256 FROM privid.executables WHERE name = %s", (executable_name(process.file),)).fetchone()
    return None if found is None else found[0]


def _mistake(process: Process, message: str, hint: str | None = None) -> Mistake:
    return Mistake(message, process.places["executable"], hint=hint)
