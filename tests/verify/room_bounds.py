"""Random accepted statements over the worst rows known: none takes more than half of its bound.

Bounds have a margin of four for a busy machine. What is compared is the processor time of the
backend in the room, so that a statement which takes more than half of its bound has used up twice
what the bound has for it: it is told as a finding, and `make verify` fails. With --without a check
is taken out, and the search must find that.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from privid.calculus import expressions, reader
from privid.room import bounds, calls, plans, premises, sources, values
from privid.room.space import RESERVE
from privid.room.values import Values

from .room_bounds_grammar import BoundsGrammar, drawn_fills
from .room_bounds_stand import Ran, Refused, Trial, own_trial
from .statements_calls import read_calls

__all__ = ["SCARCE", "WITHOUT", "Found", "main", "search", "without"]

#: the share of the bound that nothing may take, the margin for a busy machine not being counted
MOST = 0.5
#: below this a share says nothing: it is the parts of a bound that are the same for all
LEAST = 0.010
#: bytes that a backend has beside what its rows need: buffers, catalogs, the statement itself; they are kept free in any case
OTHER = RESERVE
#: of hash tables, in parts of what is sorted at once: 2 MB, so that few rows do not fit
SCARCE = 8


def is_finding(ran: Ran) -> bool:
    """Did it take too long, too much memory or disk, split what it joins into ever more files, or ask the engine for rows again and
    again?"""
    return (ran.again > 0 or ran.split > 0 or (ran.share > MOST and ran.seconds > LEAST) or ran.memory > ran.most_memory + OTHER
            or ran.files > ran.most_files)


@dataclass
class Found:
    """What the search has seen."""

    ran: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    #: statement with the kind of its rows
    findings: list[tuple[str, Ran]] = field(default_factory=list)
    nearest: list[tuple[str, Ran]] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, name: str, ran: Ran) -> None:
        self.ran += 1
        self.seconds += ran.seconds
        self.nearest = sorted([*self.nearest, (name, ran)], key=lambda one: -one[1].share)[:10]
        if is_finding(ran):
            self.findings.append((name, ran))

    def report(self) -> str:
        worst = self.nearest[0][1].share if self.nearest else 0
        return (f"{self.ran} runs, {self.refused.total()} refused, {self.seconds:.1f} s computed, the "
                f"nearest took {worst:.3f} of its bound, {len(self.findings)} findings")


# Checks that can be taken out


def _looks_up_anything(self: Values, expr: Any) -> bool:
    return "=(" in expr.fn or "<>(" in expr.fn


def _any_equality(fn: str) -> bool:
    return fn.startswith("pg_catalog.=(")


#: by name: what is put in the place of what
WITHOUT: Mapping[str, list[tuple[Any, str, Any]]] = {
    "joins": [(plans, "_check_nested", lambda node, count: None),
              (sources.Sources, "_paired", lambda self, found, *others: found)],
    "types": [(sources, "has_hash", _any_equality),
              (sources.Sources, "_paired", lambda self, found, *others: found)],
    "lists": [(Values, "_looks_up", _looks_up_anything)],
    "texts": [(reader, "MAX_LITERAL", 1 << 30), (reader, "MAX_ROW", 1 << 30), (expressions, "_UNITS", frozenset()),
              (values, "check_sizes", lambda *_: None),
              (calls, "CALLS", {**calls.CALLS, "pg_catalog.extract(text,interval)": calls._fixed(500)})],
    "memory": [(values, "held", lambda *_: 0)],
    "batches": [(premises.Room, "holding", lambda self, bytes_: self)],
    "states": [(bounds, "states", lambda *_: 0)],
}


@contextmanager
def without(name: str | None) -> Iterator[None]:
    """With a check taken out; all others stay."""
    patches = [mock.patch.object(*one) for one in WITHOUT[name]] if name else []
    for patch in patches:
        patch.start()
    try:
        yield
    finally:
        for patch in patches:
            patch.stop()


# The search


def search(trial: Trial, seed: int, statements: int, seconds: float = float("inf"),
           enough: int = 1_000_000) -> Found:
    """So many statements that are accepted, each over rows of two kinds, or as many as there is time
    for, or until enough was found."""
    rng, found, over = random.Random(seed), Found(), time.monotonic() + seconds
    with trial.stand.connect("analyst") as connection:
        grammar = BoundsGrammar(rng, calls=read_calls(connection))
    accepted = 0
    while accepted < statements and time.monotonic() < over and len(found.findings) < enough:
        statement = grammar.statement()
        fills = drawn_fills(rng)
        try:
            for name, fill in fills.items():
                ran = trial.run(statement, fill)
                if is_finding(ran):  # once more: it may have been the machine
                    ran = min(ran, trial.run(statement, fill), key=lambda one: one.seconds)
                found.add(name, ran)
            accepted += 1
        except Refused as refusal:
            found.refused[str(refusal)[:90]] += 1
    return found


def show(trial: Trial, name: str, ran: Ran) -> str:
    try:
        plan = trial.shown(ran.statement)
    except Refused as refusal:
        plan = str(refusal)
    how = "took" if ran.ended else "was stopped after"
    again = f", asked for {ran.again} times too often" if ran.again else ""
    again += f", {ran.files >> 20} MB of {ran.most_files >> 20} MB of files, {ran.split} too many" if ran.files or ran.split else ""
    return (f"{ran.share:.2f} of the bound: {how} {ran.seconds:.3f} s of {ran.bound:.3f} s, {ran.memory >> 20} MB of "
            f"{ran.most_memory >> 20} MB, rows {name}{again}\n  {ran.statement[:1500]}\n{plan}\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--statements", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hash-factor", type=int, default=SCARCE, help="memory of hash tables, in parts of what is sorted at once")
    parser.add_argument("--without", choices=list(WITHOUT), help="take out a check")
    parser.add_argument("--refusals", action="store_true", help="count why statements were refused")
    options = parser.parse_args()
    with own_trial(options.hash_factor) as trial, without(options.without):
        found = search(trial, options.seed, options.statements, enough=5)
        print(found.report())
        for name, ran in found.findings or found.nearest[:3]:
            print(("FOUND: " if found.findings else "NEAREST: ") + show(trial, name, ran))
    if options.refusals:
        for why, number in found.refused.most_common(40):
            print(f"{number:>6} {why}")
    return 1 if found.findings else 0


if __name__ == "__main__":
    sys.exit(main())
