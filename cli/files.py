"""Files that a command is given: read if they are files, no further than they may be long, and written through no link.

A device has no end, a pipe may have no writer, and a file of no blocks can be longer than all memory.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path
from typing import BinaryIO

from .terminal import CommandFailed

__all__ = ["open_regular", "read_bounded", "replace_file"]


def open_regular(path: Path) -> BinaryIO:
    """A regular file, for reading."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise CommandFailed(f'could not read "{path}": {getattr(error, "strerror", None) or error}') from None
    kind = os.fstat(fd).st_mode
    if not stat.S_ISREG(kind):
        os.close(fd)
        raise CommandFailed(f'could not read "{path}": it is {"a directory" if stat.S_ISDIR(kind) else "no regular file"}',
                            "What comes from a pipe or a device is put into a file first.")
    return os.fdopen(fd, "rb")


def read_bounded(path: Path, longest: int, what: str, hint: str) -> bytes:
    """The content of a regular file, which is not longer than its kind may be."""
    with open_regular(path) as file:
        try:
            size = os.fstat(file.fileno()).st_size
            content = file.read(longest + 1) if size <= longest else b""
        except OSError as error:
            raise CommandFailed(f'could not read "{path}": {error.strerror}') from None
    if max(size, len(content)) > longest:
        raise CommandFailed(f'file "{path}" has {max(size, len(content))} bytes, but {what} has at most {longest}', hint)
    return content


def replace_file(path: Path, content: bytes) -> None:
    """Writes a file beside its place and moves it there; what is no file there stays, and a link is not followed."""
    new = f".{path.name}.{secrets.token_hex(8)}"
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with contextlib.suppress(FileNotFoundError):
                if not stat.S_ISREG(os.stat(path.name, dir_fd=folder, follow_symlinks=False).st_mode):
                    raise CommandFailed(f'could not write "{path}": it is there, and is not a regular file', "Choose another name.")
            try:
                fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666, dir_fd=folder)
                with os.fdopen(fd, "wb") as file:
                    file.write(content)
                os.rename(new, path.name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(new, dir_fd=folder)
                raise
        finally:
            os.close(folder)
    except OSError as error:
        raise CommandFailed(f'could not write "{path}": {error.strerror}') from None
