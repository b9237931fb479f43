"""For whom a thread of the engine works: whatever it waits for, it waits for on their behalf, in their turn, and no longer than they do."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Protocol

__all__ = ["Client", "client", "on_behalf_of", "whatever_happens"]


class Somebody(Protocol):
    """Whoever waits for a piece of work, and may leave."""

    def __bool__(self) -> bool:
        """Whether they have left."""

    def check(self) -> None:
        """Raises when they have."""

    def calling(self, call: Callable[[], None], /) -> AbstractContextManager[None]:
        """Calls when that happens, as long as the block lasts."""


@dataclass(frozen=True)
class Client:
    """A role that logged in, and whoever of it waits; the engine's own work is nobody's, and waits for itself."""

    role: str = ""
    somebody: Somebody | None = None

    def check(self) -> None:
        if self.somebody is not None:
            self.somebody.check()

    def calling(self, call: Callable[[], None]) -> AbstractContextManager[None]:
        return nullcontext() if self.somebody is None else self.somebody.calling(call)

    def wait_for(self, changed: threading.Condition, ready: Callable[[], bool], patience: float) -> bool:
        """As the condition, which is held, does; raises when nobody waits any more."""

        def wake() -> None:
            with changed:
                changed.notify_all()

        with self.calling(wake):
            found = changed.wait_for(lambda: ready() or bool(self.somebody), patience)
        if not ready():
            self.check()
        return found


_NOBODY = Client()
_current: ContextVar[Client] = ContextVar("client", default=_NOBODY)


def client() -> Client:
    """Whose work this thread does."""
    return _current.get()


@contextmanager
def on_behalf_of(whom: Client) -> Iterator[None]:
    """The block is theirs."""
    token = _current.set(whom)
    try:
        yield
    finally:
        _current.reset(token)


def whatever_happens() -> AbstractContextManager[None]:
    """What is to be done in the block is done although nobody may wait for it any more; it is still theirs."""
    return on_behalf_of(replace(client(), somebody=None))
