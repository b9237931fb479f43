"""A dashboard that refreshes spends what its first refresh spent, and shows the same values; here a few refreshes (make verify: many)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.conftest import write_video
from tests.verify.ledger_dashboard import refresh


def test_panels_with_moving_filters_spend_what_the_first_refresh_spent(stack: Any, unique: Callable[[str], str]) -> None:
    assert refresh(stack, 20, 4, unique("board")) == "2"


def test_rows_of_an_answer_given_again_come_in_the_order_of_the_statement_that_asks(stack: Any, unique: Callable[[str], str]) -> None:
    name = unique("order")
    write_video(stack.videos / f"{name}.mp4", [i // 10 for i in range(20)])
    stack.camera(name, f"{name}.mp4", rho="1s", epsilon="10")
    stack.executable(name, "#!/bin/sh\necho '{\"kind\": \"a\"}'\n")
    stack.table(name, name, name, "kind text DEFAULT ''", timeout="60ms", end="2026-03-01 06:00:02+00")
    ask = f"SELECT kind, count(*) FROM {name} WHERE kind IN (%s) GROUP BY kind"
    first = stack.run(ask % "'a', 'b', 'c'")
    again = stack.run(ask % "'c', 'a', 'b', 'a'")
    assert [kind for kind, _ in first] == ["a", "b", "c"] and [kind for kind, _ in again] == ["c", "a", "b"]
    assert dict(first) == dict(again)
    assert stack.run(f"SELECT count(*) FROM privid.releases WHERE query LIKE '%{name}%'", user="privid") == [(1,)]
