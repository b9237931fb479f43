"""Random statements on two videos that differ in one event: only noise differs in what is seen."""

from __future__ import annotations

from tests.conftest import RunningStack
from tests.verify.statements_fuzz import BIASED, biased, examples, fuzz, report

PAIRS = 1_000


def test_nothing_but_noise_differs_between_videos_that_differ_in_one_event(
        stack: RunningStack) -> None:
    tally = fuzz(stack, PAIRS, seed=20, enough=10)
    found = "\n\n".join(finding.report for finding in examples(tally.findings, 2))
    assert not tally.findings, f"{report(tally)}\n{found}"
    assert tally.pairs == PAIRS
    # a search that is refused everything, or that compares no values, would find nothing
    assert tally.states["00000"] > PAIRS // 3, report(tally)
    assert tally.values > PAIRS // 30, report(tally)
    assert biased(tally.slower) > BIASED, report(tally)
