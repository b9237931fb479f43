"""Numbers that no segment changes are computed from what is public: over any rows they are what they are over none."""

from __future__ import annotations

import pytest

from tests.verify import calculus_settled
from tests.verify.calculus_search import Searcher, Tally
from tests.verify.calculus_stand import Stand
from tests.verify.calculus_world import TABLES, World

#: statements that show such numbers
ENOUGH = 40


def found(searcher: Searcher, enough: int = ENOUGH) -> Tally:
    """Of so many."""
    while searcher.tally.settled < enough and not searcher.tally.findings:
        query = searcher.grammar.release()
        claim = searcher.claim(query)
        if claim is not None and (finding := searcher.unsettled(query, claim)) is not None:
            searcher.tally.findings.append(str(finding))
    return searcher.tally


@pytest.mark.parametrize("seed", [11, 12])
def test_what_gets_no_noise_is_the_same_over_all_rows_as_over_none(stand: Stand, seed: int) -> None:
    tally = found(Searcher(stand, seed))
    assert not tally.findings, tally.findings[0]


def test_the_search_tells_rows_that_fill_up_from_none(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    def empty(tables: list[str]) -> World:
        return {name: ((),) * len(TABLES[name].runs) for name in tables}

    monkeypatch.setattr(calculus_settled, "nothing", empty)
    assert found(Searcher(stand, 13), 400).findings
