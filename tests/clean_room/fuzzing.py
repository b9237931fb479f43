"""Random statements on two videos that differ in one event, in two files: two stacks compute at the same time."""

from __future__ import annotations

from tests.conftest import RunningStack
from tests.verify.statements_fuzz import BIASED, biased, examples, fuzz, report

__all__ = ["PAIRS", "find_no_difference"]

#: of each file
PAIRS = 500


def find_no_difference(stack: RunningStack, seed: int) -> None:
    """Only noise differs in what is seen."""
    tally = fuzz(stack, PAIRS, seed, enough=10)
    found = "\n\n".join(finding.report for finding in examples(tally.findings, 2))
    assert not tally.findings, f"{report(tally)}\n{found}"
    assert tally.pairs == PAIRS
    # a search that is refused everything, or that compares no values, would find nothing
    assert tally.states["00000"] > PAIRS // 3, report(tally)
    assert tally.values > PAIRS // 30, report(tally)
    assert biased(tally.slower) > BIASED, report(tally)
