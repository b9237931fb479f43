"""Fifty kills at random moments (tests/verify/ledger_kills.py: a thousand)."""

from __future__ import annotations

from tests.ledger.killing import massacre
from tests.ledger.postgres import temporary_server


def test_after_fifty_random_kills_every_answer_is_paid_for_and_no_charge_is_lost() -> None:
    with temporary_server() as server:
        run = massacre(server, kills=50, seed=4)
        assert sum(run.kills.values()) == 50 and len(run.kills) == 3
        assert run.answers > 100
        run.database.ledger.close()
