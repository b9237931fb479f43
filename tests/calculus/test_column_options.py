"""A column whose options its values need not keep has no facts, whoever made it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from privid.calculus.rules import column_options
from privid.errors import NoRule
from privid.model import Column

NUMBER = Column("speed", 1, "float8", "float8", False, 5.0, bounds=(Fraction(0), Fraction(10)))
WORD = Column("kind", 1, "text", "text", False, "car", keys=("car", "bus"))


def test_what_keeps_its_options_has_their_facts() -> None:
    number, word = column_options.facts(NUMBER), column_options.facts(WORD)
    assert (number.low, number.high, number.grid, number.nullable) == (0, 10, None, False)
    assert (word.labels, word.nullable) == (("car", "bus"), False)


@pytest.mark.parametrize("column", [
    replace(NUMBER, default=11.0), replace(NUMBER, default=-1e-5), replace(NUMBER, default=0.1234567), replace(NUMBER, default=False),
    replace(NUMBER, type="text", default="5"), replace(NUMBER, bounds=(Fraction(10), Fraction(0))),
    replace(NUMBER, bounds=(Fraction(0), Fraction(2 * 10**18))), replace(NUMBER, bounds=(Fraction(0), Fraction(10) + Fraction(1, 10**9))),
    replace(NUMBER, bounds=(Fraction(-1, 3), Fraction(10))), replace(WORD, default="tram"), replace(WORD, default=""),
    replace(WORD, keys=()), replace(WORD, type="enum", labels=("car", "bus")), replace(WORD, bounds=NUMBER.bounds)])
def test_what_does_not_is_refused(column: Column) -> None:
    with pytest.raises(NoRule, match="has options that its values do not keep"):
        column_options.facts(column)
