"""Messages that no library writes: tests/verify/hostile_messages.py in small."""

from __future__ import annotations

from tests.engine.conftest import House
from tests.verify.hostile_messages import GROWTH, resident, send_mutated


def test_no_mutated_message_is_an_internal_error_and_memory_is_bounded(house: House) -> None:
    send_mutated(house, 50, 7)
    before = resident(house)
    outcomes = send_mutated(house, 300, 8)
    assert resident(house) - before < GROWTH
    assert sum(outcomes.values()) == 300 and len(outcomes) > 3
