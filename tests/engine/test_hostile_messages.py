"""Messages that no library writes: tests/verify/hostile_messages.py in small."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.engine.client import Refused
from tests.engine.conftest import House
from tests.verify.hostile_messages import GROWTH, resident, send_mutated


def test_no_mutated_message_is_an_internal_error_and_memory_is_bounded(house: House) -> None:
    send_mutated(house, 50, 7)
    before = resident(house)
    outcomes = send_mutated(house, 300, 8)
    assert resident(house) - before < GROWTH
    assert sum(outcomes.values()) == 300 and len(outcomes) > 3


def test_what_mutation_has_found_stays_mended(house: House) -> None:
    good = house.request(house.table(house.video([0] * 40)))

    def altered(*path: Any, value: Any) -> dict[str, Any]:
        part = message = copy.deepcopy(good)
        for key in path[:-1]:
            part = part[key]
        part[path[-1]] = value
        return message

    with house.engine.connect() as client, pytest.raises(Refused, match="PV002"):
        client.ask("X", altered("select", "aggs", 0, "distinct", value=True))  # count(DISTINCT *)
    for message in (altered("tables", 0, "columns", 2, "attno", value=2), altered("tables", 0, "owner", value="\0"),
                    altered("query", value="\ud800"), altered("allowance", value=10**400)):
        with house.engine.connect() as client:
            client.send("X", message)
            assert client.closed()
    assert not house.engine.events("internal error")
