"""The search for neighbours that a claim does not cover: random pairs, then hill-climbing, all evaluated by PostgreSQL's own executor."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import psycopg

from privid.model import Plan

from .calculus_claims import Claim
from .calculus_grammar import Grammar, Query
from .calculus_mechanisms import Answer, Part, change, collected, public
from .calculus_settled import against_nothing, contradiction
from .calculus_stand import NotOneRelease, Stand
from .calculus_world import TABLES, Pair, World, copy_text, fresh_pair, mutated

__all__ = ["Finding", "Searcher", "Tally"]

@dataclass(frozen=True)
class Finding:
    """A pair that a claim does not cover."""

    query: Query
    pair: Pair
    loss: Fraction
    allowed: Fraction
    why: str

    def __str__(self) -> str:
        lines = [self.why, f"  {self.query.claimed}", f"  loss {self.loss} = {float(min(self.loss, Fraction(10**300))):g}, "
                 f"allowed {self.allowed}",
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
    examples: dict[str, str] = field(default_factory=dict)
    tightest: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    findings: list[str] = field(default_factory=list)
    #: statements of which some neighbour changed the answer; and that show numbers without noise though something is protected
    live: int = 0
    settled: int = 0

    def add(self, other: Tally) -> None:
        self.pairs += other.pairs
        self.live += other.live
        self.settled += other.settled
        for mine, theirs in ((self.drawn, other.drawn), (self.accepted, other.accepted), (self.refusals, other.refusals),
                             (self.failures, other.failures)):
            mine.update(theirs)
        for form, ratio in other.tightest.items():
            self.tightest[form] = max(self.tightest[form], ratio)
        self.examples |= other.examples
        self.findings += other.findings

    def report(self) -> str:
        lines = [f"{self.pairs} pairs, {self.accepted['all']} of {self.drawn['all']} statements accepted, {self.live} changed, "
                 f"{self.settled} settled, {len(self.findings)} violations",
                 f"{'form':<26}{'drawn':>8}{'accepted':>10}{'tightest':>10}"]
        for form, drawn in sorted(self.drawn.items()):
            lines.append(f"{form:<26}{drawn:>8}{100 * self.accepted[form] / drawn:>9.0f}%{self.tightest.get(form, 0.0):>10.3f}")
        lines += [f"  refused {n:>6}  {why}" for why, n in self.refusals.most_common(25)]
        lines += [f"  FAILED {n:>6}  {why}: {self.examples.get(why)}" for why, n in self.failures.most_common(10)]
        return "\n".join(lines)


def levels(select: Any) -> int:
    """How many query levels lie below a serialised one."""
    if "setop" in select:
        return max(levels(select["left"]), levels(select["right"]))
    return max((_from_levels(rel) for rel in select["from"]), default=0)


def _from_levels(rel: Any) -> int:
    if rel["kind"] == "join":
        return max(_from_levels(rel["left"]), _from_levels(rel["right"]))
    if rel["kind"] != "subquery" or [r["kind"] for r in rel["select"].get("from", ())] == ["rows"]:
        return 0  # VALUES with names for its columns is a subquery to PostgreSQL
    return 1 + levels(rel["select"])


class Searcher:
    """Searches one stand, from one seed."""

    #: the chance of rows with ends and oddities of their types, on which the statement itself may raise
    odd = 0.0

    def __init__(self, stand: Stand, seed: int, grammar: Grammar | None = None) -> None:
        self.stand = stand
        stand.engine.room.rehearses = False  # how long a query takes is no matter here
        self.rng = random.Random(seed)
        self.grammar = grammar or Grammar(self.rng, aggregates=(*Grammar.aggregates, "quantile"), extremes=tuple(TABLES))
        self.tally = Tally()

    # Claims

    def claim(self, query: Query) -> Claim | None:
        """What the calculus claims; None when it refuses."""
        forms = {"all", *query.forms}
        self.tally.drawn.update(forms)
        try:
            claim = self.stand.explain(query.claimed)
        except psycopg.Error as error:
            if error.sqlstate not in ("PV001", "PV002", "22023") and not self.is_refusal(error):
                self.failed(error, query.claimed)
            else:
                self.refused(error.diag.message_primary or "")
            return None
        except NotOneRelease:
            self.refused("(another level is the release)")
            return None
        if levels(claim.request["select"]) != query.depth:
            self.tally.refusals["(a lower level is the release)"] += 1
            return None
        self.tally.accepted.update(forms)
        return claim

    def is_refusal(self, error: psycopg.Error) -> bool:
        """Whether an error of PostgreSQL's own is to be expected."""
        return False

    def refused(self, message: str) -> None:
        self.tally.refusals[_kind(message)] += 1

    def failed(self, error: psycopg.Error, statement: str) -> None:
        told = f"{error.sqlstate} {error.diag.message_primary}"
        if told not in self.tally.failures:
            self.tally.examples[told] = statement
        self.tally.failures[told] += 1

    # Truth

    def answers(self, query: Query, columns: Sequence[str], pairs: Sequence[Pair]) -> list[tuple[Answer, Answer]]:
        """Both answers of each pair, by PostgreSQL from the statement itself."""
        connection = self.stand.truth
        with connection.transaction():
            first = self.stand.new_worlds(2 * len(pairs))
            for table in query.tables:
                site = TABLES[table]
                text = "".join(copy_text(site, first + 2 * i + side, world[table])
                               for i, pair in enumerate(pairs) for side, world in enumerate((pair.before, pair.after)))
                with connection.cursor() as cursor, cursor.copy(f"COPY truth_{table} FROM STDIN".encode()) as copy:
                    copy.write(text)
            # as the type's output function writes them, which is what keys are compared with
            shown = [*(f"CASE WHEN q.k{i} IS NOT NULL THEN format('%s', q.k{i}) END" for i in range(len(query.keys))),
                     *(f"q.c{i}" for i in range(len(columns)))]
            worlds = f"generate_series({first}, {first + 2 * len(pairs) - 1}) AS z(world)"
            rows = connection.execute(f"SELECT {', '.join(['z.world', *shown])} FROM {worlds} "
                                      f"CROSS JOIN LATERAL ({query.true(columns)}) AS q".encode()).fetchall()
        found: list[Answer] = [{} for _ in range(2 * len(pairs))]
        keys = 1 + len(query.keys)
        for row in rows:
            found[row[0] - first][row[1:keys]] = row[keys:]
        return [(found[2 * i], found[2 * i + 1]) for i in range(len(pairs))]

    def evaluated(self, query: Query, claim: Claim, columns: Sequence[str], pairs: Sequence[Pair]) -> list[tuple[Answer, Answer]]:
        """What the room evaluates; what is said to be public, and so evaluated nowhere, by the statement itself."""
        if not claim.plan.computes or any(output.public is not None for output in claim.plan.outputs):
            return self.answers(query, columns, pairs)
        return self.stand.inner.answers(claim, pairs)

    def unsettled(self, query: Query, claim: Claim) -> Finding | None:
        """Some rows of which a number without noise is not what the engine takes it for: what it is of no rows."""
        if not claim.plan.settled:
            return None
        self.tally.settled += 1
        pairs = [against_nothing(fresh_pair(self.rng, query.tables, self.odd)) for _ in range(8)]
        for pair, (one, other) in zip(pairs, self.stand.inner.answers(claim, pairs), strict=True):
            try:
                why = contradiction(claim.plan, one, other)
            except ValueError as error:  # what was collected is not what was judged
                why = f"no answer can be made of what is collected: {error}"
            if why is not None:
                return Finding(query, pair, Fraction(0), Fraction(0), why)
        return None

    # Search

    def search(self, query: Query, claim: Claim, fresh: int = 24, rounds: int = 4, size: int = 20) -> Finding | None:
        """Random neighbours, then mutants of those that came closest to what is allowed."""
        columns = collected(claim.plan, query)
        pairs = [fresh_pair(self.rng, query.tables, self.odd) for _ in range(fresh)]
        best: list[tuple[float, Pair]] = []
        for turn in range(rounds + 1):
            for pair, (one, other) in zip(pairs, self.evaluated(query, claim, columns, pairs), strict=True):
                self.tally.pairs += 1
                finding, ratio = self._judge(query, claim, pair, one, other)
                if finding is not None:
                    return finding
                best.insert(0, (ratio, pair))  # of equals the newest: a plateau is crossed
            best = sorted(best, key=lambda item: -item[0])[:5]
            if turn == rounds or not best:
                break
            pairs = [mutated(self.rng, self.rng.choice(best)[1], query.tables, self.odd) for _ in range(size)]
        for form in ("all", *query.forms):
            self.tally.tightest[form] = max(self.tally.tightest[form], best[0][0] if best else 0.0)
        return None

    def changed(self, one: Answer, other: Answer, part: Part) -> Fraction:
        return change(one, other, part)

    def _judge(self, query: Query, claim: Claim, pair: Pair, one: Answer, other: Answer) -> tuple[Finding | None, float]:
        """Whether the pair is covered, and how near it comes."""
        plan, loss = claim.plan, Fraction(0)
        if "keys: listed" in query.forms:  # those of keys without a match have no cell, and are in no answer
            one, other = ({key: row for key, row in answer.items() if key in plan.keys or None not in key} for answer in (one, other))
        if strange := {*one, *other} - set(plan.keys):
            return Finding(query, pair, Fraction(0), Fraction(0), f"a key that is not in the answer: {strange}"), 1.0
        for output, values in public(plan):
            for world, answer in ((pair.before, one), (pair.after, other)):
                wrong = values.contradicted(answer, full=_full(plan, world))
                if wrong is not None:
                    return Finding(query, pair, Fraction(0), Fraction(0), f"{output.label}, said to be public: {wrong}"), 1.0
        if one == other:
            return None, 0.0
        for output, pieces in zip(plan.outputs, claim.noisy, strict=True):
            for part in pieces:
                changed = self.changed(one, other, part)
                if changed and not part.scale:
                    return Finding(query, pair, changed, Fraction(0), f"{output.label} changed, without noise"), 1.0
                if len(pieces) == 1 and changed > output.sensitivity:
                    return Finding(query, pair, changed, output.sensitivity, f"{output.label}: more than the sensitivity shown"), 1.0
                loss += changed / part.scale if changed else 0
        whole, allowed = claim.allows(pair.camera, pair.first)
        if loss > allowed:
            why = "more than epsilon / K" if loss > whole else "more than is charged where the segment is"
            return Finding(query, pair, loss, allowed, why), 1.0
        return None, float(loss / allowed) if allowed else 0.0

    def run(self, pairs: int, **options: int) -> Tally:
        """Until so many pairs have been compared."""
        goal = self.tally.pairs + pairs
        while self.tally.pairs < goal:
            query = self.grammar.release()
            claim = self.claim(query)
            if claim is None:
                continue
            try:
                if (found := self.unsettled(query, claim)) is not None:
                    self.tally.findings.append(str(found))
                    continue
                # some statements are searched much longer
                finding = self.search(query, claim, **(options or {"rounds": 25 if self.rng.random() < 0.1 else 4}))
            except psycopg.Error as error:
                if self.stand.engine.room.refuses(claim):
                    self.tally.refusals["(PostgreSQL cannot plan it)"] += 1
                else:
                    self.failed(error, query.true())
                continue
            if finding is not None:
                self.tally.findings.append(str(self.minimised(finding, claim)))
        return self.tally

    def collected(self, query: Query, claim: Claim) -> list[str]:
        """The columns of the inner query, for those who evaluate the statement itself."""
        return collected(claim.plan, query)

    def minimised(self, finding: Finding, claim: Claim) -> Finding:
        """The same violation with as few rows as can be found quickly."""
        columns = self.collected(finding.query, claim)
        smaller = True
        while smaller:
            smaller = False
            for pair in _reductions(finding.pair):
                one, other = self.evaluated(finding.query, claim, columns, [pair])[0]
                found, _ = self._judge(finding.query, claim, pair, one, other)
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
                found.append(replace(pair, before=_without(pair.before, table, j, ()), after=_without(pair.after, table, j, ())))
            elif one != other:
                found += [replace(pair, before=_without(pair.before, table, j, one[:-1]))] if one else []
                found += [replace(pair, after=_without(pair.after, table, j, other[:-1]))] if other else []
    return found


def _without(world: Any, table: str, chunk: int, rows: Any) -> Any:
    return {**world, table: (*world[table][:chunk], tuple(rows), *world[table][chunk + 1:])}


def _full(plan: Plan, world: World) -> bool:
    """Whether everything that is read has rows."""
    return all(world[use.table.name][chunk * len(use.table.region_names) + region] for use in plan.uses for chunk, region in use.runs())


def _kind(message: str) -> str:
    """A refusal without the particulars."""
    for word in ("has no rule", "cannot"):
        if word in message:
            before, _, after = message.partition(word)
            return f"{before.split('(')[0].strip().split(' ')[0]} … {word}{after}"[:100]
    return message[:100]
