"""What of a stack is whose, and closed to other users of the machine: made so by privid up, looked at by privid doctor.

The data directory can be walked through but not listed where PostgreSQL and the room run as users of their own. What PostgreSQL reads
(its settings, the library) belongs to root and to PostgreSQL's group, if nobody else is in that.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from privid.closed import acl_rights, check_path, drop_acl, is_private_group, open_to_others, read_file, user_name
from privid.errors import PrividError
from privid.sandbox.users import SANDBOX_GID

from .finding import Finding
from .layout import Layout, check_videos
from .terminal import CommandFailed

__all__ = ["close_to_others", "examine_closed"]


@dataclass(frozen=True)
class _Place:
    """A directory of a stack: whose it is, and what its group and others may do at most."""

    path: Path
    uid: int
    mode: int
    gid: int | None = None


def _places(layout: Layout) -> list[_Place]:
    account, me = layout.account, os.geteuid()
    apart = not account.is_self
    shared = is_private_group(account.gid, account.uid)
    read = (0o710 if shared else 0o711) if apart else 0o700  # PostgreSQL knows the names of what it reads
    group = account.gid if apart and shared else None
    return [_Place(layout.data, me, 0o711 if apart else 0o700), _Place(layout.log, me, 0o700), _Place(layout.cache, me, 0o700),
            _Place(layout.state, me, read, group), _Place(layout.lib, me, read, group), _Place(layout.run, account.uid, 0o700),
            _Place(layout.pg, account.uid, 0o700)]


def close_to_others(layout: Layout) -> None:
    """Whatever it was before, also in a stack of an older version. Nothing is changed that is not ours to change."""
    for place in _places(layout):
        if os.path.lexists(place.path):
            _close(place)
    for folder in (layout.log, layout.state):
        for entry in folder.iterdir():
            if entry != layout.state / "postgresql.conf":
                _close_file(entry)
    for name in ("engine.lock", "engine.scratch"):
        _close_file(layout.data / name)
    if layout.videos == layout.data / "videos":
        _close_videos(layout.videos)


def _close(place: _Place) -> None:
    fd = _open(place.path)
    try:
        info = os.fstat(fd)
        if info.st_uid != place.uid:
            raise CommandFailed(f'directory "{place.path}" belongs to {user_name(info.st_uid)}, not to {user_name(place.uid)}',
                                f"If what is in it is the stack's own: chown {user_name(place.uid)} {place.path}")
        drop_acl(fd)
        if place.gid is not None and info.st_gid != place.gid:
            os.fchown(fd, -1, place.gid)
        if stat.S_IMODE(info.st_mode) != place.mode:
            os.fchmod(fd, place.mode)
    finally:
        os.close(fd)


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise CommandFailed(f'could not open directory "{path}": {error.strerror}',
                            "A stack has no links in place of its directories: put the directory back.") from None


def _close_file(path: Path) -> None:
    with suppress(FileNotFoundError):
        info = path.lstat()
        if stat.S_ISREG(info.st_mode) and info.st_uid == os.geteuid() and info.st_mode & 0o077:
            path.chmod(0o600)


def _close_videos(videos: Path) -> None:
    """Rights that an operator gave to a group on purpose stay."""
    fd = _open(videos)
    try:
        mode = stat.S_IMODE(os.fstat(fd).st_mode)
        closed = 0o700 if mode == 0o755 else mode & ~0o007
        if os.fstat(fd).st_uid == os.geteuid() and closed != mode:
            os.fchmod(fd, closed)
    finally:
        os.close(fd)


# Looking

def examine_closed(layout: Layout) -> Iterator[Finding]:
    """What other users of the machine could read, lock, exchange or connect to, each with a remedy."""
    if not layout.exists:
        return
    found = False
    for finding in (*_paths(layout), *_owners(layout), *_open_things(layout)):
        found = True
        yield finding
    if not found:
        yield Finding("PASS", "other users", f"can read, lock and reach nothing in {layout.data}")


def _paths(layout: Layout) -> Iterator[Finding]:
    try:
        check_path(layout.data)
    except PrividError as error:
        yield Finding("FAIL", "other users", error.message, error.hint)
    try:
        check_videos(layout.videos)
    except CommandFailed as error:
        yield Finding("FAIL", "other users", error.message, error.hint)


def _owners(layout: Layout) -> Iterator[Finding]:
    for place in _places(layout):
        with suppress(FileNotFoundError):
            uid = place.path.lstat().st_uid
            if uid != place.uid:
                yield Finding("FAIL", "other users", f"{place.path} belongs to {user_name(uid)}, not to {user_name(place.uid)}",
                              f"chown {user_name(place.uid)} {place.path}, if what is in it is the stack's own.")
    account = layout.account
    if not account.is_self and not is_private_group(account.gid, account.uid):
        yield Finding("CAUTION", "other users", f"the group of {user_name(account.uid)}, as whom PostgreSQL runs, has other members; who "
                      "knows their names can read PostgreSQL's settings and its library",
                      "Give the user a group of its own: addgroup --system, usermod -g; then privid up.")


def _open_things(layout: Layout) -> Iterator[Finding]:
    # lanes, and nobody else, are in the group of the scratch directory
    groups = {SANDBOX_GID, *(place.gid for place in _places(layout) if place.gid is not None)}
    tops = [layout.data, *(path for path in (layout.run, _scratch(layout)) if path is not None and not path.is_relative_to(layout.data))]
    allowed = {place.path: place.mode for place in _places(layout)}
    if not layout.videos.is_relative_to(layout.data):
        with suppress(FileNotFoundError):
            if open_to_others(layout.videos, layout.videos.stat(), set()) & 0o6:
                yield Finding("CAUTION", "other users", f"{layout.videos} can be read or written to by others than its owner",
                              f"If they are not meant to: chmod go= {layout.videos}.")
    for path in (path for top in tops for path in _reachable(top, groups, allowed)):
        yield Finding("FAIL", "other users", f"{path} can be opened by others than its owner",
                      f"Run privid up --data {layout.data}, which closes what is the stack's own; or chmod go= {path}.")


def _scratch(layout: Layout) -> Path | None:
    """Where the engine has decoded frames, as it noted."""
    try:
        path = Path(read_file(layout.data / "engine.scratch").strip())
    except (OSError, ValueError):
        return None
    return path if path.is_absolute() and path.is_dir() else None


def _reachable(path: Path, groups: set[int], allowed: dict[Path, int]) -> Iterator[Path]:
    """What others can open, from here down; what is closed to them is not looked into. Locks in the open are as bad as secrets."""
    try:
        info = path.lstat()
    except OSError:
        return
    if stat.S_ISLNK(info.st_mode):
        return
    if not stat.S_ISDIR(info.st_mode):
        if open_to_others(path, info, groups):
            yield path
        return
    if path in allowed:
        rights = (info.st_mode & ~allowed[path] & 0o077) | (acl_rights(path, info) & ~allowed[path] & 0o007)
    else:
        rights = open_to_others(path, info, groups)
    if rights:
        yield path
        return
    if open_to_others(path, info, groups) & 0o001:
        with suppress(OSError):
            for entry in sorted(path.iterdir()):
                yield from _reachable(entry, groups, allowed)

