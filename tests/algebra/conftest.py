"""A stand for the search: the cameras of tests/verify in the session's PostgreSQL, while a module runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.verify.calculus_stand import Stand


@pytest.fixture(scope="module")
def stand(stack: Any) -> Iterator[Stand]:
    found = Stand(stack.layout)
    yield found
    found.close()
