"""A module that cannot be started warm is started cold, and that is nothing special: it ends, also on a busy machine."""

from __future__ import annotations

import time

from tests.verify.room_allowance import busy

from .conftest import World

#: A thread cannot be forked along, so there is no zygote of it.
THREADED = """
import threading, time
threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
def process(chunk):
    yield {"v": 7.0}
"""


def test_a_module_that_cannot_be_started_warm_ends_beside_busy_loops(world: World) -> None:
    stack = world.stack
    stack.executable("threaded", THREADED)
    stack.table("cold", "open_calm", "threaded", timeout="150ms", end="2026-03-01 06:00:07+00")
    with busy(2):
        begun = time.monotonic()
        (answer,) = stack.run("SELECT sum(range(v, 0, 10)) FROM cold")
    assert answer[0] in {7 * found for found in range(8)}  # a slot may be too short for its program on a busy machine
    assert time.monotonic() - begun < 60
