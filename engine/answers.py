"""How large the answer of a release can be: what does not fit into one message must not be charged, for it could never be given."""

from __future__ import annotations

import json
from collections.abc import Iterable
from fractions import Fraction

from privid.errors import InvalidValue
from privid.model import Mechanism, Output, Plan
from privid.room.sizes import MAX_SCALE, MAX_WHOLE
from privid.udf.grid import decimals

from .wire import LIMIT

__all__ = ["answer_size", "check_answer"]

#: of a value in a list: quotes, and what stands between it and the next
_BETWEEN = 4
#: of a row, and of the notice: what it says of every output, and of the release
_ROW, _REMARK, _REST = 4, 2048, 64 * 1024
#: a whole number of 64 bits with its sign; any float8; and what sums of many numerics have beyond the digits of one
_WHOLE, _FLOAT, _MORE = 20, 26, 24


def check_answer(plan: Plan) -> None:
    """Refuses, by public sizes, what could be longer than a message."""
    size = answer_size(plan)
    if size > LIMIT:
        raise InvalidValue(f"answer of this release could take {-(-size // (1 << 20))} MB, but the limit is {LIMIT >> 20} MB",
                           detail=f"It has {len(plan.keys)} groups with {len(plan.outputs)} aggregates each; a letter that is not ASCII "
                                  "counts six bytes or twelve.",
                           hint="Ask for fewer groups or aggregates at a time, or group by shorter values.")


def answer_size(plan: Plan) -> int:
    """The most bytes that its message can have."""
    numbers = sum(_BETWEEN + _number(output, plan) for output in plan.outputs if output.public is None)
    public = sum(_texts(output.public) for output in plan.outputs if output.public is not None)
    rows = sum(_ROW + _texts(key) for key in plan.keys)
    return rows + len(plan.keys) * numbers + public + _REMARK * len(plan.outputs) + _REST


def _texts(texts: Iterable[str | None]) -> int:
    return sum(_BETWEEN + len(json.dumps(text)) for text in texts)


def _number(output: Output, plan: Plan) -> int:
    """Letters of one value, as udf/ writes them."""
    if plan.argmax is not None:
        return len("null")
    if output.quantile is not None:
        return max(map(len, output.quantile.candidates), default=0)
    if output.mechanism in (Mechanism.AVERAGE, Mechanism.VARIANCE):
        widest = max(abs(output.low or Fraction(0)), abs(output.high or Fraction(0)))
        # a variance is at most the square of half the range, or twice that, of a sample
        return _FLOAT if output.type == "float8" else _digits(4 * widest * widest + widest) + decimals(output.step) + 4 + 2
    places = 0 if output.type == "int8" else decimals(output.step)
    on_grid = max(_WHOLE, places + 1) + 2 if places else _WHOLE + _digits(output.step)
    if output.mechanism is Mechanism.EXACT and not output.protected and output.type not in ("int8", "float8"):
        return max(on_grid, MAX_WHOLE + MAX_SCALE + _MORE)  # as the room says it, on whatever grid
    return on_grid if output.type != "float8" else max(on_grid, _FLOAT)


def _digits(value: Fraction) -> int:
    return len(str(int(value)))
