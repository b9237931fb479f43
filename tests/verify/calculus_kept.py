"""Accepted statements that others are made of: those whose derivations have rules together that few others have are chosen more often.

A derivation is a tree of rules. What counts of it is which rule stands above which, at any distance, what a rule is given by the one below,
and over which kind of table. No statement is preferred for what it says, and no fault is known here: what was seldom derived is what the
search has seldom looked at.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from heapq import nsmallest
from typing import Any

from privid.calculus.functions import names

from .calculus_tape import Recording

__all__ = ["Kept", "features_of"]

#: statements that are kept
_KEPT = 600
#: two rules that so many accepted statements had together are seldom no more
_SELDOM = 3

_NUMBER = re.compile(r"-?\d+(/\d+|\.\d+)?")


class Kept:
    """Recordings, and how often accepted statements had two rules together."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.seen: Counter[Any] = Counter()
        self._all: list[tuple[Recording, frozenset[Any]]] = []
        self._chosen: list[int] = []

    def __len__(self) -> int:
        return len(self._all)

    def note(self, features: Iterable[Any]) -> bool:
        """Counts an accepted statement; whether it has something that was seldom accepted."""
        features = list(features)
        self.seen.update(features)
        return any(self.seen[feature] <= _SELDOM for feature in features)

    def keep(self, recording: Recording, features: Iterable[Any]) -> None:
        """In the place, where all are taken, of one that is like many others."""
        kept = (recording, frozenset(features))
        if len(self._all) < _KEPT:
            self._all.append(kept)
            self._chosen.append(0)
            return
        place = min(self._rng.sample(range(_KEPT), 8), key=self._worth)
        self._all[place], self._chosen[place] = kept, 0

    def any(self) -> Recording:
        return self._rng.choice(self._all)[0]

    def choose(self) -> Recording:
        """Of some, one whose rarest pairs of rules are rarer, and that was chosen less."""
        place = max(self._rng.sample(range(len(self._all)), min(6, len(self._all))), key=self._worth)
        self._chosen[place] += 1
        return self._all[place][0]

    def _worth(self, place: int) -> float:
        rarest = nsmallest(3, (self.seen[feature] for feature in self._all[place][1]))
        return sum(1 / (1 + count) for count in rarest) / (1 + self._chosen[place])


def features_of(derivation: dict[str, Any], select: Any, tables: Iterable[str]) -> set[Any]:
    """Rules of which one stands above the other; what a rule is given of the relation below it, but for the numbers; of every rule the
    kinds of table that are read; and which aggregates are taken of which."""
    found = set[Any]()

    def walk(node: dict[str, Any], above: frozenset[str]) -> None:
        found.update((rule, node["rule"]) for rule in above)
        for below in node["inputs"]:
            found.add((node["rule"], below["rule"], _NUMBER.sub(_nothing_or_some, below["bound"])[:60]))
            walk(below, above | {node["rule"]})

    walk(derivation, frozenset({""}))
    rules = {feature[1] for feature in found if len(feature) == 2}
    return found | {(rule, "over", kind) for rule in rules for kind in set(tables)} | set(_aggregates(select, ""))


def _nothing_or_some(number: re.Match[str]) -> str:
    return "0" if not number[0].strip("-0./") else "-n" if number[0].startswith("-") else "n"


def _aggregates(node: Any, above: str) -> Iterator[Any]:
    if isinstance(node, dict):
        own = [(names(one["name"])[1], bool(one.get("distinct")), one.get("filter") is not None) for one in node.get("aggs") or ()]
        yield from (("of", above, *one) for one in own)
        below = own[0][0] if own else above
        for value in node.values():
            yield from _aggregates(value, below)
    elif isinstance(node, list):
        for value in node:
            yield from _aggregates(value, above)
