"""An honest analyst never meets the end of an allowance, on a busy machine either."""

from __future__ import annotations

from tests.conftest import RunningStack
from tests.verify.room_allowance import ask, report

STATEMENTS = 300


def test_no_accepted_statement_is_cut_by_its_allowance_beside_two_busy_loops(
        stack: RunningStack) -> None:
    outcome = ask(stack, STATEMENTS, seed=30, loops=2)
    assert not outcome.cut, "\n".join((report(outcome), *outcome.cut[:5]))
    assert not outcome.failed, "\n".join((report(outcome), *outcome.failed[:5]))
    assert outcome.answered == STATEMENTS
