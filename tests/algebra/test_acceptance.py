"""What people write is accepted: a bound that holds because everything is refused would be of no use."""

from __future__ import annotations

from tests.verify.calculus_search import Searcher
from tests.verify.calculus_stand import Stand

STATEMENTS = 600
#: forms that no rule can cover: which rows an OFFSET skips, and how many rows a private row may find
REFUSED = {"offset", "public join, not unique"}


def test_every_form_is_accepted_often_or_never(stand: Stand) -> None:
    searcher = Searcher(stand, 9)
    for _ in range(STATEMENTS):
        searcher.claim(searcher.grammar.release())
    tally = searcher.tally
    assert not tally.failures, tally.report()
    assert tally.accepted["all"] >= 0.75 * STATEMENTS, tally.report()
    for form, drawn in tally.drawn.items():
        if form in REFUSED:
            assert not tally.accepted[form], form
        elif drawn >= 10:
            # a form is drawn inside others, which may be what is refused
            assert tally.accepted[form] >= 0.3 * drawn, f"{form}\n{tally.report()}"
