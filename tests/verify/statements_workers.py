"""The workers of a search among statements: threads, each with a world of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable

from tests.conftest import RunningStack

from .statements_calls import read_calls
from .statements_scenario import Author
from .statements_settings import read_settings
from .statements_world import World, drop_world, made_world

__all__ = ["work_in_worlds"]


def work_in_worlds(stack: RunningStack, workers: int, seed: int, flavour: str | None,
                   work: Callable[[World, Author, Callable[[], bool]], None]) -> None:
    """Each is given its world, an author, and whether another one has failed; then all of it is undone."""
    worlds = made_world(stack, workers, seed)
    failures: list[BaseException] = []

    def run(world: World, author: Author) -> None:
        try:
            work(world, author, lambda: bool(failures))
        except BaseException as error:
            failures.append(error)

    try:
        with worlds[0].connect("a") as connection:
            author = Author(read_calls(connection), read_settings(connection), flavour=flavour)
        threads = [threading.Thread(target=run, args=(world, author)) for world in worlds]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        drop_world(worlds)
    if failures:
        raise failures[0]
