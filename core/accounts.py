"""Numbers of users that the machine has given to somebody: to accounts, to groups, to somebody's containers, to services while they run.

What runs as one of ours must share it with nobody, for who has the same number can signal and trace it, and open its files.
"""

from __future__ import annotations

import grp
import pwd
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

__all__ = ["DYNAMIC", "SUBORDINATE", "holder"]

#: whose containers have which numbers, as lines NAME:FIRST:COUNT
SUBORDINATE = (Path("/etc/subuid"), Path("/etc/subgid"))
#: systemd's notes of the users that it invents for services (DynamicUser=), each named after the number
DYNAMIC = Path("/run/systemd/dynamic-uid")


def holder(number: int) -> str | None:
    """Who has a number of a user or of a group, for people; None if nobody that can be asked knows of one."""
    with suppress(KeyError):
        return f"account {pwd.getpwuid(number).pw_name}"
    with suppress(KeyError):
        return f"group {grp.getgrgid(number).gr_name}"
    for file in SUBORDINATE:
        for name, numbers in _subordinate(file):
            if number in numbers:
                return f"containers of {name} ({file})"
    return "a service of systemd (DynamicUser)" if (DYNAMIC / str(number)).exists() else None


def _subordinate(file: Path) -> Iterator[tuple[str, range]]:
    with suppress(OSError):
        for line in file.read_text(errors="replace").splitlines():
            with suppress(ValueError):
                name, first, count = line.split(":")
                yield name, range(int(first), int(first) + int(count))
