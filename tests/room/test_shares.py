"""Turns at a few things: nobody has so many that others wait for nothing but him, and who waits is served role by role."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack

import pytest

from privid.room.shares import Shares


def take(shares: Shares, stack: ExitStack, name: str) -> bool:
    return stack.enter_context(shares.one(name, 0))


@pytest.mark.parametrize(("most", "others"), [(3, 2), (4, 2), (8, 3)])
def test_roles_that_take_all_that_they_get_leave_one_for_another(most: int, others: int) -> None:
    shares = Shares(most)
    with ExitStack() as stack:
        for _ in range(most):
            for name in map(str, range(others)):
                take(shares, stack, name)
        assert take(shares, stack, "new")


def test_who_is_alone_has_half() -> None:
    shares = Shares(4)
    with ExitStack() as stack:
        assert [take(shares, stack, "ana") for _ in range(4)] == [True, True, False, False]
    with ExitStack() as stack:
        assert take(shares, stack, "ana")


def test_who_waits_is_served_role_by_role_however_often_one_asks() -> None:
    shares, served = Shares(1), list[str]()

    def ask(name: str) -> None:
        with shares.one(name, 30) as free:
            assert free
            served.append(name)

    with shares.one("ana", 0):
        threads = [threading.Thread(target=ask, args=(name,)) for name in ("ana",) * 8 + ("ben",) * 2 + ("cat",)]
        for thread in threads:
            thread.start()
            time.sleep(0.05)
    for thread in threads:
        thread.join()
    assert set(served[:2]) == {"ben", "cat"} and "ben" in served[3:5]


def test_who_is_wanted_no_more_does_not_wait() -> None:
    shares = Shares(1)

    def gone() -> None:
        raise LookupError

    with shares.one("ana", 0):
        begun = time.monotonic()
        with pytest.raises(LookupError), shares.one("ben", 30, gone):
            pass
        assert time.monotonic() - begun < 5
    with shares.one("cat", 0) as free:
        assert free
