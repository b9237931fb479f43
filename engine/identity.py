"""When two releases are one: the key under which an answer is found again, and its rows as the statement that asks now orders them.

The calculus has put the statement into its normal form (calculus/canonical.py). Here is added what decides the answer beside it: what is
collected and the noise that is put on it, epsilon, and the runs that are read, each by all that its program could see. Texts that people
read (labels, positions, the statement itself) take no part.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any, Protocol

from privid.model import Key, Output, Plan, TableUse

from .series import Stretch

__all__ = ["Runs", "in_order", "reuse_key"]

#: part of every key; changes when equal keys would no longer mean equal releases
_EDITION = 5
#: letters of a text that are digested at a time
_PIECE = 1 << 16


class Runs(Protocol):
    """The runs of one table, and where they lie in the chunk cache, which follows from all that their program could see."""

    @property
    def use(self) -> TableUse: ...
    @property
    def stretches(self) -> Sequence[Stretch]: ...


def reuse_key(plan: Plan, reads: Sequence[Runs]) -> str:
    """Equal for releases that are the same in every respect: form, groups, noise, programs, footage, and whose camera it is: its name
    alone can be another's tomorrow."""
    digest = hashlib.sha256()
    for read in reads:
        table, apart = read.use.table, [read.use.table.kept_for] if read.use.table.kept_for else []
        digest.update(json.dumps([table.camera.owner, table.camera.name, table.pad, [one.as_identity() for one in read.stretches],
                                  *apart]).encode())
    argmax = None if plan.argmax is None else list(plan.argmax)
    groups = plan.keys if argmax is not None else sorted(plan.keys, key=json.dumps)
    whole = [(_EDITION, 0), (plan.canonical, 0), (str(plan.epsilon), 0), (str(plan.mechanism), 0), (argmax, 0), (groups, 1),
             ((_output(output, plan) for output in plan.outputs), 3), ([column.as_message() for column in plan.columns], 1)]
    for place, (value, depth) in enumerate(whole):
        digest.update(b", " if place else b"[")
        for piece in _pieces(value, depth):
            digest.update(piece.encode())
    digest.update(b"]")
    return digest.hexdigest()


def _pieces(value: Any, depth: int) -> Iterator[str]:
    """What json.dumps makes of it, lists of so many levels item by item: canonical form, keys and public values are not to be there once
    more."""
    match value:
        case str() if len(value) > _PIECE:
            yield '"'
            yield from (json.dumps(value[at:at + _PIECE])[1:-1] for at in range(0, len(value), _PIECE))
            yield '"'
        case list() | tuple() | Iterator() if depth:
            yield "["
            for place, item in enumerate(value):
                if place:
                    yield ", "
                yield from _pieces(item, depth - 1)
            yield "]"
        case _:
            yield json.dumps(value)


def _output(output: Output, plan: Plan) -> list[Any]:
    """All that decides a column of the answer, whatever else an output may come to hold: not its words for people."""
    public = None if output.public is None else sorted(([*key, text] for key, text in zip(plan.keys, output.public, strict=True)),
                                                       key=json.dumps)
    return [public, *([name, repr(getattr(output, name))] for name in _DECISIVE)]


_DECISIVE = tuple(field.name for field in fields(Output) if field.name not in ("label", "error95", "public"))


def in_order(plan: Plan, rows: Sequence[Key]) -> list[Key] | None:
    """The rows of a stored answer in the order of this plan's keys, by the keys themselves. None if they are not an answer to it."""
    if plan.argmax is not None:
        return list(rows)  # the winners, whose order is that of the keys, which are compared in order there
    width = len(plan.keys[0]) if plan.keys else 0
    found = {tuple(row[:width]): row for row in rows}
    if len(found) != len(rows) or found.keys() != set(plan.keys) or any(len(row) != width + len(plan.outputs) for row in rows):
        return None
    return [found[key] for key in plan.keys]
