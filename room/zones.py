"""From which moments on a time zone's distance from UTC may be another one: read from the file that PostgreSQL reads.

PostgreSQL takes a named zone from its file: until the last change that the file lists, those that it lists are all there are; after it
the rule at the end of the file goes on, which may change for ever. A zone that is not named by a file, or a time after the last change
when the rule goes on changing, is not known here, and whoever asks evaluates every chunk instead.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_left, bisect_right

__all__ = ["changes_between", "is_file_name", "is_zone_only"]

_HEADER = struct.Struct(">4sc15x6l")
_NAME = re.compile(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*")


def is_file_name(zone: str) -> bool:
    """Whether a file of time zones can have this name: a plain path below their directory."""
    return _NAME.fullmatch(zone) is not None


def is_zone_only(zone: str) -> bool:
    """Whether the name cannot be an abbreviation, which PostgreSQL would look for first: those have letters only, and UTC is UTC."""
    return zone == "UTC" or "/" in zone


def changes_between(content: bytes, first: int, last: int) -> list[int] | None:
    """The moments after `first` up to `last` (seconds since 1970) from which on another distance may hold; None where that is not known."""
    found = _parse(content)
    if found is None:
        return None
    times, rule = found
    if "," in rule and (not times or last >= times[-1]):
        return None
    return times[bisect_right(times, first):bisect_left(times, last + 1)]


def _parse(content: bytes) -> tuple[list[int], str] | None:
    """All listed changes, ascending, and the rule that holds after them. None for a form that is not the present one."""
    try:
        at = _skipped(content)
        _, _, utc, std, leaps, changes, types, letters = _HEADER.unpack_from(content, at)
        if leaps:
            return None
        begin = at + _HEADER.size
        times = list(struct.unpack_from(f">{changes}q", content, begin))
        rest = content[begin + 9 * changes + 6 * types + letters + std + utc:]
    except struct.error:
        return None
    if not content.startswith(b"TZif") or len(rest) < 2 or rest[:1] != b"\n" or rest[-1:] != b"\n" or times != sorted(times):
        return None
    return times, rest[1:-1].decode("ascii", "replace")


def _skipped(content: bytes) -> int:
    """Where the second part begins, which has the same in 64 bits; that of the first version has none."""
    magic, version, utc, std, leaps, changes, types, letters = _HEADER.unpack_from(content, 0)
    if magic != b"TZif" or version < b"2":
        raise struct.error
    return int(_HEADER.size + 5 * changes + 6 * types + letters + 8 * leaps + std + utc)
