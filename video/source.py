"""A camera's source: relative paths or globs, resolved below the video root without following anything out of it.

Every component is opened relative to the directory before it and never through a link, so that a rename or a link planted
between a check and its use cannot lead outside. Owners are trusted, but what lies in a folder of recordings may not be theirs.
"""

from __future__ import annotations

import fnmatch
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from privid.errors import VideoUnreadable

__all__ = ["MAX_FILES", "list_files", "open_file", "shown"]

#: more files than this is a mistyped pattern
MAX_FILES = 100_000
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: were a FIFO put in the file's place after the look at it, opening must not wait for a writer
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def shown(path: str) -> str:
    """A name from outside as it may stand in a message: one line, printable, not endless."""
    clean = "".join(c if c.isprintable() else "?" for c in path)
    return clean if len(clean) <= 200 else clean[:197] + "..."


def list_files(root: Path, source: str) -> list[str]:
    """Paths relative to the root that the source names, sorted by name; at least one."""
    parts = _components(source)
    with _opened_root(root) as top:
        found = sorted(_matches(top, parts, "", lenient=False))
    if not found:
        raise VideoUnreadable(f'no video file matches source "{shown(source)}"',
                              hint="Put the recording below the video root, or correct the camera's option source.")
    if len(found) > MAX_FILES:
        raise VideoUnreadable(f'source "{shown(source)}" matches {len(found)} files, more than {MAX_FILES}',
                              hint="Use a narrower pattern.")
    return found


def open_file(root: Path, path: str) -> int:
    """A descriptor of one regular file below the root, for reading; the caller closes it."""
    *folders, name = _components(path)
    with _opened_root(root) as top:
        here = os.dup(top)
        try:
            for folder in folders:
                below = _open(here, folder, path, _FOLDER)
                os.close(here)
                here = below
            _regular(_look(here, name, path), path)
            file = _open(here, name, path, _FILE)
        finally:
            os.close(here)
    try:
        _regular(os.fstat(file), path)
    except BaseException:
        os.close(file)
        raise
    return file


def _components(source: str) -> tuple[str, ...]:
    parts = tuple(p for p in source.split("/") if p not in ("", "."))
    if source.startswith("/") or ".." in parts or "\0" in source:
        raise VideoUnreadable(f'source "{shown(source)}" leaves the video root',
                              hint="Write a path relative to the video root, without .. and without a leading slash.")
    if not parts:
        raise VideoUnreadable("source of the camera is empty",
                              hint="Write a path or pattern relative to the video root, for example campus/*.mp4.")
    if "**" in parts:
        raise VideoUnreadable(f'source "{shown(source)}" cannot be used', detail="The pattern ** is not supported.",
                              hint="Name each level of folders, for example campus/*/*.mp4.")
    return parts


@contextmanager
def _opened_root(root: Path) -> Iterator[int]:
    try:
        top = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise VideoUnreadable("could not open the video root", detail=f"{error.strerror}.",
                              hint="The operator sets the video root with privid up --videos PATH.") from None
    try:
        yield top
    finally:
        os.close(top)


def _matches(folder: int, parts: tuple[str, ...], above: str, *, lenient: bool) -> Iterator[str]:
    """Depth first, one descriptor per level. Below a pattern a name that is absent or no folder is no match, else an error."""
    name, rest = parts[0], parts[1:]
    names = [name]
    if any(c in name for c in "*?["):
        lenient = True
        # as in a shell, a star does not reach hidden names (half-written uploads are often hidden)
        names = [n for n in os.listdir(folder) if fnmatch.fnmatchcase(n, name) and n.startswith(".") == name.startswith(".")]
    for found in names:
        path = f"{above}{found}"
        try:
            kind = _look(folder, found, path)
        except VideoUnreadable:
            if lenient:
                continue
            raise
        _no_link(kind, path)
        if not rest:
            _regular(kind, path)
            yield path
        elif stat.S_ISDIR(kind.st_mode) or not lenient:
            below = _open(folder, found, path, _FOLDER)
            try:
                yield from _matches(below, rest, f"{path}/", lenient=lenient)
            finally:
                os.close(below)


def _look(folder: int, name: str, path: str) -> os.stat_result:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except (OSError, ValueError) as error:
        raise _unreadable(error, path) from None


def _open(folder: int, name: str, path: str, flags: int) -> int:
    _no_link(_look(folder, name, path), path)  # for the message only: O_NOFOLLOW is what holds
    try:
        return os.open(name, flags, dir_fd=folder)
    except OSError as error:
        raise _unreadable(error, path) from None


def _no_link(kind: os.stat_result, path: str) -> None:
    if stat.S_ISLNK(kind.st_mode):
        raise VideoUnreadable(f'video file "{shown(path)}" is reached through a symbolic link',
                              hint="Move the recording below the video root, or mount its folder there.")


def _regular(kind: os.stat_result, path: str) -> None:
    _no_link(kind, path)
    if not stat.S_ISREG(kind.st_mode):
        what = "a folder" if stat.S_ISDIR(kind.st_mode) else "neither a file nor a folder"
        hint = "Name the files in it, for example with *.mp4." if stat.S_ISDIR(kind.st_mode) else "Only regular files are read."
        raise VideoUnreadable(f'video file "{shown(path)}" is {what}', hint=hint)


def _unreadable(error: OSError | ValueError, path: str) -> VideoUnreadable:
    if isinstance(error, FileNotFoundError):
        return VideoUnreadable(f'video file "{shown(path)}" does not exist',
                               hint="Put the recording below the video root, or correct the camera's option source.")
    if isinstance(error, PermissionError):
        return VideoUnreadable(f'permission denied for video file "{shown(path)}"',
                               hint="Let the operating-system user of the engine read the file and enter its folders.")
    if isinstance(error, NotADirectoryError):
        return VideoUnreadable(f'video file "{shown(path)}" is not below a folder', hint="Correct the camera's option source.")
    reason = error.strerror if isinstance(error, OSError) else "The name cannot be used"
    return VideoUnreadable(f'could not open video file "{shown(path)}"', detail=f"{reason}.")
