"""One PostgreSQL for all tests of the ledger, a fresh database for each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.ledger.postgres import Database, Server, temporary_server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with temporary_server() as running:
        yield running


@pytest.fixture
def database(server: Server) -> Iterator[Database]:
    fresh = Database(server)
    yield fresh
    fresh.ledger.close()
