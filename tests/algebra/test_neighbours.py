"""No neighbour changes an answer by more than the calculus claims: random statements, random and hunted pairs."""

from __future__ import annotations

import pytest

from tests.verify.calculus_search import Searcher
from tests.verify.calculus_stand import Stand

#: pairs of each part; together what `make test` promises
PAIRS = 5_000


@pytest.mark.parametrize("seed", range(4))
def test_no_neighbour_changes_an_answer_by_more_than_is_claimed(stand: Stand, seed: int) -> None:
    tally = Searcher(stand, seed).run(PAIRS)
    assert tally.pairs >= PAIRS
    assert not tally.findings, "\n\n".join(tally.findings)
    assert not tally.failures, tally.report()
    # a search that never comes near a bound would prove nothing
    assert tally.tightest["all"] == 1, tally.report()
