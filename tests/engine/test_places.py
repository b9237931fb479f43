"""Waiting for what there is little of: in turns, by role, with an end."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from privid.clients import Client, client, on_behalf_of, whatever_happens
from privid.engine.cancel import Cancel, Cancelled
from privid.errors import EngineUnavailable
from privid.ledger.turns import Turns
from privid.places import Places

from .client import wait_for


class Crowd:
    """Threads that each take a place, and keep it until they are told."""

    def __init__(self, places: Places) -> None:
        self.places, self.order = places, list[str]()
        self._go: dict[str, threading.Event] = {}
        self._threads: list[threading.Thread] = []

    def come(self, name: str, size: int = 1) -> None:
        """`name`: the role, and a number to tell them apart."""
        self._go[name] = threading.Event()
        before = len(self.places._waiting) + len(self.order)
        self._threads.append(threading.Thread(target=self._take, args=(name, size)))
        self._threads[-1].start()
        assert wait_for(lambda: len(self.places._waiting) + len(self.order) > before)

    def go(self, name: str) -> None:
        there = len(self.order)
        self._go[name].set()
        wait_for(lambda: len(self.order) > there, 0.3)

    def _take(self, name: str, size: int) -> None:
        with on_behalf_of(Client(name[:-1])), self.places.take(size):
            self.order.append(name)
            self._go[name].wait(20)

    def end(self) -> None:
        for event in self._go.values():
            event.set()
        for thread in self._threads:
            thread.join(5)


@contextmanager
def crowd(most: int, share: int) -> Iterator[Crowd]:
    found = Crowd(Places(most, share, "engine is busy with others", 10))
    try:
        yield found
    finally:
        found.end()


def test_roles_take_turns_however_many_of_one_wait() -> None:
    with crowd(1, 1) as people:
        for name in ("a1", "a2", "a3", "a4", "b1", "c1", "b2"):
            people.come(name)
        while len(people.order) < 7:
            people.go(people.order[-1])
        assert people.order == ["a1", "b1", "c1", "a2", "b2", "a3", "a4"]


def test_nobody_has_all_and_who_is_large_is_not_overtaken_for_ever() -> None:
    with crowd(10, 6) as people:
        people.come("a1", 4)
        people.come("a2", 100)  # counts as 6, which its role has only when a1 is gone
        people.come("b1", 3)
        assert people.order == ["a1", "b1"]
        people.come("c1", 6)
        people.come("d1", 1)
        assert people.order == ["a1", "b1"]  # c1 is next, and d1 does not keep it waiting
        people.go("a1")
        assert people.order == ["a1", "b1", "c1", "d1"]
        people.go("c1")
        assert people.order == ["a1", "b1", "c1", "d1", "a2"]


def test_a_place_is_given_back_early_or_at_the_end_and_once() -> None:
    places = Places(1, 1, "engine is busy with others", 0.05)
    for _ in range(2):
        with places.take() as leave:
            with pytest.raises(EngineUnavailable) as refused, places.take():
                pass
            assert refused.value.hint == "Try again."
            leave()
            leave()
            with places.take():
                pass
    with pytest.raises(ZeroDivisionError), places.take():
        raise ZeroDivisionError
    with places.take():
        pass


def test_who_has_left_waits_for_nothing() -> None:
    cancel = Cancel()
    threading.Timer(0.1, cancel.set).start()
    begun = time.monotonic()
    places, turns = Places(1, 1, "engine is busy", 20), Turns()
    with places.take(), turns.take(1), on_behalf_of(Client("ana", cancel)):
        with pytest.raises(Cancelled), places.take():
            pass
        with pytest.raises(Cancelled), turns.take(1):
            pass
        with whatever_happens(), turns.take(2):
            assert client().role == "ana"
        with turns.take(3):
            pass  # what is free is had
    assert time.monotonic() - begun < 2
    assert client().role == ""
