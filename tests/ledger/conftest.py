"""One PostgreSQL for all tests of the ledger, and a database that is emptied before each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.ledger.postgres import Database, Server, temporary_server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with temporary_server() as running:
        yield running


@pytest.fixture(scope="session")
def shared(server: Server) -> Database:
    return Database(server)


@pytest.fixture
def database(shared: Database) -> Iterator[Database]:
    shared.clear()
    shared.ledger = shared.open_ledger()
    yield shared
    shared.ledger.close()
