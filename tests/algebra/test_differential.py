"""Where nothing is protected, accepted statements of every form equal PostgreSQL's own answers over ordinary tables with the same rows."""

from __future__ import annotations

from typing import Any

from tests.verify.calculus_differential import Differential


def test_what_is_not_protected_is_answered_as_postgresql_would(stack: Any) -> None:
    differential = Differential(stack, seed=7, tables=("n1", "s3", "r1"))
    try:
        found = differential.compare(120)
    finally:
        differential.close()
    assert not found.different, "\n".join(found.different[:5])
    assert found.equal == 120
