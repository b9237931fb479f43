"""How large a value can be, whatever a program writes: bytes, characters, digits.

The bounds are public: of columns by what is kept of a program's output (sandbox/rows.py), of
constants and public rows by what they are, of results by what a function can make of its arguments.
The total twins (fdw/total.c) keep values from growing from step to step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal, InvalidOperation
from typing import NamedTuple

from privid.calculus.tree import Const, Expr
from privid.sandbox.rows import MAX_TEXT

__all__ = [
    "EMPTY",
    "FIXED",
    "GROWTH",
    "MAX_CONCAT",
    "MAX_LABEL",
    "MAX_SCALE",
    "MAX_WHOLE",
    "RESULTS",
    "Size",
    "enum",
    "fixed",
    "join_sizes",
    "number",
    "of_literal",
    "program_text",
    "result",
    "text",
]

#: characters after which || cuts (fdw/total.c, MAX_TEXT)
MAX_CONCAT = 8192
#: digits before and after the point of what arithmetic with numeric yields (MAX_NUMERIC, MAX_SCALE)
MAX_WHOLE, MAX_SCALE = 302, 699
#: digits after the point of any numeric
MAX_DISPLAY = 16383
#: bytes of an enum's label
MAX_LABEL = 63
#: characters that one character can become in another case
GROWTH = 3


class Size(NamedTuple):
    """The most that a value can be. What does not apply to its type is zero."""

    bytes: int
    chars: int = 0
    whole: int = 0  # digits before the point of a numeric
    scale: int = 0  # and after it

    @property
    def digits(self) -> int:
        return self.whole + self.scale


EMPTY = Size(0)
#: bytes of the types that have one size
FIXED = {
    "boolean": 1,
    "int2": 2,
    "int4": 4,
    "int8": 8,
    "float4": 4,
    "float8": 8,
    "date": 4,
    "time": 8,
    "timetz": 12,
    "timestamp": 8,
    "timestamptz": 8,
    "interval": 16,
    "uuid": 16,
}
_TEXTS = {"text", "varchar", "bpchar"}


def text(chars: int, bytes_: int | None = None) -> Size:
    """A text of so many characters, of four bytes at most."""
    return Size(4 * chars if bytes_ is None else min(bytes_, 4 * chars), chars)


def number(whole: int, scale: int = 0) -> Size:
    """A numeric: four digits take two bytes."""
    return Size((whole + scale) // 2 + 12, 0, whole, scale)


def fixed(type_: str) -> Size:
    """A value of a type whose values have one size; an enum's is that of its number."""
    return Size(FIXED.get(type_, 16))


def enum(labels: Sequence[str] = ()) -> Size:
    """An enum: a number, and the label that it is printed as."""
    chars = max(map(len, labels), default=MAX_LABEL)
    return Size(4, chars)


def program_text() -> Size:
    """What is kept of a program's text."""
    return text(MAX_TEXT)


def of_literal(value: str | None, type_: str) -> Size:
    """A constant, or a value of a public row, by its text form."""
    if value is None:
        return EMPTY
    if type_ in FIXED:
        return fixed(type_)
    if type_ == "numeric":
        return _of_number(value)
    bytes_ = len(value) if value.isascii() else 4 * len(value)
    if type_ in _TEXTS:
        return Size(bytes_, len(value))
    return Size(max(bytes_, 4), len(value))  # an enum, or what stays the text that it was


def _of_number(value: str) -> Size:
    try:
        _, digits, exponent = Decimal(value).as_tuple()
    except InvalidOperation:
        return number(1)
    if not isinstance(exponent, int):  # NaN, infinity
        return number(1)
    return number(max(len(digits) + exponent, 1), max(-exponent, 0))


def join_sizes(sizes: Iterable[Size]) -> Size:
    """A value that is one of several."""
    bytes_ = chars = whole = scale = 0
    for size in sizes:
        bytes_, chars = max(bytes_, size.bytes), max(chars, size.chars)
        whole, scale = max(whole, size.whole), max(scale, size.scale)
    return Size(bytes_, chars, whole, scale)


Result = Callable[[Sequence[Size], Sequence[Expr]], Size]


def result(fn: str, type_: str, sizes: Sequence[Size], args: Sequence[Expr]) -> Size:
    """What a call yields."""
    if type_ in FIXED:
        return fixed(type_)
    found = RESULTS.get(fn)
    return found(sizes, args) if found is not None else join_sizes(sizes)


def _whole_constant(expr: Expr) -> int | None:
    if isinstance(expr, Const) and expr.value is not None and expr.value.lstrip("-").isdigit():
        return int(expr.value)
    return None


def _cut(place: int) -> Result:
    """At most as many characters as argument `place` says, if it is a constant."""

    def size(sizes: Sequence[Size], args: Sequence[Expr]) -> Size:
        kept = _whole_constant(args[place])
        if kept is None or kept < 0:  # left(t, -2): all but two
            return sizes[0]
        return text(min(kept, sizes[0].chars), sizes[0].bytes)

    return size


def _concatenated(sizes: Sequence[Size], args: Sequence[Expr]) -> Size:
    return text(min(sizes[0].chars + sizes[1].chars, MAX_CONCAT), sizes[0].bytes + sizes[1].bytes)


def _cased(sizes: Sequence[Size], args: Sequence[Expr]) -> Size:
    return text(GROWTH * sizes[0].chars, 4 * GROWTH * sizes[0].chars)


def _formatted(sizes: Sequence[Size], args: Sequence[Expr]) -> Size:
    """to_char reserves twelve bytes for each of the format."""
    return text(12 * sizes[1].bytes + 64)


def _printed(chars: int) -> Result:
    return lambda sizes, args: text(chars, chars)


def _modest(whole: int, scale: int) -> Size:
    return number(min(whole, MAX_WHOLE), min(scale, MAX_SCALE))


def _sum(sizes: Sequence[Size], args: Sequence[Expr]) -> Size:
    return _modest(max(sizes[0].whole, sizes[1].whole) + 1, max(sizes[0].scale, sizes[1].scale))


def _product(sizes: Sequence[Size], args: Sequence[Expr]) -> Size:
    return _modest(sizes[0].whole + sizes[1].whole, sizes[0].scale + sizes[1].scale)


def _quotient(sizes: Sequence[Size], args: Sequence[Expr]) -> Size:
    """PostgreSQL keeps sixteen significant digits or more."""
    a, b = sizes
    return _modest(a.whole + b.scale, max(a.scale, b.scale, 20 + b.whole + a.scale))


def _rounded(sizes: Sequence[Size], args: Sequence[Expr]) -> Size:
    kept = _whole_constant(args[1])
    return number(
        sizes[0].whole + 1, min(max(MAX_DISPLAY if kept is None else kept, 0), MAX_DISPLAY)
    )


def _first(sizes: Sequence[Size], args: Sequence[Expr]) -> Size:
    return sizes[0]


def _integer(sizes: Sequence[Size], args: Sequence[Expr]) -> Size:
    return number(sizes[0].whole + 1)


def _exactly(whole: int, scale: int = 0) -> Result:
    return lambda sizes, args: number(whole, scale)


def _results() -> dict[str, Result]:
    found: dict[str, Result] = {}
    for name in ("lower", "upper"):
        found[f"{name}(text)"] = _cased
    for name in ("btrim", "ltrim", "rtrim"):
        found[f"{name}(text)"] = _first
    for name in ("left", "right"):
        found[f"{name}(text,int4)"] = _cut(1)
    for name in ("substring", "substr"):
        found[f"{name}(text,int4)"], found[f"{name}(text,int4,int4)"] = _first, _cut(2)
    found |= {
        "split_part(text,text,int4)": _first,
        "||(text,text)": _concatenated,
        "text(boolean)": _printed(5),
    }
    for of in ("timestamptz", "timestamp", "numeric"):
        found[f"to_char({of},text)"] = _formatted
    pair = "(numeric,numeric)"
    found |= {
        f"+{pair}": _sum,
        f"-{pair}": _sum,
        f"*{pair}": _product,
        f"/{pair}": _quotient,
        f"%{pair}": _sum,
        f"mod{pair}": _sum,
    }
    for name in ("-", "+", "@", "abs", "trim_scale"):
        found[f"{name}(numeric)"] = _first
    for name in ("floor", "ceil", "ceiling", "round", "trunc", "sign"):
        found[f"{name}(numeric)"] = _integer
    found |= {
        "round(numeric,int4)": _rounded,
        "trunc(numeric,int4)": _rounded,
        "numeric(numeric,int4)": lambda sizes, args: number(sizes[0].whole + 1, 1000),
        "numeric(int4)": _exactly(10),
        "numeric(int8)": _exactly(19),
        "numeric(float8)": _exactly(309, 340),
    }
    for of in ("timestamptz", "timestamp", "date", "time", "interval"):
        found[f"extract(text,{of})"] = _exactly(20, 40)
    named = {f"pg_catalog.{name}": size for name, size in found.items()}
    for schema in ("privid", "public"):
        named[f"{schema}.range(float8,float8,float8)"] = _exactly(19, 12)
    prints = {"float8": 25, "int4": 11, "int8": 20, "timestamptz": 48, "date": 24}
    named |= {f"cast({of},text)": _printed(chars) for of, chars in prints.items()}
    named["cast(numeric,text)"] = lambda sizes, args: text(sizes[0].digits + 2, sizes[0].digits + 2)
    named["cast(anyenum,text)"] = lambda sizes, args: text(sizes[0].chars or MAX_LABEL)
    return named


#: results that are text or numeric; all others have one size
RESULTS = _results()
