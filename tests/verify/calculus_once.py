"""A room and a judge that are asked each question once: about chunks and public rows, and about a level of a statement."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from privid import calculus
from privid.engine.definitions import Sources
from privid.engine.judge import Judge, Judged, settings_of
from privid.errors import PrividError
from privid.model import Evaluate, Key, PublicRows, Run, SetWise, Span, Table, TableUse
from privid.room.deparse import Inner, inner_query
from privid.room.plans import Planned
from privid.room.room import Room

from .calculus_claims import Claim

__all__ = ["OnceJudge", "OnceRoom"]


@dataclass(frozen=True)
class _Remembered:
    """Answers about public rows, each asked once of every version of the code that answers."""

    slow: PublicRows
    known: dict[Any, Any]
    settings: Any

    def is_unique(self, columns: Any, rows: Sequence[Key], places: Sequence[int]) -> bool:
        """Of the columns that are asked about: what else the rows have is of types that any session can load."""
        asked = sorted(tuple(row[place] or "" for place in places) + tuple(row[place] is None for place in places) for row in rows)
        return bool(self._once("is_unique", columns, rows, places, key=([columns[place] for place in places], asked)))

    def matching(self, columns: Any, rows: Sequence[Key], condition: str) -> list[Key]:
        return list(self._once("matching", columns, rows, condition))

    def _once(self, name: str, *args: Any, key: Any = None) -> Any:
        answers = getattr(type(self.slow), name)
        self.known.setdefault("answering", set()).add(answers)  # asked, if only of what is remembered
        key = (answers, self.settings, repr(key or args))
        if key not in self.known:
            self.known[key] = getattr(self.slow, name)(*args)
        return self.known[key]


@dataclass(frozen=True)
class _Evaluated(SetWise):
    """Values of expressions over chunks, each asked once."""

    slow: SetWise
    known: dict[Any, Any]
    settings: Any
    solved: dict[Any, Any] = field(default_factory=dict)

    def __call__(self, expressions: Sequence[str], table: Table, span: Span, region: str = "", /) -> list[Key]:
        return list(self._once("__call__", expressions, table, span, region))

    def at(self, expressions: Sequence[str], table: Table, chunks: Sequence[int], region: str = "", /) -> list[Key]:
        return list(self._once("at", expressions, table, chunks, region))

    def runs(self, expressions: Sequence[str], table: Table, spans: Sequence[Span], region: str = "", /) -> Iterator[Run]:
        return iter(self._once("runs", expressions, table, spans, region))

    def together(self) -> contextlib.AbstractContextManager[None]:
        return self.slow.together()

    def steady(self, table: Table, spans: Sequence[Span], zones: Collection[str | None], /) -> list[Span] | None:
        return self.slow.steady(table, spans, zones)

    def _once(self, name: str, expressions: Sequence[str], table: Table, places: Sequence[Any], region: str) -> Any:
        key = (name, tuple(expressions), table.name, tuple(places), region, self.settings)
        if key not in self.known:
            self.known[key] = list(getattr(self.slow, name)(expressions, table, places, region))
        return self.known[key]


class OnceRoom(Room):
    """A room that is asked each question about chunks once, and may have queries planned only when they fail."""

    rehearses = True

    def evaluate(self, settings: Mapping[str, str]) -> Evaluate:
        slow = super().evaluate(settings)
        assert isinstance(slow, SetWise)
        return _Evaluated(slow, self.__dict__.setdefault("_known", {}), tuple(sorted(settings.items())))

    def public_rows(self, settings: Mapping[str, str]) -> PublicRows:
        return _Remembered(super().public_rows(settings), self.__dict__.setdefault("_asked", {}), tuple(sorted(settings.items())))

    def rehearse(self, inner: Inner, tables: Sequence[Table], uses: Sequence[TableUse], settings: Mapping[str, str]) -> Planned:
        return super().rehearse(inner, tables, uses, settings) if self.rehearses else Planned()

    def check_space(self, files: int, memory: int) -> None:
        """What is free is no matter here."""

    def answering(self) -> set[Any]:
        """The code that has answered about public rows since this was last asked, or had before."""
        return set(self.__dict__.setdefault("_asked", {}).pop("answering", ()))

    def refuses(self, claim: Claim) -> bool:
        """Whether a rehearsal refuses it, as it would in life."""
        try:
            super().rehearse(claim.inner, claim.tables, claim.plan.uses, claim.judged.settings)
        except PrividError:
            return True
        return False


class OnceJudge(Judge):
    """Judges a level once where it is asked twice: to choose the release, and to explain it."""

    def __init__(self, sources: Sources, room: Room) -> None:
        super().__init__(sources, room)
        self.known: dict[str, Judged] | None = None
        self._tables: dict[str, list[Table]] = {}
        self._parsed: tuple[str, Any] = "", None

    def _judge(self, request: dict[str, Any], select: Any, tables: list[Table], settings: dict[str, str]) -> Judged:
        if self.known is None:
            return super()._judge(request, select, tables, settings)
        key = json.dumps(select)
        if key not in self.known:
            self.known[key] = super()._judge(request, select, tables, settings)
        return self.known[key]

    def claimed(self, request: dict[str, Any]) -> Judged:
        """As `judge`, by a version of the calculus that is in its place, but for what evaluating may cost: of that it says nothing."""
        tables, settings, key = self.tables(request), settings_of(request), json.dumps(request["select"])
        if key != self._parsed[0]:
            calculus.name_range(request.get("range"))
            self._parsed = key, calculus.exact(calculus.parse_select(request["select"]), tables)
        parsed = self._parsed[1]
        plan = calculus.analyse(parsed, settings, tables, Fraction(request["epsilon"]), self._room.evaluate(settings),
                                self._room.public_rows(settings))
        return Judged(plan, tables, inner_query(calculus.alike(parsed), plan.columns, tables), settings, Fraction(0))

    def tables(self, request: dict[str, Any]) -> list[Table]:
        key = json.dumps(request.get("tables"))
        if key not in self._tables:
            self._tables[key] = super().tables(request)
        return self._tables[key]
