"""The programs that a query file names after USING: files below the folder of the query, and no others.

A query file can come from somebody else. What it may have uploaded in one's name is what lies beside it; not a file that an absolute path,
".." or a symbolic link leads to.
"""

from __future__ import annotations

import errno
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

#: bytes of an executable, as privid.upload takes them
_LONGEST = 1 << 26
_MAX_LINKS = 40
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_LOOK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC

_HINT = "Put the file beside the query, or upload it with privid upload and write its name alone."


def read_program(process: Process, folder: Path) -> bytes | None:
    """The content of the file that PROCESS names; None if there is no such file."""
    path = PurePath(process.file)
    if path.is_absolute() or ".." in path.parts:
        raise _mistake(process, f'file "{process.file}" is not below the folder of the query', _HINT)
    try:
        with os.fdopen(_open_below(folder, list(path.parts)), "rb") as opened:
            content = opened.read(_LONGEST + 1)
    except _OutsideError:
        raise _mistake(process, f'file "{process.file}" is a link out of the folder of the query', _HINT) from None
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise _mistake(process, f'could not read "{process.file}": {getattr(error, "strerror", None) or error}') from None
    if len(content) > _LONGEST:
        raise _mistake(process, f'file "{process.file}" has more than {_LONGEST} bytes, which no program may have', _HINT)
    return content


class _OutsideError(Exception):
    """A link leads out of the folder."""


def _open_below(folder: Path, parts: list[str]) -> int:
    """A descriptor of what lies below a folder, through links that stay there.

    Every step is opened from the one before it, and a link is read and walked, never followed: who renames folders meanwhile leads
    nowhere else.
    """
    base, links = folder.resolve(), 0
    way = [os.open(base, _FOLDER)]
    try:
        while parts:
            part, *parts = parts
            if part in ("", "."):
                continue
            if part == "..":
                if len(way) == 1:
                    raise _OutsideError
                os.close(way.pop())
                continue
            here = os.open(part, _LOOK, dir_fd=way[-1])
            kind = os.fstat(here).st_mode
            if not stat.S_ISLNK(kind):
                way.append(here)
                if parts and not stat.S_ISDIR(kind):
                    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
                continue
            goal = PurePath(os.readlink("", dir_fd=here))
            os.close(here)
            if (links := links + 1) > _MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            if goal.is_absolute():
                if not goal.is_relative_to(base):
                    raise _OutsideError
                goal = goal.relative_to(base)
                while len(way) > 1:
                    os.close(way.pop())
            parts = [*goal.parts, *parts]
        if not stat.S_ISREG(os.fstat(way[-1]).st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))  # or a device, or a pipe: no file to read
        return os.open(f"/proc/self/fd/{way[-1]}", _FILE)  # the very thing that was looked at, whatever has its name by now
    finally:
        for each in way:
            os.close(each)


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
