"""Free requests of one role, as many as it likes, keep nobody else from being answered, and do not fill the engine's memory."""

from __future__ import annotations

import select
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from .client import Refused, wait_for
from .conftest import House

#: looking at it takes a second, and more memory than the examiner may have
SLOW = b"def process(chunk): pass\n" + b"a=1\n" * 262_000
PROMPT = b"# %d\ndef process(chunk):\n    yield {}\n"


def status(house: House, name: str) -> int:
    assert house.engine.process is not None
    lines = Path(f"/proc/{house.engine.process.pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1])


def check_of(house: House, name: str, content: bytes) -> dict[str, Any]:
    house.upload(name, content)
    return {"kind": "table", "table": house.table(house.video([0] * 40), name)}


def test_who_has_left_keeps_nobody_from_the_examiner(house: House) -> None:
    slow, threads = check_of(house, "slow_left", b"# left\n" + SLOW), status(house, "Threads")
    for _ in range(40):
        with house.engine.connect() as client:
            client.send("K", slow)
            time.sleep(0.05)
    prompt = check_of(house, "prompt_left", PROMPT % 1)
    with house.engine.connect(login="bob") as client:
        begun = time.monotonic()
        assert client.ask("K", prompt)[0] == "k"
        assert time.monotonic() - begun < 10
    assert wait_for(lambda: status(house, "Threads") <= threads + 3)
    assert not house.engine.events("internal error")


def test_roles_take_turns_at_the_examiner(house: House) -> None:
    slow = [check_of(house, f"slow_{number}", b"# %d\n" % number + SLOW) for number in range(12)]
    prompt = check_of(house, "prompt_turns", PROMPT % 2)
    with ExitStack() as opened:
        asked = [opened.enter_context(house.engine.connect()) for _ in slow]
        for waiting, body in zip(asked, slow, strict=True):
            waiting.send("K", body)
        client = opened.enter_context(house.engine.connect(login="bob"))
        assert client.ask("K", prompt)[0] == "k"
        assert len(select.select([waiting.socket for waiting in asked], [], [], 0)[0]) < 6


def test_a_refusal_is_remembered_and_told_under_each_name(house: House) -> None:
    with house.engine.connect() as client:
        took = list[float]()
        for name in ("slow_first", "slow_again"):
            body = check_of(house, name, b"# refused\n" + SLOW)
            begun = time.monotonic()
            with pytest.raises(Refused, match=f'"{name}" is not a program') as refused:
                client.ask("K", body)
            assert refused.value.sqlstate == "PV008"
            took.append(time.monotonic() - begun)
    assert took[1] < took[0] / 4, took


def test_what_a_program_has_is_not_read_to_judge_a_question(house: House) -> None:
    source, names = house.video([0] * 40), [f"large_{number}" for number in range(4)]
    for number, name in enumerate(names):
        house.upload(name, b"#!/bin/sh\n# %d\n" % number + bytes(48 << 20))
    tables = [house.table(source, name) for name in names]
    before, peak, over = status(house, "VmRSS"), 0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not over.wait(0.01):
            peak = max(peak, status(house, "VmRSS"))

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        with house.engine.connect() as client:
            for _ in range(2):
                request = house.request(tables[0])
                client.ask("X", {**request, "tables": tables, "readers": house.asked_by("ana", *tables)["readers"]})
    finally:
        over.set()
        watching.join()
    assert peak - before < 40 << 10, (before, peak)


def test_requests_that_are_long_are_judged_one_after_the_other(house: House) -> None:
    """And not even read before: the messages of those who wait are nowhere in the engine."""
    source = house.video([0] * 40)
    rows = [[f"key-{number}-{'x' * 60}", str(number)] for number in range(120_000)]
    request = house.request(house.table(source))
    public = {"kind": "rows", "rel": 2, "alias": "plates", "rows": rows,
              "columns": [{"name": "plate", "number": 1, "type": "text"}, {"name": "n", "number": 2, "type": "text"}]}
    request["select"]["from"].append(public)
    before, peak = status(house, "VmRSS"), 0
    done = list[str]()

    def ask() -> None:
        with house.engine.connect() as client:
            client.socket.settimeout(120)
            try:
                done.append(client.ask("X", request)[0])
            except Refused as refused:
                done.append(refused.sqlstate)

    asking = [threading.Thread(target=ask) for _ in range(6)]
    for thread in asking:
        thread.start()
    while any(thread.is_alive() for thread in asking):
        peak = max(peak, status(house, "VmRSS"))
        time.sleep(0.01)
    print("judged", done, before, peak)
    assert len(done) == 6 and len(set(done)) == 1 and done[0] != "PV004"
    assert peak - before < 300 << 10, (before, peak)
