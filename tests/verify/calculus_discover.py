"""The search that is not told where to look: statements made from the allow-list, on all values.

Every function, operator and cast that a release may contain is drawn, over every type, nested, in every
place where an expression may stand; rows have the ends and oddities of their types, and the constants of
the statement. What the room evaluates, and what a release would show of it, is compared with the claim.

Statements that were accepted and have something new (a call in a place, rules together that few had, a
way through the calculus that few took) are kept, and others are made of them by drawing a part anew, of
those more often that have what is seldom. So are statements that were refused where few are: what the
calculus overlooks lies next to what it refuses.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import Any

import psycopg

from privid.calculus.functions import names
from privid.errors import PrividError
from privid.udf import noise

from .calculus_claims import Claim
from .calculus_grammar import Query
from .calculus_kept import Kept, features_of
from .calculus_levels import Levels
from .calculus_mechanisms import Answer, collected
from .calculus_paths import Way, walk
from .calculus_search import Finding, Searcher, Tally
from .calculus_stand import NotOneRelease, Stand, own_postgres
from .calculus_tape import Part, Recording, Tape
from .calculus_world import Pair, Words, World, fresh_pair, mutated
from .statements_calls import read_calls

__all__ = ["Discovery", "Rows", "main"]

Rows = list[Sequence[str | None]]
#: in the place of an answer that PostgreSQL could not be asked for: nothing is compared with it
_UNSEEN: Answer = {}
#: how often the session moves, and where to: zones with odd offsets, with a day that is missing, and by rules
_MOVES = 0.003
_ZONES = ("UTC", "UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kathmandu", "Pacific/Apia", "<AAA>-9:30<BBB>-11,J60/2,J300/2")
#: pairs of a statement at first, and of each further round from those that came nearest
_FIRST, _ROUND = 12, 12
#: rounds at most
_ROUNDS = 40
#: who has come so near a claim is followed so much longer
_NEAR, _LONGER = 0.9, 3
#: of so many statements it is known which way they take through the calculus, which takes longer than to judge them
_WALKED = 0.2

#: productions that change what a statement is more than others do
_OFTEN = {"relation": 4, "aggregate": 4, "condition": 2, "value": 2}

_INLINED = """
    SELECT a.identity FROM privid.allowed_calls() a JOIN pg_catalog.pg_proc p ON p.oid = to_regprocedure(a.identity)
    JOIN pg_catalog.pg_language l ON l.oid = p.prolang WHERE a.kind = 'function' AND l.lanname = 'sql'"""


class Discovery(Searcher):
    """Searches, and keeps which entries of the list accepted statements had."""

    odd = 0.3

    def __init__(self, stand: Stand, seed: int) -> None:
        super().__init__(stand, seed)
        self.calls = read_calls(stand.claims)
        self.tape = Tape(seed)
        self.levels = Levels(self.tape, self.calls)
        self.met: set[str] = set()
        #: calls in the place of which PostgreSQL puts what they are defined as
        self._inlined = {identity for (identity,) in stand.claims.execute(_INLINED)}
        #: statements that were accepted, and some that were refused
        self.kept, self.nearly = Kept(self.rng), Kept(self.rng)
        self.way = Way()

    # Statements

    def run(self, pairs: int, **_: int) -> Tally:
        """Until so many pairs have been compared."""
        goal = self.tally.pairs + pairs
        while self.tally.pairs < goal:
            if self.rng.random() < _MOVES:
                self.stand.set_zone(self.rng.choice(_ZONES))
            query = self.draw()
            claim = self.claim(query)
            new = self.levels.typed.met.note(self.levels.typed.used, claim is not None)
            if claim is None:
                if self.nearly.note(self.way.steps):
                    self.nearly.keep(self.tape.recorded(), self.way.steps)
                continue
            if not claim.plan.computes and any(output.public is None for output in claim.plan.outputs):
                continue  # no chunk is chosen: nothing is evaluated, and nothing can change
            features = features_of(claim.plan.derivation, claim.request["select"], query.forms) | self.way.steps
            seldom = self.kept.note(features)
            try:
                if (found := self.unsettled(query, claim)) is not None:
                    self.tally.findings.append(str(found))
                    continue
                finding, nearest = self.look(query, claim, seldom)
            except psycopg.Error as error:
                if not self.stand.engine.room.refuses(claim):
                    self.failed(error, query.claimed)
                continue
            if finding is not None:
                self.tally.findings.append(str(self.minimised(finding, claim)))
            self.tally.live += nearest > 0 or not claim.plan.epsilon
            if finding is None and (new or seldom) and (nearest or not claim.plan.epsilon):
                self.kept.keep(self.tape.recorded(), features)
        return self.tally

    def draw(self) -> Query:
        """A statement from nothing, or one that was kept with a part drawn anew, or put there from another."""
        if self.rng.random() < max(0.5, 1 - len(self.kept) / 150):
            self.tape.begin()
            return self.levels.release()
        base = (self.nearly if len(self.nearly) and self.rng.random() < 0.15 else self.kept).choose()
        self.tape.play(base, dict(self._exchanged(base) for _ in range(self.rng.choice((1, 1, 1, 2)))))
        return self.levels.release()

    def _exchanged(self, base: Recording) -> tuple[Part, Sequence[float] | None]:
        """A part, and what takes its place; None: what is drawn then."""
        kinds = sorted({part.kind for part in base.parts} - {"release"})
        kind = self.rng.choices(kinds, [_OFTEN.get(kind, 1) for kind in kinds])[0]
        part = self.rng.choice([part for part in base.parts if part.kind == kind])
        if self.rng.random() < 0.7:
            return part, None
        other = self.kept.any()
        same = [one for one in other.parts if one.kind == kind]
        return part, other.of(self.rng.choice(same)) if same else None

    def claim(self, query: Query) -> Claim | None:
        """What the calculus claims, of whichever level it takes for the release; None when it refuses."""
        forms = {"all", *query.forms}
        self.tally.drawn.update(forms)
        try:
            found = self.explained(query)
        except psycopg.Error as error:
            if error.sqlstate not in ("PV001", "PV002") and (error.sqlstate or "")[:2] not in ("22", "42", "0A"):
                self.failed(error, query.claimed)
            self.refused(error.diag.message_primary or "")
            return None
        except NotOneRelease:
            self.refused("(none, or several releases)")
            return None
        finally:
            self.way = walk(self._again) if self.rng.random() < _WALKED else Way()
        self.tally.accepted.update(forms)
        self.met |= set(_identities(found.request["select"])) | {call for call, _ in self.levels.typed.used if call in self._inlined}
        return found

    def explained(self, query: Query) -> Claim:
        return self.stand.explain(query.claimed)

    def candidates(self) -> Iterator[dict[str, Any]]:
        """The levels of the last statement that may be the release, outermost first, as they came from the library."""
        bodies = list(self.stand.engine.bodies)
        for kind, body in bodies:
            if kind == "T" and body.get("candidate", {}).get("select") is not None:
                yield {**body, "select": body["candidate"]["select"]}
        for kind, body in bodies:
            if kind == "X":
                yield body

    def _again(self) -> None:
        """Judges the last statement once more."""
        for body in self.candidates():
            with suppress(PrividError):
                self.stand.engine.judge.judge(body)
                return

    # Neighbours

    def look(self, query: Query, claim: Claim, seldom: bool) -> tuple[Finding | None, float]:
        """Random neighbours, then some near those that changed most; and how near the claim that came."""
        words, tables, rounds = Words.of(query.claimed), query.tables, self.rounds(seldom)
        pairs = [fresh_pair(self.rng, tables, self.odd, words) for _ in range(self.first)]
        best: list[tuple[float, Pair]] = []
        before, idle = 0.0, 0
        for _ in range(_ROUNDS + 1):
            self.tally.pairs += len(pairs)
            for pair, (finding, ratio) in zip(pairs, self.rated(query, claim, pairs), strict=True):
                if finding is not None:
                    return finding, 1.0
                best.insert(0, (ratio, pair))  # of equals the newest: a plateau is crossed
            best = sorted(best, key=lambda item: -item[0])[:4]
            idle = 0 if best[0][0] > before else idle + 1  # what comes nearer is followed, and longer what has come near
            before = best[0][0]
            if idle >= rounds * (_LONGER if before >= _NEAR else 1) or not claim.plan.computes or self.enough(before) or (
                    claim.plan.epsilon and not before and self.rng.random() < 0.8):
                break  # what never changes is left early
            pairs = [mutated(self.rng, self.rng.choice(best)[1], tables, self.odd, words) if self.rng.random() < 0.8 else
                     fresh_pair(self.rng, tables, self.odd, words) for _ in range(_ROUND)]
        for form in ("all", *query.forms):
            self.tally.tightest[form] = max(self.tally.tightest[form], best[0][0] if best else 0.0)
        return None, best[0][0] if best else 0.0

    def rounds(self, seldom: bool) -> int:
        """After so many that come no nearer, a statement is left."""
        return 3 if seldom else 2

    @property
    def first(self) -> int:
        """Pairs of a statement before it is known how near they come."""
        return _FIRST

    def rated(self, query: Query, claim: Claim, pairs: Sequence[Pair]) -> list[tuple[Finding | None, float]]:
        """Of each pair, whether the claim covers it, and how near it comes."""
        return self.compared(query, claim, pairs, self.both(query, claim, pairs))

    def compared(self, query: Query, claim: Claim, pairs: Sequence[Pair],
                 answers: Sequence[tuple[Answer, Answer]]) -> list[tuple[Finding | None, float]]:
        return [self._judge(query, claim, pair, one, other) for pair, (one, other) in zip(pairs, answers, strict=True)]

    def enough(self, ratio: float) -> bool:
        """Whether to leave a statement: who has come as near as a claim allows does not come nearer, mostly."""
        return ratio >= 1 and self.rng.random() < 0.8

    def both(self, query: Query, claim: Claim, pairs: Sequence[Pair]) -> list[tuple[Answer, Answer]]:
        """What the room evaluates. What is said to be public is evaluated nowhere: then the statement itself, where that can be."""
        if all(output.public is None for output in claim.plan.outputs):
            try:
                return self.stand.inner.answers(claim, pairs)
            except psycopg.DataError:  # a trusted condition may raise on chunks that are not read, of which a release has no rows
                return self.stand.inner.answers(claim, [replace(pair, before=_read(claim, pair.before), after=_read(claim, pair.after))
                                                        for pair in pairs])
        if not (claim.whole and _is_level(claim.request["select"], query)):
            return [(_UNSEEN, _UNSEEN) for _ in pairs]
        try:
            return self.answers(query, collected(claim.plan, query), pairs)
        except psycopg.DataError:  # rows on which the statement, unlike the room's version of it, raises
            return [(_UNSEEN, _UNSEEN) for _ in pairs]

    def collected(self, query: Query, claim: Claim) -> list[str]:
        return []  # the room's own

    def evaluated(self, query: Query, claim: Claim, columns: Sequence[str], pairs: Sequence[Pair]) -> list[tuple[Answer, Answer]]:
        return self.both(query, claim, pairs)

    def _judge(self, query: Query, claim: Claim, pair: Pair, one: Answer, other: Answer) -> tuple[Finding | None, float]:
        """Also what a release would show: the same rows in the same order, and the same texts where there is no noise."""
        if one is _UNSEEN:
            return None, 0.0
        found, ratio = super()._judge(query, claim, pair, one, other)
        if found is None and one != other and claim.plan.argmax is None and all(o.public is None for o in claim.plan.outputs):
            try:
                shown = [self.shown(claim, answer) for answer in (one, other)]
            except ValueError as error:  # what was collected is not what was judged
                return Finding(query, pair, Fraction(0), Fraction(0), f"no answer can be made of what is collected: {error}"), 1.0
            if shown[0] != shown[1]:
                return Finding(query, pair, Fraction(0), Fraction(0), f"what is shown without noise: {shown[0]} and {shown[1]}"), 1.0
        return found, ratio

    def shown(self, claim: Claim, answer: Answer) -> Rows:
        """What a release shows of an answer but for what has noise."""
        return _shown(claim, answer)

    def covered(self) -> tuple[int, list[str]]:
        """How many entries of the list there are, and those that no accepted statement had."""
        listed = {f"{c.schema}.{c.name}({','.join(c.types)})" if c.kind != "cast" else f"cast({c.types[0]},{c.result})"
                  for calls in (*self.calls.allowed.values(), self.calls.aggregates) for c in calls}
        return len(listed), sorted(listed - self.met)


def _shown(claim: Claim, answer: Answer) -> Rows:
    """The rows of a release, made as the engine makes them, but for what has noise, which is left out."""
    exact = [not (o.scale or any(o.scales)) for o in claim.plan.outputs]
    nothing = (None,) * len(claim.plan.keys)
    bare = tuple(output if shows else replace(output, public=nothing) for output, shows in zip(claim.plan.outputs, exact, strict=True))
    plan = replace(claim.plan, outputs=bare)
    rows, _ = noise.answer(plan, [(*key, *values) for key, values in answer.items()])
    keys = len(plan.keys[0]) if plan.keys else 0
    return [(*row[:keys], *(text for text, shows in zip(row[keys:], exact, strict=True) if shows)) for row in rows]


def _read(claim: Claim, world: World) -> World:
    """Of the chunks that a release reads."""
    runs: dict[str, set[int]] = {}
    for use in claim.plan.uses:
        runs.setdefault(use.table.name, set()).update(chunk * len(use.table.region_names) + region for chunk, region in use.runs())
    return {table: tuple(rows if number in runs.get(table, ()) else () for number, rows in enumerate(all_runs))
            for table, all_runs in world.items()}


def _is_level(select: Any, query: Query) -> bool:
    """Whether what is released has the keys and aggregates that the statement shows, and is no level below it."""
    aggs = [names(agg["name"])[1] for agg in select["aggs"]]
    return len(select.get("group") or ()) == len(query.keys) and aggs == [agg.fn for agg in query.aggs]


def _identities(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("fn"), str):
            yield node["fn"]
        for aggregate in node.get("aggs", ()) if isinstance(node.get("aggs"), list) else ():
            yield aggregate["name"]
        for value in node.values():
            yield from _identities(value)
    elif isinstance(node, list):
        for value in node:
            yield from _identities(value)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    begun = time.monotonic()
    with own_postgres() as layout:
        stand = Stand(layout)
        try:
            search, told = Discovery(stand, options.seed), 0
            with suppress(KeyboardInterrupt):
                while search.tally.pairs < options.pairs:
                    search.run(min(20_000, options.pairs - search.tally.pairs))
                    listed, missing = search.covered()
                    for finding in search.tally.findings[told:]:
                        print(f"\nVIOLATION: {finding}", flush=True)
                    told = len(search.tally.findings)
                    print(f"{search.tally.pairs:>9} pairs, {search.tally.accepted['all']} of {search.tally.drawn['all']} statements, "
                          f"{len(search.tally.findings)} violations, {100 - 100 * len(missing) / listed:.1f} % of the list, "
                          f"{time.monotonic() - begun:.0f} s", flush=True)
            listed, missing = search.covered()
        finally:
            stand.close()
    print(search.tally.report())
    print(f"not met: {', '.join(missing) or 'nothing'}")
    return 1 if search.tally.findings or search.tally.failures or missing else 0


if __name__ == "__main__":
    sys.exit(main())
