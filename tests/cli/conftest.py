"""A PostgreSQL of the tests' own for restores."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.ledger.postgres import Server, temporary_server

from .restoring import Restoring


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with temporary_server() as running:
        running.command("createuser", "-h", running.directory, "-U", "postgres", "role with spaces")
        yield running


_names = (f"restore_{n}" for n in itertools.count())


@pytest.fixture
def restoring(server: Server) -> Iterator[Restoring]:
    both = Restoring(server, next(_names))
    yield both
    both.close()
