"""Files and directories that other users of the machine can neither read, lock nor exchange for something else.

A path is ours if nobody but root and ourselves can change what it leads to. A file is opened without following a link, and is closed to
everybody else from its first moment on.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
import struct
from contextlib import suppress
from pathlib import Path

from .errors import PrividError

__all__ = ["NO_FILE", "acl_rights", "check_path", "drop_acl", "is_private_group", "make_directory", "open_file", "open_to_others",
           "read_file", "user_name", "write_file"]

#: a path at which there can be no file, for settings that would otherwise mean one in somebody's home
NO_FILE = "/dev/null/none"

_MAX_LINKS = 40
#: access control lists as Linux shows them (posix_acl_xattr.h): that of a file, and the one that what is made in a directory gets
_ACL, _DEFAULT_ACL = "system.posix_acl_access", "system.posix_acl_default"
#: its entries that are not of the mode
_USER, _GROUP, _MASK = 0x02, 0x08, 0x10


def check_path(path: Path, *, place: bool = False) -> None:
    """Refuses a path on which somebody else could put a directory or a link of their own; what does not exist yet is as good as ours.

    With `place`, where it leads to alone: what lies there, others may own and write.
    """
    _Walk(place).go(Path("/"), list(path.absolute().parts[1:]))


class _Walk:
    """From the root down, through links, looking at whom every step belongs to."""

    def __init__(self, place: bool) -> None:
        self._trusted = {0, os.geteuid()}
        self._links = 0
        self._place = place
        self._shared = False  # the directory above is one in which everybody may move what is theirs

    def go(self, here: Path, parts: list[str]) -> None:
        while True:
            try:
                info = here.lstat()
            except (FileNotFoundError, NotADirectoryError, PermissionError):
                return
            if self._place and not parts and stat.S_ISDIR(info.st_mode) and not self._shared:
                return
            self._check(here, info)
            if stat.S_ISLNK(info.st_mode):
                self._links += 1
                if self._links > _MAX_LINKS:
                    raise PrividError(f'path "{here}" has too many links', hint="Give the path that the links lead to.")
                goal = here.readlink()
                start = Path("/") if goal.is_absolute() else here.parent
                self.go(start, [*(goal.parts[1:] if goal.is_absolute() else goal.parts), *parts])
                return
            if not parts:
                return
            part, *parts = parts
            self._shared = part == ".." or bool(info.st_mode & 0o022)
            here = here.parent if part == ".." else here / part

    def _check(self, here: Path, info: os.stat_result) -> None:
        hint = "Choose a path of which every directory belongs to root or to you, and can be written to by nobody else."
        if info.st_uid not in self._trusted:
            raise PrividError(f'"{here}" belongs to {user_name(info.st_uid)}, who could exchange what lies below it', hint=hint)
        if not stat.S_ISDIR(info.st_mode) or info.st_mode & stat.S_ISVTX:
            return  # in a sticky directory everybody exchanges only what is theirs, and whose that is the next step tells
        # with an ACL the group's bits are its mask, without which nobody whom it names can write
        if info.st_mode & stat.S_IWOTH or (info.st_mode & stat.S_IWGRP and (not is_private_group(info.st_gid, info.st_uid)
                                                                            or acl_rights(here, info) & 0o002)):
            raise PrividError(f'directory "{here}" can be written to by other users', hint=hint)


def make_directory(path: Path, mode: int) -> None:
    """Makes a directory with this mode, and those on the way with 0755, whatever the umask is; refuses one that others can exchange."""
    if not path.exists():
        if not path.parent.exists():
            make_directory(path.parent, 0o755)
        check_path(path.parent)  # or another directory could take its place before it has its mode
        try:
            path.mkdir(mode)
            drop_acl(path)
            path.chmod(mode)
        except FileExistsError:
            pass  # somebody was first: whose it is, is looked at
    check_path(path)


def is_private_group(gid: int, uid: int) -> bool:
    """Whether a group is this user's own, and nobody but the user and root is in it, as far as the machine's accounts tell."""
    try:
        members = set(grp.getgrgid(gid).gr_mem)
    except KeyError:
        members = set()
    accounts = pwd.getpwall()
    own = {entry.pw_gid for entry in accounts if entry.pw_uid == uid} or ({os.getegid()} if uid == os.geteuid() else {uid})
    others = any(entry.pw_gid == gid for entry in accounts if entry.pw_uid not in (0, uid))
    return gid in own and not others and members <= {entry.pw_name for entry in accounts if entry.pw_uid in (0, uid)}


def acl_rights(path: Path, info: os.stat_result) -> int:
    """What an access control list lets users and groups do that it names, besides root and whose the file is and we: bits as of others.

    One that cannot be read is taken for one that lets them do all.
    """
    try:
        acl = os.getxattr(path, _ACL, follow_symlinks=False)
    except OSError as error:
        return 0 if error.errno in (errno.ENODATA, errno.ENOTSUP, errno.ENOENT) else 0o007
    rights, mask = 0, 0o007
    for tag, may, who in struct.iter_unpack("<HHI", acl[4:]):
        if tag == _MASK:
            mask = may
        elif tag == _GROUP or (tag == _USER and who not in {0, info.st_uid, os.geteuid()}):
            rights |= may
    return rights & mask


def drop_acl(where: Path | int) -> None:
    """Takes away what a file or a directory of ours got by the directory in which it was made, and would hand on."""
    for name in (_ACL, _DEFAULT_ACL):
        with suppress(OSError):
            os.removexattr(where, name)


def open_to_others(path: Path, info: os.stat_result, groups: set[int]) -> int:
    """What somebody who is in none of these groups may do with a file: bits of read, write and search."""
    everybody, group = info.st_mode & 0o007, info.st_mode >> 3 & 0o007
    return everybody | (group & acl_rights(path, info) if info.st_gid in groups else group)


def user_name(uid: int) -> str:
    """A user for people: by name, or by number where there is none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def open_file(path: Path, flags: int) -> int:
    """A descriptor of a file of ours, made if it is missing; a link, or a file of somebody else's, is refused."""
    try:
        fd = os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise PrividError(f'could not open "{path}": {error.strerror}',
                          hint="Look whether it is a link, and whose: a stack has none there.") from None
    info = os.fstat(fd)
    if not stat.S_ISREG(info.st_mode) or info.st_uid != os.geteuid():
        os.close(fd)
        raise PrividError(f'"{path}" is not a file of {user_name(os.geteuid())}', hint="Move it away; it is made again.")
    drop_acl(fd)
    if info.st_mode & 0o077:
        os.fchmod(fd, 0o600)
    return fd


def read_file(path: Path, longest: int = 1 << 20) -> str:
    """The text of a small file of a stack's. What else is there is an error as of the system: a pipe would hold us up, a device has no end,
    and a link leads elsewhere.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        content = file.read(longest + 1) if info.st_size <= longest else None
        if content is None or len(content) > longest:
            raise OSError(errno.EFBIG, f"it has more than {longest} bytes", str(path))
    return content.decode()


def write_file(path: Path, text: str) -> None:
    """Writes a file beside its place and moves it there."""
    new = path.with_name(path.name + ".new")
    with os.fdopen(open_file(new, os.O_WRONLY | os.O_TRUNC), "w", encoding="utf-8") as file:
        file.write(text)
    new.replace(path)
