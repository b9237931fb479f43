"""How much of memory what a statement makes may take: its expressions with subqueries in the place of their columns, and the keys of its
answer. Short statements can make much of both, so that each is weighed before it is made, and refused."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from privid.errors import NoRule
from privid.model import Key

from .tree import Const, Expr, position

__all__ = ["MAX_BYTES", "MAX_KEYS", "MAX_KEY_BYTES", "Expressions", "Keys", "check_written", "of_key", "of_product", "of_value", "utf8"]

#: bytes of all expressions of a statement, each level's with those of the levels below in it: analysed, or written for the room. The tree
#: that PostgreSQL makes of so much text takes some times as much, and the planner copies it
MAX_BYTES = 16 << 20
#: of a part of an expression, beside the text of a constant
_NODE = 64
#: groups of one release
MAX_KEYS = 100_000
#: bytes of the keys of all groups together, and what a value takes beside its text
MAX_KEY_BYTES, _VALUE = 32 << 20, 64


def utf8(text: str) -> int:
    """Bytes of a text; half a character, which is refused elsewhere, has some too."""
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def check_written(size: int, loc: int = -1) -> None:
    """Refuses expressions of so many bytes."""
    if size > MAX_BYTES:
        raise NoRule("statement is too long to be analysed", position=position(loc),
                     detail=f"With subqueries in the place of their columns, its expressions have more than {MAX_BYTES >> 20} MiB.",
                     hint="Use shorter constants, name columns of subqueries less often, or compute the value inside the executable.")


class Expressions:
    """What the expressions of one statement weigh, as they are put into each other."""

    def __init__(self) -> None:
        self.bytes = 0

    def take(self, size: int, expr: Expr) -> None:
        """To be called before what weighs so much is made."""
        self.bytes += size
        check_written(self.bytes, expr.loc)

    @staticmethod
    def of_node(expr: Expr) -> int:
        """Of one part, without those that it has."""
        return _NODE + (utf8(expr.value) if isinstance(expr, Const) and expr.value is not None else 0)


def of_value(text: str | None) -> int:
    """What a value of a key takes: as JSON it is longest, and as such it is compared, kept and sent."""
    return _VALUE if text is None else _VALUE + len(json.dumps(text))


def of_key(key: Iterable[str | None]) -> int:
    return sum(map(of_value, key))


def of_product(parts: Sequence[Sequence[Key]]) -> int:
    """What all combinations of these keys take, without making them."""
    number, size = 1, 0
    for keys in parts:
        size, number = size * len(keys) + number * sum(map(of_key, keys)), number * len(keys)
    return size


class Keys:
    """Weighs keys as they are found, each once; equal ones are one in memory too."""

    def __init__(self, loc: int = -1, most: int | None = MAX_KEYS, limit: int = MAX_KEY_BYTES) -> None:
        self.loc, self.most, self.limit, self.bytes = loc, most, limit, 0
        self.known: dict[Key, Key] = {}

    def one(self, key: Key) -> Key:
        """The key, as it was found first."""
        known = self.known.get(key)
        if known is None:
            self.bytes += of_key(key)
            self.check(len(self.known) + 1, self.bytes)
            known = self.known[key] = key
        return known

    def check(self, number: int, size: int, detail: str = "Every group that can occur is released.",
              hint: str = "Group by longer bins, for example date_trunc('hour', chunk).") -> None:
        """Refuses so many keys, or so large ones."""
        if self.most is not None and number > self.most:
            raise NoRule(f"GROUP BY has no rule for more than {self.most} groups", position=position(self.loc), detail=detail, hint=hint)
        if size > self.limit:
            raise NoRule(f"groups have keys or public values of more than {self.limit >> 20} MiB together", position=position(self.loc),
                         detail=f"A value counts with its bytes as JSON and {_VALUE} more, in every group that has it.",
                         hint="Group by fewer columns or shorter values, declare fewer keys, or group by longer bins.")
