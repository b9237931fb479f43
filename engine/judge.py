"""From a request to what may be released: definitions, calculus, the inner query and its allowance. Nothing is charged, nothing runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from privid import calculus
from privid.errors import BudgetExhausted, InvalidValue, NoRule, RawRows
from privid.model import Camera, Plan, Table
from privid.quantities import parse_number
from privid.room.allowance import Bound, bound, premises_of
from privid.room.deparse import Inner, inner_query
from privid.room.premises import MAX_MEMORY
from privid.room.room import Room
from privid.udf import noise

from .allowances import allowance_of, margin_of
from .answers import check_answer
from .cancel import Cancel
from .definitions import Sources, make_table
from .timetable import nanoseconds
from .wire import Malformed

__all__ = ["Judge", "Judged", "is_allowed", "settings_of", "text_of"]


#: what the library writes values under, whatever the session says: a rule that puts texts in order (limit.md) relies on different values
#: having different ones
PINNED = {"DateStyle": "ISO, MDY", "IntervalStyle": "postgres"}


@dataclass(frozen=True)
class Judged:
    """A release that the calculus has accepted."""

    plan: Plan
    tables: Sequence[Table]
    inner: Inner
    settings: dict[str, str]
    #: seconds after the last slot at which the answer leaves: the most that computing it can take, by public sizes, and a quantum at least
    allowance: Fraction
    #: bytes that it can need at most, of files and of memory
    files: int = 0
    memory: int = 0

    @property
    def protected(self) -> bool:
        """Whether any camera that is read protects anything: otherwise errors may be told."""
        return any(use.table.camera.r for use in self.plan.uses)


class Judge:
    def __init__(self, sources: Sources, room: Room) -> None:
        self._sources = sources
        self._room = room

    def judge(self, request: dict[str, Any], cancel: Cancel | None = None) -> Judged:
        """What a release may change and what hides it, or why it is refused; given up when nobody waits for it any more."""
        with self._room.wanted_by(cancel or Cancel(), text_of(request, "login")):
            return self._judge(request, request.get("select"), self.tables(request), settings_of(request))

    def choose(self, request: dict[str, Any], cancel: Cancel | None = None) -> list[int]:
        """Which of several levels are the releases: the outermost that has a rule; else, all those below it."""
        with self._room.wanted_by(cancel or Cancel(), text_of(request, "login")):
            return self._chosen(request, request.get("candidate"), self.tables(request), settings_of(request))

    def _chosen(self, request: dict[str, Any], candidate: Any, tables: list[Table], settings: dict[str, str]) -> list[int]:
        if not isinstance(candidate, dict) or not isinstance(candidate.get("number"), int) or not isinstance(candidate.get("below"), list):
            raise Malformed("candidate without a number, or without those below it")
        below, refusal = candidate["below"], None
        if candidate.get("select") is not None:
            try:
                self._judge(request, candidate["select"], tables, settings)
            except (NoRule, RawRows) as error:
                refusal = error
            else:
                return [candidate["number"]]
        if refusal is not None and (candidate.get("raw") is True or not below):
            raise refusal
        try:
            return [number for one in below for number in self._chosen(request, one, tables, settings)]
        except (NoRule, RawRows) as error:
            raise refusal or error from None

    def _judge(self, request: dict[str, Any], select: Any, tables: list[Table], settings: dict[str, str]) -> Judged:
        epsilon = parse_number(text_of(request, "epsilon"), "privid.epsilon")
        if epsilon <= 0:
            raise InvalidValue(f"privid.epsilon must be positive, but is {text_of(request, 'epsilon')}",
                               hint="Set what each release may consume, for example SET privid.epsilon = 0.1.")
        calculus.name_range(request.get("range"))
        parsed = calculus.exact(calculus.parse_select(select), tables)
        plan = calculus.analyse(parsed, settings, tables, epsilon, self._room.evaluate(settings),
                                self._room.public_rows(settings))
        _check_settled(plan)
        check_answer(plan)
        if plan.epsilon:
            _check_budget(plan, text_of(request, "epsilon"), epsilon)
        for output in plan.outputs:
            if output.scale:
                noise.float_scale(output)  # refuses noise that could not be exact, before it is charged
        evaluated = calculus.alike(parsed)
        inner = inner_query(evaluated, plan.columns, tables)
        quantum = max((use.table.camera.quantum for use in plan.uses), default=Fraction(0))
        allowance, files, memory = Fraction(0), 0, 0
        if plan.computes:
            premises = premises_of(evaluated, plan.columns, tables, plan.uses, self._room.premises)
            inner = replace(inner, premises=premises)
            planned = self._room.rehearse(inner, tables, plan.uses, settings)
            needed = bound(evaluated, plan.columns, tables, plan.uses, planned=planned, room=premises)
            _check_space(needed)
            files, memory = self._room.space(needed)
            self._room.check_space(files, memory)
            allowance = allowance_of(needed.seconds + margin_of(plan), quantum)
        _check_allowance(allowance, request)
        return Judged(plan, tables, inner, settings, allowance, files, memory)

    def tables(self, request: dict[str, Any]) -> list[Table]:
        given = request.get("tables")
        if not isinstance(given, list) or not all(isinstance(table, dict) for table in given):
            raise Malformed("request without tables")
        sources, role = self._sources.at_once(), text_of(request, "role")
        tables = [make_table(table, index, sources) for index, table in enumerate(given)]
        return [replace(table, kept_for=role) if table.camera.visibility == "own" else table for table in tables]


def _check_settled(plan: Plan) -> None:
    """What no segment changes is computed without any row of a video. Where some cameras protect nothing, it may depend on theirs."""
    open_ = [use.table for use in plan.uses if use.count and not use.table.r]
    if plan.settled and open_:
        closed = next(use.table for use in plan.uses if use.table.r)
        raise NoRule(f'exact answer over foreign tables "{open_[0].name}" and "{closed.name}" together has no rule',
                     detail=f'Nothing is protected in "{open_[0].name}", so that its rows decide the answer, but something is in '
                            f'"{closed.name}", whose rows must have no part in what gets no noise.',
                     hint="Ask about them in statements of their own, and join the answers.")


def _check_budget(plan: Plan, shown: str, epsilon: Fraction) -> None:
    cameras: dict[str, Camera] = {use.table.camera.name: use.table.camera for use in plan.uses}
    for camera in cameras.values():
        if camera.r and epsilon > camera.epsilon:
            raise BudgetExhausted(f'privid.epsilon is {shown}, but camera "{camera.name}" has a budget of '
                                  f"{float(camera.epsilon):g} in all", hint=f"SET privid.epsilon = {float(camera.epsilon):g} or less.")


#: bytes of files that the inner query of one release may need: half of the room's temp_file_limit
MAX_FILES = 16 << 30


def _check_space(needed: Bound) -> None:
    """Refuses what could fail for want of memory or disk: that it fails would show what the video shows."""
    for what, size, limit in (("memory", needed.memory, MAX_MEMORY), ("files", needed.files, MAX_FILES)):
        if size > limit:
            raise InvalidValue(f"computing this release could take {size / (1 << 30):.1f} GB of {what}, but the limit is {limit >> 30} GB",
                               detail="The size is a bound: rows that the chunks can have, and lengths of text.",
                               hint="Choose fewer chunks or a smaller max_rows, or group by a boolean, an enum or a number, not by text.")


def _check_allowance(allowance: Fraction, request: dict[str, Any]) -> None:
    limit = request.get("allowance")
    if not isinstance(limit, int) or isinstance(limit, bool) or limit <= 0:
        raise Malformed("allowance is not a number of milliseconds")
    needed = -(-nanoseconds(allowance) // 1_000_000)
    if needed > limit:
        raise InvalidValue(f"computing this release could take {_seconds(needed)}, but privid.allowance is {_seconds(limit)}",
                       detail="The time is a bound by public sizes: rows that the chunks can have, lengths of text, and the "
                              "expressions of the statement.",
                       hint=f"SET privid.allowance = '{-(-needed // 1000)}s', or choose fewer chunks, a smaller max_rows or "
                            "simpler expressions.")


def is_allowed(allowance: Fraction, request: dict[str, Any]) -> bool:
    """Whether the session is ready to wait so long."""
    try:
        _check_allowance(allowance, request)
    except InvalidValue:
        return False
    return True


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds / 1000:g} s"


def settings_of(request: dict[str, Any]) -> dict[str, str]:
    settings = request.get("settings")
    if not isinstance(settings, dict) or not all(isinstance(value, str) for value in settings.values()):
        raise Malformed("settings are not text")
    if any(settings.get(name) != value for name, value in PINNED.items()):
        raise Malformed("values are not written in the one form")
    return settings


def text_of(request: dict[str, Any], name: str) -> str:
    value = request.get(name)
    if not isinstance(value, str):
        raise Malformed(f"{name} is not text")
    return value
