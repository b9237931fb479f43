"""Random choices that are kept: a statement is what a grammar makes of a tape, a near one what it makes of it with a part drawn anew.

A production of the grammar (an expression, an aggregate, a join, a condition) covers a part of the tape. To draw that part anew, or to put
the part of another tape there, changes this production of the statement and leaves the rest as it is. So no mutation is written for any
kind of statement: every production can be swapped for any other of its kind.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

__all__ = ["Part", "Recording", "Tape", "production"]

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Part:
    """Where on a tape a production lies."""

    kind: str
    begin: int
    end: int


@dataclass(frozen=True)
class Recording:
    """All choices of a statement, in order, and which production made which."""

    values: tuple[float, ...]
    parts: tuple[Part, ...]

    def of(self, part: Part) -> tuple[float, ...]:
        return self.values[part.begin:part.end]


class Tape(random.Random):
    """Draws, and plays what was drawn before. Everything that random.Random offers comes from random(), and so from the tape."""

    def __init__(self, seed: int) -> None:
        self._fresh = random.Random(seed)
        self._values: list[float] = []
        self._parts: list[Part] = []
        self._played: Sequence[float] = ()
        self._at = 0
        #: begin -> what to play there instead of the part, and where to go on; None: draw anew
        self._instead: dict[tuple[str, int], tuple[Sequence[float] | None, int]] = {}
        super().__init__(seed)

    def random(self) -> float:
        value = self._played[self._at] if self._at < len(self._played) else self._fresh.random()
        self._at += 1
        self._values.append(value)
        return value

    def seed(self, *_: Any, **__: Any) -> None:
        """The seed is that of what is drawn anew."""

    def draw(self) -> float:
        """A choice that no statement is made of."""
        return self._fresh.random()

    def preferring(self, options: Sequence[T], weigh: Callable[[T], float]) -> T:
        """One of the options, more often one that weighs more now; played again it is the same whatever it weighs then."""
        if self._at < len(self._played):
            return options[int(self.random() * len(options))]
        chosen = self._fresh.choices(range(len(options)), [weigh(option) for option in options])[0]
        self._at += 1
        self._values.append((chosen + 0.5) / len(options))
        return options[chosen]

    # Recording

    def begin(self) -> None:
        """A new statement, drawn freely."""
        self.play(Recording((), ()), {})

    def play(self, recording: Recording, instead: dict[Part, Sequence[float] | None]) -> None:
        """A statement as before but for these parts."""
        self._values, self._parts, self._at = [], [], 0
        self._played = recording.values
        self._instead = {(part.kind, part.begin): (values, part.end) for part, values in instead.items()}

    def recorded(self) -> Recording:
        return Recording(tuple(self._values), tuple(self._parts))

    def enter(self, kind: str) -> tuple[int, tuple[Sequence[float], int] | None]:
        begun, found = len(self._values), self._instead.pop((kind, self._at), None) if self._instead else None
        if found is None:
            return begun, None
        after = (self._played, found[1])
        self._played, self._at = found[0] or (), 0
        return begun, after

    def leave(self, kind: str, begun: int, after: tuple[Sequence[float], int] | None) -> None:
        if after is not None:
            self._played, self._at = after
        self._parts.append(Part(kind, begun, len(self._values)))


class _Drawing(Protocol):
    rng: Any


D = TypeVar("D", bound=_Drawing)


def production(kind: str) -> Callable[[Callable[Concatenate[D, P], T]], Callable[Concatenate[D, P], T]]:
    """Marks a method of a grammar as a part that can be swapped for another of its kind."""
    def mark(method: Callable[Concatenate[D, P], T]) -> Callable[Concatenate[D, P], T]:
        @wraps(method)
        def drawn(self: D, *args: P.args, **options: P.kwargs) -> T:
            begun, after = self.rng.enter(kind)
            try:
                return method(self, *args, **options)
            finally:
                self.rng.leave(kind, begun, after)
        return cast("Callable[Concatenate[D, P], T]", drawn)
    return mark
