"""What is known of an expression from its columns: NULL or not, between which bounds, on which grid, and which way it moves.

Moves ("0", "+", "-") speak of one key of a KEY relation from the core to a version of it. NULL counts as less than every value, so a
value that may rise may also come out of NULL; a value that may fall keeps its move only where NULL is excluded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from .certificate import Facts
from .clamps import RANGES, clamped
from .functions import FUNCTIONS, names
from .tree import AnyOf, Call, Case, Choice, Col, Const, DistinctFrom, Expr, Logic, NullIf, NullTest, Relabel, Truth

__all__ = ["NUMBERS", "WHOLE", "Judge", "combined", "flipped"]

WHOLE = {"int2", "int4", "int8"}
NUMBERS = {"float8", "numeric", *WHOLE}
#: bounds up to here are far from every overflow, so arithmetic within them gives no NULL
_SAFE = Fraction(10) ** 100
_CASTS = {"float8", "numeric", "int4", "int8"}
_STEADY = {"floor", "ceil", "ceiling", "round", "trunc"}
_LESS, _GREATER = ("<", "<="), (">", ">=")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?")


def combined(*moves: str | None) -> str | None:
    """Several together: the common direction, if there is one."""
    found = {m for m in moves if m != "0"}
    if not found:
        return "0"
    return found.pop() if len(found) == 1 else None


def flipped(move: str | None) -> str | None:
    return {"+": "-", "-": "+", "0": "0"}.get(move or "")


class Judge:
    """Knows the columns; answers once for each expression."""

    def __init__(self, columns: Mapping[int, Facts]) -> None:
        self.columns = columns
        self._known: dict[int, tuple[Expr, Facts]] = {}

    def facts(self, expr: Expr) -> Facts:
        if id(expr) not in self._known:
            self._known[id(expr)] = (expr, self._facts(expr))
        return self._known[id(expr)][1]

    def _facts(self, expr: Expr) -> Facts:
        if isinstance(expr, Col):
            return replace(self.columns[expr.col], type=expr.type)
        if isinstance(expr, Const):
            return _constant(expr)
        args = [self.facts(a) for a in expr.args]
        found = self._compound(expr, args)
        return found if found.grid is not None or expr.type not in WHOLE else replace(found, grid=Fraction(1))

    def _compound(self, expr: Expr, args: list[Facts]) -> Facts:
        plain = Facts(expr.type, nullable=any(a.nullable for a in args), moves="0" if all(a.moves == "0" for a in args) else None)
        match expr:
            case Relabel():
                return replace(args[0], type=expr.type)
            case Call():
                return self._call(expr, args, plain)
            case AnyOf():
                return plain
            case Logic(kind="not"):
                return replace(plain, moves=None if args[0].nullable and args[0].moves != "0" else flipped(args[0].moves))
            case Logic():
                return replace(plain, moves=combined(*(a.moves for a in args)))
            case NullTest():
                rises = "0" if not args[0].nullable or args[0].moves == "0" else "+" if args[0].moves == "+" else None
                return replace(plain, nullable=False, moves=rises if expr.negated else flipped(rises))
            case Truth():
                return replace(plain, nullable=False, moves=args[0].moves if expr.test == "is true" else plain.moves)
            case Case():
                values = [*args[1:-1:2], args[-1]]
                return replace(_hull(plain, values), nullable=any(v.nullable for v in values))
            case Choice(kind="coalesce"):
                moves = args[0].moves if not args[0].nullable else plain.moves
                return replace(_hull(plain, args), nullable=all(a.nullable for a in args), moves=moves)
            case Choice():
                return _extreme(expr.kind == "greatest", plain, args)
            case NullIf():
                return replace(args[0], nullable=True, moves=plain.moves, type=expr.type)
            case DistinctFrom():
                return replace(plain, nullable=False)
            case _:
                return replace(plain, nullable=True)

    def _call(self, expr: Call, args: list[Facts], plain: Facts) -> Facts:
        if expr.fn in RANGES:
            return _ranged(expr, args[0])
        _, name, types = names(expr.fn)
        entry = FUNCTIONS.get(expr.fn)
        plain = replace(plain, nullable=plain.nullable or entry is None or entry.may_null)
        if len(types) == 2 and name in (*_LESS, *_GREATER):
            return replace(plain, moves=_compared(args, greater=name in _GREATER))
        if name in _CASTS and len(args) == 1 and types[0] in NUMBERS:
            within = _within(args[0])
            if expr.type in WHOLE and args[0].grid != 1:
                return plain
            # a cast of what is in bounds is itself: rounding to float8 keeps order and fifteen digits
            return replace(args[0], type=expr.type, nullable=args[0].nullable or (plain.nullable and not within),
                           moves=args[0].moves if within or not plain.nullable else plain.moves)
        if name == "extract" and len(args) == 2 and types[1] == "interval" and _is_epoch(expr.args[0]):
            return replace(args[1], type=expr.type, grid=None) if _within(args[1]) else plain
        if len(args) == 1:
            return _unary(name, args[0], plain)
        if name in "+-*/" and len(args) == 2:
            return _arithmetic(name, args, plain)
        if name in ("length", "char_length", "character_length", "octet_length"):
            return replace(plain, low=Fraction(0), high=Fraction(2**31))
        return plain


def _constant(expr: Const) -> Facts:
    if expr.value is None or expr.type not in NUMBERS or not _NUMBER.fullmatch(expr.value):
        return Facts(expr.type, nullable=expr.value is None, moves="0")
    value = Fraction(Decimal(expr.value))
    exact = expr.type in WHOLE or (expr.type == "numeric" and value.denominator == 1)
    return Facts(expr.type, nullable=False, low=value, high=value, grid=Fraction(1) if exact else None, moves="0")


def _is_epoch(expr: Expr) -> bool:
    return isinstance(expr, Const) and expr.value == "epoch"


def _within(*facts: Facts) -> bool:
    """In bounds that no arithmetic overflows from."""
    return all(f.low is not None and f.high is not None and max(-f.low, f.high) <= _SAFE for f in facts)


def _ranged(expr: Call, value: Facts) -> Facts:
    low, high, grid = clamped(expr)
    moves = value.moves
    if moves == "-" and value.nullable:
        moves = None  # out of NULL, which is the low bound, a value rises
    return Facts(expr.type, nullable=False, low=low, high=high, grid=grid, moves=moves)


def _compared(args: list[Facts], greater: bool) -> str | None:
    """Which way "kept" moves; a comparison with NULL is not kept."""
    above, below = (args[0], args[1]) if greater else (args[1], args[0])
    if (above.nullable and above.moves not in ("0", "+")) or (below.nullable and below.moves != "0"):
        return None
    return combined(above.moves, flipped(below.moves))


def _hull(plain: Facts, values: list[Facts]) -> Facts:
    lows, highs = [v.low for v in values], [v.high for v in values]
    grids = {v.grid for v in values}
    return replace(plain, low=min(low for low in lows if low is not None) if None not in lows else None,
                   high=max(high for high in highs if high is not None) if None not in highs else None,
                   grid=grids.pop() if len(grids) == 1 else None)


def _extreme(greatest: bool, plain: Facts, args: list[Facts]) -> Facts:
    """LEAST and GREATEST pass over NULL: only arguments that are never NULL bound the inner side."""
    pick: Callable[[list[Fraction]], Fraction] = max if greatest else min
    sure = [b for b in ((a.low if greatest else a.high) for a in args if not a.nullable) if b is not None]
    outer = [a.high if greatest else a.low for a in args]
    inner = pick(sure) if sure else None
    beyond = pick([b for b in outer if b is not None]) if None not in outer else None
    low, high = (inner, beyond) if greatest else (beyond, inner)
    moves = combined(*(a.moves for a in args))
    risky = any(a.nullable and a.moves != "0" for a in args)
    if risky and not (greatest and moves == "+"):
        moves = None
    grids = {a.grid for a in args}
    return replace(plain, nullable=all(a.nullable for a in args), low=low, high=high, moves=moves,
                   grid=grids.pop() if len(grids) == 1 else None)


def _unary(name: str, value: Facts, plain: Facts) -> Facts:
    low, high = value.low, value.high
    if name in _STEADY and value.type in NUMBERS:
        return replace(plain, low=None if low is None else Fraction(low.__floor__()),
                       high=None if high is None else Fraction(high.__ceil__()),
                       grid=Fraction(1) if plain.type == "numeric" else None, moves=value.moves)
    if name == "-" and value.type in NUMBERS and (not plain.nullable or _within(value)):
        moves = flipped(value.moves) if not value.nullable else plain.moves
        return replace(plain, nullable=value.nullable, low=None if high is None else -high, high=None if low is None else -low,
                       grid=value.grid, moves=moves)
    if name in ("abs", "@") and _within(value) and low is not None and high is not None:
        return replace(plain, low=max(low, -high, Fraction(0)), high=max(-low, high), grid=value.grid)
    return plain


def _arithmetic(name: str, args: list[Facts], plain: Facts) -> Facts:
    a, b = args
    if not _within(a, b) or a.low is None or a.high is None or b.low is None or b.high is None:
        return plain
    if name == "/" and b.low <= 0 <= b.high:
        return plain
    nullable = a.nullable or b.nullable
    ends = {"+": [a.low + b.low, a.high + b.high], "-": [a.low - b.high, a.high - b.low]}.get(name) or [
        x * y if name == "*" else x / y for x in (a.low, a.high) for y in (b.low, b.high)]
    known = replace(plain, nullable=nullable, low=min(ends), high=max(ends))
    if nullable:
        return known
    if name in "+-":
        moves = combined(a.moves, b.moves if name == "+" else flipped(b.moves))
        return replace(known, moves=moves, grid=a.grid if a.grid == b.grid else None)
    # times or over something that stays: its sign decides
    if b.moves == "0" and (b.low > 0 or (name == "*" and b.low >= 0)):
        return replace(known, moves=a.moves)
    if b.moves == "0" and b.high < 0:
        return replace(known, moves=flipped(a.moves))
    if name == "*" and a.moves == "0" and a.low >= 0:
        return replace(known, moves=b.moves)
    return known
