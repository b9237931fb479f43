"""An import that takes long is frozen again and again, so that whoever has nothing to do with it waits for it at most half of the time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from privid.sandbox.intermission import SLICE

from .conftest import World

#: seconds of processor time that the module takes to import
LONG = 10
SLOW = f"""import time
while time.process_time() < {LONG}: pass
def process(chunk):
    yield {{"v": 1}}
"""
ROLE = "slow_importer"
#: how often it may be tried: on a busy machine slots slip, and an unfair timetable would hold up every try
TRIES = 3


def test_a_slow_import_of_one_role_takes_at_most_half_of_the_time_from_another(world: World, unique: Callable[[str], str]) -> None:
    world.rows(f"CREATE ROLE {ROLE} LOGIN IN ROLE privid_analyst", user="privid")
    world.rows(f"GRANT USAGE ON FOREIGN SERVER open_calm TO {ROLE}", user="owner")

    def seconds(table: str) -> float:
        begun = time.monotonic()
        assert world.rows(f"SELECT count(*) FROM {table}") == [(10,)]
        return time.monotonic() - begun

    def is_fair() -> bool:
        slow, one, other = (unique(name) for name in ("slow", "one", "other"))
        world.stack.executable(slow, f"{SLOW}# {slow}\n", user=ROLE)
        world.stack.table(slow, "open_calm", slow, user=ROLE, end="2026-03-01 06:00:01+00")
        for name in (one, other):
            world.stack.executable(name, f"#!/bin/sh\necho '{{\"v\": 1}}'\n# {name}\n")
            world.stack.table(name, "open_calm", name, timeout="500ms")
        alone = seconds(one)
        thread = threading.Thread(target=lambda: world.rows(f"SELECT count(*) FROM {slow}", user=ROLE))
        thread.start()
        time.sleep(2)  # it is being imported
        beside = seconds(other)
        print(f"{alone:.1f} s alone, {beside:.1f} s beside it")
        assert thread.is_alive(), "the import was over before it could matter"
        thread.join()
        return beside < 2 * alone + 2 * SLICE + 2

    assert any(is_fair() for _ in range(TRIES))
    world.rows(f"DROP OWNED BY {ROLE}; DELETE FROM privid.executable_store WHERE owner = '{ROLE}'; DROP ROLE {ROLE}", user="privid")
