"""In what order a dump is restored, and with whose rights, so that no code of a role gets more rights than that role has.

First comes what belongs to a superuser, rows included: no code of anybody else is in the database
yet. What belongs to others comes then, with the rights of each. From there on the superuser
only says what evaluates nothing. Event triggers come last, as they do with pg_restore.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .archive import DATA, POST_DATA, Entry
from .terminal import CommandFailed

__all__ = ["Step", "leave_out", "leave_unread", "make_plan"]

#: evaluate nothing and hold no expression; their owners may lack the right to make them again
_FIRST = {"SCHEMA", "SERVER"}
#: evaluate nothing and hold no expression, whatever they are about
_INERT = {"ACL", "COMMENT", "SECURITY LABEL", "CAST", "BLOB", "BLOBS"}
_LAST = {"EVENT TRIGGER", "DEFAULT ACL"}
#: kept as they are: to make one reads its literals, which can run the checks of domains, and no more
_STORED = {"VIEW", "MATERIALIZED VIEW", "RULE", "TRIGGER", "POLICY", "DEFAULT", "FUNCTION", "PROCEDURE"}
_CODE = {"FUNCTION", "PROCEDURE", "AGGREGATE", "OPERATOR", "DOMAIN"}
#: what belongs to a table or type and may be evaluated where that is used
_PARTS = {"INDEX", "CONSTRAINT", "CHECK CONSTRAINT", "STATISTICS", "RULE", "POLICY", "TRIGGER", "DEFAULT", "CAST"}
#: what pg_restore says by itself, or only when it makes the database
_IMPLIED = {"ENCODING", "STDSTRINGS", "SEARCHPATH", "DATABASE", "DATABASE PROPERTIES"}
#: rights of tables come after their rows: owners may have taken the right to write from themselves
_OF_TABLES = ("TABLE ", "COLUMN ", "SEQUENCE ")

#: row security is on before anybody has a right that it limits, and before any code of others runs
_BEFORE, _ROWS, _SECURITY, _RIGHTS, _AFTER = range(5)


@dataclass(frozen=True)
class Step:
    """Definitions that are made together, or the rows of one table."""

    phase: int  # 0: nothing of others is there yet; 1: it is; 2: what comes last
    role: str | None  # with whose rights; None for those of the superuser
    rows: bool
    entries: list[Entry]


def leave_out(entries: list[Entry], roles: Iterable[str]) -> tuple[list[Entry], list[Entry]]:
    """The entries without those of some roles and what uses them; and those."""
    entries = [entry for entry in entries if entry.kind not in _IMPLIED]
    for role in roles:
        if not any(entry.owner == role for entry in entries):
            raise CommandFailed(f'nothing in the dump belongs to role "{role}"', "Names of roles are taken as they are, case and all.")
    gone = _with_users(entries, {entry.number for entry in entries if entry.owner in set(roles)})
    return ([entry for entry in entries if entry.number not in gone],
            [entry for entry in entries if entry.number in gone])


def leave_unread(entries: list[Entry], superusers: set[str]) -> tuple[list[Entry], list[Entry]]:
    """The entries without those that would read what belongs to another role, whose code could then run with
    the reader's rights, or what the engine answers, which has been stopped; and those: materialized views stay empty."""
    by_number = {entry.number: entry for entry in entries}
    strange = {entry.number for entry in entries if entry.kind == "MATERIALIZED VIEW DATA"
               and any(used.kind == "FOREIGN TABLE" or used.owner not in superusers | {"", entry.owner}
                       for used in _used(entry, by_number, {}))}
    gone = _with_users(entries, strange)
    return [e for e in entries if e.number not in gone], [e for e in entries if e.number in gone]


def make_plan(entries: list[Entry], superusers: set[str]) -> list[Step]:
    """Refuses dumps that cannot be restored this way."""
    by_number = {entry.number: entry for entry in entries}
    theirs = {entry.number for entry in entries
              if entry.owner and entry.owner not in superusers and entry.kind not in _FIRST | _INERT | _LAST}
    later = _with_users(entries, theirs)
    parts: dict[int, list[Entry]] = {}
    for entry in entries:
        for number in entry.depends if entry.kind in _PARTS else ():
            parts.setdefault(number, []).append(entry)
    placed: list[tuple[int, int, str | None, Entry]] = []
    for entry in entries:
        if entry.kind == "TABLE DATA" and not entry.copy:
            raise CommandFailed(f"the dump has the rows of {entry} as statements", "Make the dump without --inserts.")
        if entry.number in later - theirs and entry.kind not in _INERT:
            raise _mixed(entry, next(other for other in _used(entry, by_number, {}) if other.number in theirs))
        if entry.number in theirs:
            _refuse_code_of_others(entry, by_number, parts, superusers)
        last = entry.kind in _LAST or any(by_number[number].kind in _LAST for number in entry.depends if number in by_number)
        placed.append((2 if last else int(entry.number in later), _rank(entry, by_number),
                       entry.owner if entry.number in theirs else None, entry))
    placed.sort(key=lambda one: one[:2])  # the order of the dump holds within
    steps: list[Step] = []
    for phase, rank, role, entry in placed:
        rows = entry.kind == "TABLE DATA"
        before = steps[-1] if steps else None
        alone = rows or entry.kind == "BLOBS"
        if before and not alone and not before.rows and (before.phase, before.role) == (phase, role) \
                and before.entries[-1].kind != "BLOBS" and rank == _rank(before.entries[-1], by_number):
            before.entries.append(entry)
        else:
            steps.append(Step(phase, role, rows, [entry]))
    return steps


def _rank(entry: Entry, by_number: dict[int, Entry]) -> int:
    if entry.section == DATA:
        return _ROWS
    if entry.kind == "ROW SECURITY":
        return _SECURITY
    if entry.section == POST_DATA:
        return _AFTER
    if entry.kind == "ACL" and entry.name.startswith(_OF_TABLES):
        return _RIGHTS
    if entry.kind in _INERT:  # these have no section, and come after what they are about
        return max([_BEFORE, *(_rank(by_number[number], by_number) for number in entry.depends if number in by_number)])
    return _BEFORE


def _with_users(entries: list[Entry], numbers: set[int]) -> set[int]:
    """These, and whatever depends on them."""
    found = set(numbers)
    while more := {entry.number for entry in entries if entry.number not in found and not found.isdisjoint(entry.depends)}:
        found |= more
    return found


def _refuse_code_of_others(entry: Entry, by_number: dict[int, Entry], parts: dict[int, list[Entry]], superusers: set[str]) -> None:
    """Of two roles one may have more rights than the other, and neither is asked now whether to run the other's code."""
    stored = entry.kind in _STORED
    for used in _used(entry, by_number, {} if stored else parts):
        if used.owner not in superusers | {"", entry.owner} and used.kind in ({"DOMAIN"} if stored else _CODE):
            raise _mixed(entry, used)


def _mixed(entry: Entry, used: Entry) -> CommandFailed:
    whose = f' of role "{entry.owner}"' if entry.owner else ""
    return CommandFailed(f'{entry}{whose} uses {used} of role "{used.owner}"',
                         f"Code of one role is not run with the rights of another. Give both to one role, or drop one, and dump again; or "
                         f"repeat with --without {used.owner}, which leaves out what belongs to the role and what uses it.")


def _used(entry: Entry, by_number: dict[int, Entry], parts: dict[int, list[Entry]]) -> list[Entry]:
    """What an entry depends on, the nearest first, and the parts of that."""
    found: list[Entry] = []
    ahead, seen = [entry], {entry.number}
    while ahead:
        one = ahead.pop(0)
        for number in sorted(one.depends | {part.number for part in parts.get(one.number, ())}):
            if number in by_number and number not in seen:
                found.append(by_number[number])
                ahead.append(by_number[number])
            seen.add(number)
    return found
