"""What an aggregate costs: nanoseconds for each row, and for each group at its end."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

from privid.calculus.tree import Aggregate, position
from privid.errors import NoRule
from privid.model import Collect, Collected

from .calls import compare
from .premises import Room
from .sizes import EMPTY, Size, fixed, number

__all__ = ["AGGREGATES", "Ending", "adding", "aggregate", "binned"]


class Ending(NamedTuple):
    """An aggregate over values of one size."""

    step: int  # nanoseconds a row
    end: int  # and a group
    size: Size  # of the result


#: by identity: how it is computed
AGGREGATES: dict[str, str] = {"pg_catalog.count()": "count", "pg_catalog.count(any)": "count"}
_SPREADS = ("variance", "var_pop", "var_samp", "stddev", "stddev_pop", "stddev_samp")
for _name, _type in product(("sum", "avg", *_SPREADS), ("numeric", "float8", "int4", "int8")):
    if _name in ("sum", "avg") or _type in ("numeric", "float8"):
        AGGREGATES[f"pg_catalog.{_name}({_type})"] = (
            "double" if _type == "float8" else "sum" if _name in ("sum", "avg") else "spread"
        )
for _name, _type in product(
    ("min", "max"), ("float8", "numeric", "int4", "int8", "text", "timestamptz", "date", "interval")
):
    AGGREGATES[f"pg_catalog.{_name}({_type})"] = "extreme"


#: what only bins are collected for is a sum
AGGREGATES |= dict.fromkeys(("pg_catalog.percentile_cont(float8,float8)", "pg_catalog.percentile_disc(float8,anyelement)"), "sum")


def binned(value: Size, edges: int) -> int:
    """The bin of a number among edges in order, and the power of ten that stands for it."""
    return 600 + 10 * edges + value.digits


def adding(column: Collected) -> int:
    """Bytes that a sum takes up in a group beyond those of any aggregate: eight for four digits, as it grows."""
    return 4 * column.digits * (len(column.edges) + 1) if column.what is Collect.BINS else 0


def aggregate(agg: Aggregate, args: Sequence[Size], rows: int, room: Room) -> Ending:
    """Of `rows` rows at most."""
    kind = AGGREGATES.get(agg.name)
    if kind is None:
        raise NoRule(
            f'no bound is known for the time of aggregate "{agg.name}"',
            position=position(agg.loc),
            detail="The time of a release is bounded before it begins.",
            hint="Use count, sum, avg, min, max, variance or stddev.",
        )
    value = args[0] if args else EMPTY
    if kind == "count":
        return Ending(20, 60, fixed("int8"))
    if kind == "double":
        return Ending(50, 200, fixed("float8"))
    if kind == "extreme":
        return Ending(40 + compare(value, value, room) + value.bytes // 10, 100, value)
    # whole numbers are added up as numeric where they could overflow
    added = number(max(value.whole, 19) + len(str(rows)), value.scale)
    if kind == "sum":
        return Ending(
            60 + value.digits // 2,
            1_000 + 8 * added.digits,
            number(added.whole, max(value.scale, 1000)),
        )
    squared = value.digits * value.digits
    return Ending(
        150 + value.digits + squared // 50,
        3_000 + 40 * added.digits + squared // 5,
        number(2 * added.whole, 1000),
    )
