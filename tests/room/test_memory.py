"""What an inner query can hold at once is bounded before anything is charged."""

from __future__ import annotations

import pytest

from privid.calculus import parse_select
from privid.errors import NoRule
from privid.room.memory import MAX_STEPS, check_memory, steps
from tests.calculus.builders import col, count, equal, grouped, join, rows, scan, select, subquery, total, union_all


def test_every_step_that_holds_rows_counts() -> None:
    plain = parse_select(select([count()]))
    distinct = parse_select(select([count(col("plate"), distinct=True)], by=[col("kind")]))
    inner = grouped([count()], by=[col("plate")])
    joined = join("inner", subquery(inner, 1), subquery(inner, 2), equal(col("plate", rel=1), col("plate", rel=2)))
    assert (steps(plain), steps(distinct), steps(parse_select(select([count()], source=joined)))) == (0, 2, 3)
    united = union_all(*(rows(col("plate"), source=scan()) for _ in range(3)), types=["text"])
    assert steps(parse_select(select([count()], source=subquery(united)))) == 0


def test_a_statement_with_too_many_of_them_is_refused_with_a_hint() -> None:
    level = rows(col("plate"))
    for _ in range(MAX_STEPS + 1):
        level = {**rows(col("plate"), source=subquery(level)), "distinct": True}
    with pytest.raises(NoRule, match=f"at most {MAX_STEPS}") as caught:
        check_memory(parse_select(select([total(col("speed"))], source=subquery(level))))
    assert caught.value.hint
