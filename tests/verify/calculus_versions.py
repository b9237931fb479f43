"""Faulty versions of the calculus beside it: which of them would judge a statement otherwise.

A version replaces functions. One judgement asks, at every call of one that some version replaces, that version too, and goes on with the
right answer. A version that answers the same wherever it is asked judges the same; the others are put in place, one at a time.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, wraps
from types import FunctionType, ModuleType
from typing import Any

import pytest

from tests.algebra.mutants import Mutant

__all__ = ["Version", "beside", "made"]


@contextmanager
def made(mutant: Mutant) -> Iterator[None]:
    """While it is in place."""
    with pytest.MonkeyPatch.context() as patch:
        mutant.make(patch)
        yield


class Version:
    """A faulty version, and what it has in the place of what."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant
        self.replaced: list[tuple[Any, str, Any]] = []
        #: where the code stands that is replaced; None if something else is
        self.places: set[str] | None = set()
        mutant.make(self)  # type: ignore[arg-type]

    def setattr(self, target: Any, name: str, value: Any) -> None:
        """In the place of a monkeypatch."""
        self.replaced.append((target, name, value))
        right = inspect.getattr_static(target, name)
        right = getattr(right, "__wrapped__", getattr(right, "__func__", right))
        if isinstance(right, FunctionType) and self.places is not None:
            self.places.add(f"{right.__code__.co_filename}:{right.__code__.co_firstlineno}")
        elif isinstance(right, ModuleType) and right.__file__ and self.places is not None:
            self.places.add(right.__file__)
        else:
            self.places = None

    @cached_property
    def changes_rows(self) -> bool:
        """Whether it has other rows of a program's output."""
        return any("sandbox" in where for where in self.places or ())

    @cached_property
    def comparable(self) -> bool:
        """Whether all that it replaces are functions of the calculus, which answer the same whenever they are asked, or its modules."""
        return all(isinstance(inspect.getattr_static(target, name), FunctionType | ModuleType) and _judges(target)
                   for target, name, _ in self.replaced)

    @cached_property
    def claims_alike(self) -> bool:
        """Whether it claims the same of every statement: what it does otherwise is done after the judgement."""
        return (self.mutant.everywhere or self.changes_rows) and not any(_judges(target) for target, _, _ in self.replaced)


def _judges(target: Any) -> bool:
    return "calculus" in getattr(target, "__module__", getattr(target, "__name__", ""))


@contextmanager
def beside(versions: Sequence[Version]) -> Iterator[tuple[set[str], set[str]]]:
    """While judgements are made: names of those that are asked somewhere, and of those that answer otherwise."""
    met, found, asked = set[str](), set[str](), dict[tuple[int, str], list[tuple[str, Any]]]()
    with pytest.MonkeyPatch.context() as patch:
        for version in versions:
            for target, name, value in version.replaced:
                if (others := asked.get((id(target), name))) is None:
                    others = asked[id(target), name] = []
                    right = getattr(target, name)
                    noting = _Noting(right, others, met, found) if isinstance(right, ModuleType) else _asking(right, others, met, found)
                    patch.setattr(target, name, noting)
                others.append((version.mutant.name, value))
        yield met, found


class _Noting:
    """A module in the place of which some versions have another: whoever asks it anything may be answered otherwise."""

    def __init__(self, right: ModuleType, others: list[tuple[str, Any]], met: set[str], found: set[str]) -> None:
        self._noted = right, others, met, found

    def __getattr__(self, name: str) -> Any:
        right, others, met, found = self._noted
        for other, _ in others:
            met.add(other)
            found.add(other)
        return getattr(right, name)


def _asking(right: Callable[..., Any], others: list[tuple[str, Callable[..., Any]]], met: set[str],
            found: set[str]) -> Callable[..., Any]:
    @wraps(right)
    def asked(*args: Any, **options: Any) -> Any:
        error: Exception | None = None
        answer: Any = None
        try:
            answer = right(*args, **options)
        except Exception as raised:
            error = raised
        for name, other in others:
            met.add(name)
            if name in found:
                continue
            try:
                same = error is None and bool(other(*args, **options) == answer)
            except Exception as raised:
                same = type(raised) is type(error)
            if not same:
                found.add(name)
        if error is not None:
            raise error
        return answer
    return asked
