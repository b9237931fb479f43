"""The search would notice a mistake: each rule, weakened on purpose, is caught by it, and unweakened it is not."""

from __future__ import annotations

import pytest

from privid.calculus.rules import RULES
from tests.verify.calculus_search import Finding, Searcher
from tests.verify.calculus_stand import Stand

from .weaknesses import WEAKNESSES, Weakness

#: searches over one statement, of some hundred pairs each
TURNS = 25


def found(stand: Stand, weakness: Weakness, turns: int) -> Finding | None:
    searcher = Searcher(stand, 5)
    claim = searcher.claim(weakness.query)
    assert claim is not None, searcher.tally.report()
    for _ in range(turns):
        finding = searcher.search(weakness.query, claim, fresh=40, rounds=8, size=30)
        if finding is not None:
            return finding
    return None


@pytest.mark.parametrize("weakness", WEAKNESSES, ids=lambda w: f"{w.rule}: {w.mistake}")
def test_a_weakened_rule_is_caught(stand: Stand, weakness: Weakness, monkeypatch: pytest.MonkeyPatch) -> None:
    weakness.make(monkeypatch)
    assert found(stand, weakness, TURNS) is not None


@pytest.mark.parametrize("weakness", WEAKNESSES, ids=lambda w: f"{w.rule}: {w.mistake}")
def test_the_rule_itself_is_not(stand: Stand, weakness: Weakness) -> None:
    if weakness.refused:
        assert Searcher(stand, 5).claim(weakness.query) is None
    else:
        assert found(stand, weakness, 1) is None


def test_every_rule_has_a_weakened_version() -> None:
    assert {w.rule for w in WEAKNESSES} == set(RULES)
