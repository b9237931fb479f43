"""The search that draws from the allow-list: it finds nothing in the calculus, and finds it where a rule is weakened."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.verify.calculus_mutants import ALL, Hunt
from tests.verify.calculus_stand import Stand

SECONDS = 60.0
#: on a machine that does much else
PATIENCE = 240.0


@pytest.fixture(scope="module")
def hunt(stand: Stand) -> Iterator[Hunt]:
    """One search for all faults; tests/verify/calculus_mutants.py looks longer, and from several seeds."""
    found = Hunt(stand, 4, ALL)
    found.hunt(200_000, SECONDS)
    while len(found.caught) < len(ALL) / 2 and time.monotonic() - found.begun < PATIENCE:
        found.run(100)
    yield found


def test_no_statement_of_the_allow_list_changes_by_more_than_is_claimed(hunt: Hunt) -> None:
    assert not hunt.tally.findings, "\n".join(hunt.tally.findings[:3])
    assert not hunt.tally.failures, hunt.tally.report()
    assert hunt.tally.accepted["all"] > 50, hunt.tally.report()


def test_at_least_half_of_the_faults_are_found_without_a_hint(hunt: Hunt) -> None:
    missing = [mutant.name for mutant in hunt.open]
    print(f"{len(hunt.caught)} of {len(ALL)} in {hunt.tally.pairs} pairs; not yet: {', '.join(missing)}")
    assert len(hunt.caught) >= len(ALL) / 2, missing


def test_the_share_of_the_list_that_was_met_is_known(hunt: Hunt) -> None:
    listed, missing = hunt.covered()
    print(f"{100 - 100 * len(missing) / listed:.0f} % of {listed} calls")
    assert len(missing) < 0.8 * listed, missing


def test_every_version_that_claims_otherwise_is_put_in_place(stand: Stand) -> None:
    """One judgement asks all versions at once: none is passed over that a judgement of its own shows to differ."""
    search = Hunt(stand, 7, ALL)
    for _ in range(5):
        query = search.draw()
        some, every = search.claims(query), search.claims(query, every=True)
        assert [mutant.name for mutant, _ in some] == [mutant.name for mutant, _ in every], query.claimed
