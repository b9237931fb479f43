"""Whether a release fits is told, and must not tell what programs do with their memory."""

from __future__ import annotations

import mmap
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from privid.engine.memory import Beside, Ration, reserved
from privid.room.space import free_memory, total_memory
from privid.sandbox.cgroups import Group, find_hierarchy

MIB = 1 << 20
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user cannot make control groups")


@contextmanager
def taken(group: Group, size: int) -> Iterator[None]:
    """A process of the group has so many bytes, as a program of an analyst's would."""
    told, tell = os.pipe()
    wait, go = os.pipe()
    pid = os.fork()
    if pid == 0:
        group.add(os.getpid())
        memory = mmap.mmap(-1, size)
        for at in range(0, size, 4096):
            memory[at] = 1
        os.write(tell, b".")
        os.close(go)
        os.read(wait, 1)
        os._exit(0)
    os.close(wait)
    try:
        os.read(told, 1)
        yield
    finally:
        for fd in (go, told, tell):
            os.close(fd)
        os.waitpid(pid, 0)


def test_what_programs_take_counts_as_if_they_took_their_most() -> None:
    hierarchy = find_hierarchy()
    assert hierarchy is not None
    group = hierarchy.create(f"{os.getpid()}-test-memory", memory=600 * MIB, processes=4)
    beside = Beside(reserve=512 * MIB)
    found: list[tuple[int, int]] = []
    while not any(told < 60 * MIB < 150 * MIB < real for told, real in found):
        assert len(found) < 40, found  # others take and give memory, too, but not always
        idle, free = beside.free(), free_memory()
        with taken(group, 200 * MIB):
            found.append((abs(beside.free() - idle), free - free_memory()))
    assert group.remove(5)


def test_what_is_set_aside_leaves_half_of_a_small_machine() -> None:
    assert reserved(64 * MIB) == 64 * MIB
    assert reserved(2 * total_memory()) == total_memory() // 2


def test_computations_wait_for_each_other_by_what_they_can_need_and_not_by_what_they_take() -> None:
    ration, free = Ration(), (0, 1000 * MIB)
    large, small = (0, 300 * MIB), (0, 40 * MIB)
    assert ration.take(large, free) and ration.take(small, free)
    begun: list[bool] = []
    waiting = threading.Thread(target=lambda: begun.append(ration.take(large, free)))
    waiting.start()
    time.sleep(0.2)
    assert begun == []
    ration.give_back(small)
    time.sleep(0.2)
    assert begun == []
    ration.give_back(large)
    waiting.join(5)
    assert begun == [True]
    ration.give_back(large)
    assert not ration.take((0, 600 * MIB), free)  # it would not fit alone
