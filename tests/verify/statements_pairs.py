"""Runs scenarios on both sides and compares: what a client sees, values against claims, time.

A difference is a finding only if it is there every time: the scenario is run again, and what a step
showed on one side must never be shown on the other. So a race that goes one way here and the other
way there is no finding, and a leak is. A difference of time is looked into while no other worker
of the search asks anything: they wait for each other's computations.
"""

from __future__ import annotations

import random
import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

from .statements_claims import claim_of, too_far
from .statements_scenario import Scenario
from .statements_sides import Run, Side
from .statements_world import SIDES, World

__all__ = ["Finding", "Floor", "Pairs", "Tally"]

#: how often both sides are run again before a difference is believed
_AGAIN = 17
#: seconds: a difference of time that is looked into, and one that is believed if the least of all
#: runs have it, and of all pairs of runs so many
_LATE, _LATER, _MOST = 0.025, 0.008, 0.9
#: runs that a difference of time may lack that before it is given up
_PATIENCE = 3


class Floor:
    """Who has it: many workers, or one alone."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._workers = 0
        self._waiting = 0

    @contextmanager
    def shared(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting)
            self._workers += 1
        try:
            yield
        finally:
            self._leave()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """For one who shares it already; several take turns."""
        with self._changed:
            self._workers -= 1
            self._waiting += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._workers == 0)
            self._workers = 1
        try:
            yield
        finally:
            with self._changed:
                self._waiting -= 1
                self._changed.notify_all()

    def _leave(self) -> None:
        with self._changed:
            self._workers -= 1
            self._changed.notify_all()


@dataclass(frozen=True)
class Finding:
    kind: str
    scenario: Scenario
    detail: str

    @property
    def report(self) -> str:
        told = f"{self.kind}\n{self.scenario.text}\n  {self.detail}"
        return re.sub(r"(.)\1{60,}", lambda run: f"{run[1]}...({len(run[0])} of them)", told)


@dataclass
class Tally:
    """What has been compared and found."""

    pairs: int = 0
    #: runs of both sides, those to make sure included
    runs: int = 0
    forms: Counter[str] = field(default_factory=Counter)
    states: Counter[str] = field(default_factory=Counter)
    #: differences that did not last, and pairs whose values were compared
    raced: int = 0
    values: int = 0
    #: by how much side b was slower, for each statement
    slower: list[float] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    #: statements that the engine could not answer, on both sides
    internal: Counter[str] = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        self.pairs += other.pairs
        self.runs += other.runs
        self.raced += other.raced
        self.values += other.values
        self.forms.update(other.forms)
        self.states.update(other.states)
        self.internal.update(other.internal)
        self.slower += other.slower
        self.findings += other.findings


class Pairs:
    """Compares, in the sessions of one worker."""

    def __init__(self, world: World, floor: Floor | None = None) -> None:
        self.world = world
        self.floor = floor or Floor()
        self.sides = {side: Side(world, side) for side in SIDES}
        self.tally = Tally()

    def close(self) -> None:
        for side in self.sides.values():
            side.close()

    def compare(self, scenario: Scenario, rng: random.Random) -> None:
        """One pair, and what it takes to be sure of it."""
        with self.floor.shared():
            if scenario.timed:
                with self.floor.alone():
                    self._compare(scenario, rng)
            else:
                self._compare(scenario, rng)

    def _compare(self, scenario: Scenario, rng: random.Random) -> None:
        self.tally.pairs += 1
        self.tally.forms[scenario.form] += 1
        runs = self._both(scenario, rng)
        self._count(scenario, runs)
        finding = self._fault(scenario, runs)
        differ = _differ(runs)
        if finding is None and differ:
            if self.world.repair():
                runs = self._both(scenario, rng)
            finding = self._smaller(self._always(scenario, rng, runs), rng)
            self.tally.raced += finding is None
        elif finding is None and (late := self._late(scenario, runs)):
            runs = self._both(scenario, rng)
            if late & self._late(scenario, runs):
                with nullcontext() if scenario.timed else self.floor.alone():
                    runs = self._both(scenario, rng)
                    finding = self._smaller(self._always(scenario, rng, runs, _PATIENCE), rng)
        if finding is None and not scenario.racing:
            finding = self._values(scenario, runs)
        if finding is not None:
            self.tally.findings.append(finding)

    def _both(self, scenario: Scenario, rng: random.Random) -> dict[str, Run]:
        """In either order, so that coming first or second cannot look like a difference."""
        order = list(SIDES)
        rng.shuffle(order)
        turn = rng.randrange(1_000_000)
        self.tally.runs += 1
        return {side: self.sides[side].run(scenario, turn) for side in order}

    def _count(self, scenario: Scenario, runs: dict[str, Run]) -> None:
        for step, a, b in zip(scenario.steps, runs["a"], runs["b"], strict=True):
            if step.asks:
                self.tally.states[a.state] += 1
                self.tally.slower.append(b.seconds - a.seconds)

    def _fault(self, scenario: Scenario, runs: dict[str, Run]) -> Finding | None:
        """What must be on no side: an internal error of PostgreSQL, a server that is gone."""
        for side, run in runs.items():
            for step, seen in zip(scenario.steps, run, strict=True):
                lost = seen.state == "lost" and not scenario.ends_sessions
                if seen.state == "XX000" or lost:
                    return Finding("fault", scenario, f"on side {side}: {seen.shown}")
                if seen.state == "PV004" and "internal error" in str(seen.shown):
                    self.tally.internal[step.text] += 1
        return None

    def _late(self, scenario: Scenario, runs: dict[str, Run]) -> set[tuple[int, str]]:
        """The steps that took longer on one side than is usual on a machine as busy as this is."""
        usual = sorted(map(abs, self.tally.slower[-100:]))
        most = max(_LATE, 10 * usual[len(usual) // 2]) if usual and not scenario.timed else _LATE
        return {(i, "a" if a.seconds > b.seconds else "b")
                for i, (step, a, b) in enumerate(zip(scenario.steps, runs["a"], runs["b"], strict=True))
                if step.asks and abs(a.seconds - b.seconds) > most}

    def _always(self, scenario: Scenario, rng: random.Random, runs: dict[str, Run],
                patience: int = 0) -> Finding | None:
        """Whether what differs does so every time; a time, most times."""
        kept = {side: [run] for side, run in runs.items()}
        finding = None
        for repetition in range(_AGAIN):
            for side, run in self._both(scenario, rng).items():
                kept[side].append(run)
            finding = _apart(scenario, kept)
            if finding is None and repetition >= patience:
                return None
        return finding

    def _smaller(self, finding: Finding | None, rng: random.Random) -> Finding | None:
        """The same with fewer steps, if that shows it as well; some of each kind are enough."""
        if finding is None or sum(f.kind == finding.kind for f in self.tally.findings) > 2:
            return finding
        index = 0
        while index < len(finding.scenario.steps):
            shorter = finding.scenario.without(index)
            kept = any(step.asks for step in shorter.steps)
            less = self._always(shorter, rng, self._both(shorter, rng)) if kept else None
            finding, index = (less, index) if less else (finding, index + 1)
        return finding

    def _values(self, scenario: Scenario, runs: dict[str, Run]) -> Finding | None:
        steps = list(enumerate(scenario.steps))
        answers = [i for i, step in steps if step.answers]
        claims = [i for i, step in steps if step.claims]
        if scenario.plain is None or not answers or not claims:
            return None
        explained = runs["a"][claims[-1]].values
        a, b = (runs[side][answers[-1]].values for side in SIDES)
        claim = claim_of(explained) if explained else None
        keys, number = scenario.plain
        if a is None or b is None or claim is None or len(claim.scale) != number:
            return None
        self.tally.values += 1
        detail = too_far(claim, a, b, keys)
        return Finding("value", scenario, detail) if detail else None


def _differ(runs: dict[str, Run]) -> bool:
    return any(a.compared != b.compared for a, b in zip(runs["a"], runs["b"], strict=True))


def _apart(scenario: Scenario, kept: dict[str, list[Run]]) -> Finding | None:
    """A step that never shows on one side what it shows on the other, or is always slower there."""
    for i, step in enumerate(scenario.steps):
        a, b = ([run[i] for run in kept[side]] for side in SIDES)
        if not {seen.compared for seen in a} & {seen.compared for seen in b}:
            one, other = a[-1], b[-1]
            kind = "notice" if one.shown == other.shown else "shape"
            if "error" in (one.shown[0], other.shown[0]):
                kind = "error"
            return Finding(kind, scenario, f"step {i}\n  "
                           + _first_difference(str(one.compared), str(other.compared)))
        times = [sorted(seen.seconds for seen in run) for run in (a, b)]
        fast, slow = sorted(times, key=min)
        above = sum(x > y for x in slow for y in fast) / len(slow) / len(fast)
        if step.asks and slow[0] > fast[0] + _LATER and above > _MOST:
            spans = [f"{span[0]:.3f} to {span[-1]:.3f} s" for span in times]
            detail = f"step {i}: {spans[0]} on side a, {spans[1]} on side b"
            return Finding("time", scenario, detail)
    return None


def _first_difference(one: str, other: str) -> str:
    """Both texts around it."""
    pairs = enumerate(zip(one, other, strict=False))
    place = next((i for i, (x, y) in pairs if x != y), 0)
    begin = max(0, place - 200)
    return f"a: ...{one[begin:place + 300]}\n  b: ...{other[begin:place + 300]}"
