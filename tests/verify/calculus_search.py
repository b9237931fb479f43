"""The search for neighbours that a claim does not cover: random pairs, then hill-climbing, all evaluated by PostgreSQL's own executor."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import psycopg

from privid.ledger.steps import Step, Use, shares
from privid.model import Plan

from .calculus_grammar import Grammar, Query
from .calculus_stand import Claim, NotOneRelease, Stand
from .calculus_world import CAMERAS, TABLES, Pair, copy_text, fresh_pair, mutated

__all__ = ["Finding", "Searcher", "Tally"]

#: key -> what is collected for it
Answer = dict[tuple[Any, ...], tuple[Any, ...]]


@dataclass(frozen=True)
class Noised:
    """One number per key that noise is added to: a combination of collected columns, and the scale of its noise."""

    terms: tuple[tuple[int, Fraction], ...]
    scale: Fraction


@dataclass(frozen=True)
class Finding:
    """A pair that a claim does not cover."""

    query: Query
    pair: Pair
    loss: Fraction
    allowed: Fraction
    why: str

    def __str__(self) -> str:
        lines = [self.why, f"  {self.query.claimed}", f"  loss {self.loss} = {float(self.loss):g}, allowed {self.allowed}",
                 f"  segment of {self.pair.camera} at frame {self.pair.first}"]
        for table in self.query.tables:
            for j, (one, other) in enumerate(zip(self.pair.before[table], self.pair.after[table], strict=True)):
                if one or other:
                    lines.append(f"  {table}[{j}] {_rows(one)}" + (f" -> {_rows(other)}" if one != other else ""))
        return "\n".join(lines)


def _rows(rows: Sequence[Any]) -> str:
    return "{" + ", ".join("(" + " ".join(map(str, row)) + ")" for row in rows) + "}"


@dataclass
class Tally:
    """What a search has seen."""

    pairs: int = 0
    drawn: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    tightest: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    findings: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.pairs += other.pairs
        for mine, theirs in ((self.drawn, other.drawn), (self.accepted, other.accepted), (self.refusals, other.refusals),
                             (self.failures, other.failures)):
            mine.update(theirs)
        for form, ratio in other.tightest.items():
            self.tightest[form] = max(self.tightest[form], ratio)
        self.findings += other.findings

    def report(self) -> str:
        lines = [f"{self.pairs} pairs, {self.accepted['all']} of {self.drawn['all']} statements accepted, {len(self.findings)} violations",
                 f"{'form':<26}{'drawn':>8}{'accepted':>10}{'tightest':>10}"]
        for form, drawn in sorted(self.drawn.items()):
            lines.append(f"{form:<26}{drawn:>8}{100 * self.accepted[form] / drawn:>9.0f}%{self.tightest.get(form, 0.0):>10.3f}")
        lines += [f"  refused {n:>6}  {why}" for why, n in self.refusals.most_common(25)]
        lines += [f"  FAILED {n:>6}  {why}" for why, n in self.failures.most_common(10)]
        return "\n".join(lines)


def noised(plan: Plan, query: Query) -> tuple[list[str], list[Noised]]:
    """What the inner query collects, and which combinations of it get noise of which scale."""
    if len(plan.outputs) != len(query.aggs):
        raise RuntimeError(f"{len(plan.outputs)} outputs of {query.claimed}")
    columns = [a.sql() for a in query.aggs]
    return columns, [Noised(((i, Fraction(1)),), o.scale) for i, o in enumerate(plan.outputs)]


def levels(select: Any) -> int:
    """How many query levels lie below a serialised one."""
    if "setop" in select:
        return max(levels(select["left"]), levels(select["right"]))
    return max((_from_levels(rel) for rel in select["from"]), default=0)


def _from_levels(rel: Any) -> int:
    if rel["kind"] == "join":
        return max(_from_levels(rel["left"]), _from_levels(rel["right"]))
    return 1 + levels(rel["select"]) if rel["kind"] == "subquery" else 0


class Searcher:
    """Searches one stand, from one seed."""

    def __init__(self, stand: Stand, seed: int, grammar: Grammar | None = None) -> None:
        self.stand = stand
        self.rng = random.Random(seed)
        self.grammar = grammar or Grammar(self.rng)
        self.tally = Tally()

    # Claims

    def claim(self, query: Query) -> Claim | None:
        """What the calculus claims; None when it refuses."""
        forms = {"all", *query.forms}
        self.tally.drawn.update(forms)
        try:
            claim = self.stand.explain(query.claimed)
        except psycopg.Error as error:
            if error.sqlstate not in ("PV001", "PV002", "22023"):
                self.tally.failures[f"{error.sqlstate} {error.diag.message_primary} | {query.claimed}"] += 1
            self.tally.refusals[_kind(error.diag.message_primary or "")] += 1
            return None
        except NotOneRelease:
            self.tally.refusals["(another level is the release)"] += 1
            return None
        if levels(claim.request["select"]) != query.depth:
            self.tally.refusals["(a lower level is the release)"] += 1
            return None
        self.tally.accepted.update(forms)
        return claim

    # Truth

    def answers(self, query: Query, columns: Sequence[str], pairs: Sequence[Pair]) -> list[tuple[Answer, Answer]]:
        """Both answers of each pair, by PostgreSQL."""
        connection = self.stand.truth
        with connection.transaction():
            first = self.stand.new_worlds(2 * len(pairs))
            for table in query.tables:
                site = TABLES[table]
                text = "".join(copy_text(site, first + 2 * i + side, world[table])
                               for i, pair in enumerate(pairs) for side, world in enumerate((pair.before, pair.after)))
                with connection.cursor() as cursor, cursor.copy(f"COPY truth_{table} FROM STDIN".encode()) as copy:
                    copy.write(text)
            rows = connection.execute(f"SELECT z.world, q.* FROM generate_series({first}, {first + 2 * len(pairs) - 1}) AS z(world) "
                                      f"CROSS JOIN LATERAL ({query.true(columns)}) AS q".encode()).fetchall()
        found: list[Answer] = [{} for _ in range(2 * len(pairs))]
        keys = 1 + len(query.keys)
        for row in rows:
            found[row[0] - first][row[1:keys]] = row[keys:]
        return [(found[2 * i], found[2 * i + 1]) for i in range(len(pairs))]

    # Search

    def search(self, query: Query, claim: Claim, fresh: int = 24, rounds: int = 4, size: int = 20) -> Finding | None:
        """Random neighbours, then mutants of those that came closest to what is allowed."""
        plan = claim.plan
        columns, numbers = noised(plan, query)
        costs = {camera: _costs(plan, camera) for camera in CAMERAS}
        pairs = [fresh_pair(self.rng, query.tables) for _ in range(fresh)]
        best: list[tuple[float, Pair]] = []
        for turn in range(rounds + 1):
            for pair, (one, other) in zip(pairs, self.answers(query, columns, pairs), strict=True):
                self.tally.pairs += 1
                finding, ratio = self._judge(query, claim, pair, one, other, numbers, costs[pair.camera])
                if finding is not None:
                    return finding
                best.append((ratio, pair))
            best = sorted(best, key=lambda item: -item[0])[:5]
            if turn == rounds or not best or best[0][0] >= 1:
                break
            pairs = [mutated(self.rng, self.rng.choice(best)[1], query.tables) for _ in range(size)]
        for form in ("all", *query.forms):
            self.tally.tightest[form] = max(self.tally.tightest[form], best[0][0] if best else 0.0)
        return None

    def _judge(self, query: Query, claim: Claim, pair: Pair, one: Answer, other: Answer, numbers: Sequence[Noised],
               costs: list[Step]) -> tuple[Finding | None, float]:
        """Whether the pair is covered, and how near it comes."""
        plan = claim.plan
        changes = [_change(one, other, number) for number in numbers]
        loss = Fraction(0)
        for number, change in zip(numbers, changes, strict=True):
            if change and not number.scale:
                return Finding(query, pair, change, Fraction(0), "a number without noise changed"), 1.0
            loss += change / number.scale if change else 0
        k = CAMERAS[pair.camera].k
        whole = plan.epsilon / k
        allowed = whole * next((share for lo, hi, share in costs if lo <= pair.first < hi), Fraction(0))
        if loss > allowed:
            why = "more than epsilon / K" if loss > whole else "more than is charged where the segment is"
            return Finding(query, pair, loss, allowed, why), 1.0
        if len(numbers) == len(plan.outputs):
            for output, change in zip(plan.outputs, changes, strict=True):
                if change > output.sensitivity:
                    return Finding(query, pair, change, output.sensitivity, "more than the sensitivity shown"), 1.0
        return None, float(loss / whole) if whole else 0.0

    def run(self, pairs: int, **options: int) -> Tally:
        """Until so many pairs have been compared."""
        goal = self.tally.pairs + pairs
        while self.tally.pairs < goal:
            query = self.grammar.release()
            claim = self.claim(query)
            if claim is None:
                continue
            try:
                finding = self.search(query, claim, **options)
            except psycopg.Error as error:
                self.tally.failures[f"{error.sqlstate} {error.diag.message_primary} | {query.true()}"] += 1
                continue
            if finding is not None:
                self.tally.findings.append(str(self.minimised(finding, claim)))
        return self.tally

    def minimised(self, finding: Finding, claim: Claim) -> Finding:
        """The same violation with as few rows as can be found quickly."""
        columns, numbers = noised(claim.plan, finding.query)
        costs = _costs(claim.plan, finding.pair.camera)
        smaller = True
        while smaller:
            smaller = False
            for pair in _reductions(finding.pair):
                one, other = self.answers(finding.query, columns, [pair])[0]
                found, _ = self._judge(finding.query, claim, pair, one, other, numbers, costs)
                if found is not None:
                    finding, smaller = found, True
                    break
        return finding


def _reductions(pair: Pair) -> list[Pair]:
    found = []
    for table in pair.before:
        if TABLES[table].pad:
            continue
        for j, (one, other) in enumerate(zip(pair.before[table], pair.after[table], strict=True)):
            if one == other and one:
                found.append(Pair(pair.camera, pair.first, _without(pair.before, table, j, ()), _without(pair.after, table, j, ())))
            elif one != other:
                found += [Pair(pair.camera, pair.first, _without(pair.before, table, j, one[:-1]), pair.after)] if one else []
                found += [Pair(pair.camera, pair.first, pair.before, _without(pair.after, table, j, other[:-1]))] if other else []
    return found


def _without(world: Any, table: str, chunk: int, rows: Any) -> Any:
    return {**world, table: (*world[table][:chunk], tuple(rows), *world[table][chunk + 1:])}


def _costs(plan: Plan, camera: str) -> list[Step]:
    """The share of epsilon that is charged, by the first frame of a segment."""
    uses = [use for use in plan.uses if use.table.camera.name == f"verify_{camera}" and use.chunks]
    frames = CAMERAS[camera].frames
    if plan.linear and uses:
        exact = shares([Use.of(use.table.grid, use.chunks, frames) for use in uses], 0, frames)
        if exact is not None:
            return exact
    return [(lo - frames + 1, hi, Fraction(1)) for use in uses for lo, hi in use.frame_spans()]


def _change(one: Answer, other: Answer, number: Noised) -> Fraction:
    """By how much a number changes, over all keys together; a key that is missing counts 0."""
    total = Fraction(0)
    for key in {*one, *other}:
        a, b = one.get(key), other.get(key)
        if a != b:
            total += abs(sum(((_value(a, i) - _value(b, i)) * factor for i, factor in number.terms), Fraction(0)))
    return total


def _value(row: tuple[Any, ...] | None, i: int) -> Fraction:
    return Fraction(row[i]) if row is not None and row[i] is not None else Fraction(0)


def _kind(message: str) -> str:
    """A refusal without the particulars."""
    for word in ("has no rule", "cannot"):
        if word in message:
            before, _, after = message.partition(word)
            return f"{before.split('(')[0].strip().split(' ')[0]} … {word}{after}"[:100]
    return message[:100]
