"""The search that draws from the allow-list: it finds nothing in the calculus, and finds it where a rule is weakened."""

from __future__ import annotations

import pytest

from tests.verify.calculus_discover import Discovery
from tests.verify.calculus_mutants import ALL, sought
from tests.verify.calculus_stand import Stand

PAIRS = 6_000
#: of the weakened rules, some that a second of search finds; tests/verify/calculus_mutants.py looks for all, and for old faults
QUICK = ("base table", "range: half", "regions: counterexample", "count: rows", "group by declared keys", "union all", "limit: half")


def test_no_statement_of_the_allow_list_changes_by_more_than_is_claimed(stand: Stand) -> None:
    search = Discovery(stand, 11)
    tally = search.run(PAIRS)
    assert not tally.findings, "\n".join(tally.findings[:3])
    assert not tally.failures, tally.report()
    listed, missing = search.covered()
    assert tally.accepted["all"] > 50 and len(missing) < 0.8 * listed, tally.report()


@pytest.mark.parametrize("name", QUICK)
def test_a_weakened_rule_is_found_without_a_hint(stand: Stand, name: str) -> None:
    mutant = next(mutant for mutant in ALL if mutant.name.startswith(name))
    pairs, finding = sought(stand, mutant, 20_000, seed=1)
    assert finding is not None, f"not found in {pairs} pairs"
