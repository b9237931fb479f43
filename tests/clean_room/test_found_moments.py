"""Moments that told when an inner query ended: what follows a cancel happens when it would anyway."""

from __future__ import annotations

import re
import threading
import time

import psycopg
import pytest

from .pair import HEAVY, SIDES, Pair


def allowance(pair: Pair, statement: str) -> float:
    """As EXPLAIN shows it."""
    with pair.connect("a") as connection:
        lines = connection.execute(f"EXPLAIN {statement}".encode()).fetchall()
    found = re.search(r"Computes for ([\d.]+) s", "\n".join(line for (line,) in lines))
    assert found is not None
    return float(found[1])


@pytest.mark.parametrize("side", SIDES)
def test_a_cancelled_release_ends_when_it_would_have_been_answered(few: Pair, side: str) -> None:
    """0.4.0 before its release marked it as failed, and gave its turn away, when the query ended."""
    lasts = allowance(few, HEAVY)
    assert lasts > 0.3
    with few.connect(side) as asking, few.connect(side) as looking:
        asking.execute("SET privid.reuse = off")

        def last() -> tuple[int, str]:
            query = "SELECT id, state FROM privid.releases ORDER BY id DESC LIMIT 1"
            ident, state = looking.execute(query.encode()).fetchall()[0]
            return ident, state

        def ask() -> None:
            with pytest.raises(psycopg.errors.QueryCanceled):
                asking.execute(HEAVY.encode())

        before, _ = last()
        thread = threading.Thread(target=ask)
        thread.start()
        while last()[0] == before:
            time.sleep(0.002)
        charged = time.monotonic()
        time.sleep(0.1)
        asking.cancel()
        thread.join()
        assert time.monotonic() < charged + lasts  # the client itself does not wait
        while last()[1] == "charged":
            time.sleep(0.002)
        assert last()[1] == "failed"
        assert time.monotonic() - charged > lasts - 0.15
