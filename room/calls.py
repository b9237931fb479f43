"""What a call costs: nanoseconds of one evaluation on the largest arguments, on an idle machine.

Every function, operator and cast that may stand in a release has a line; what has none is refused.
bench/allowance.py measures each class on the worst arguments known and prints both numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import product

from privid.calculus.tree import Const, Expr
from privid.errors import NoRule

from .premises import Order, Room
from .sizes import GROWTH as _GROWTH
from .sizes import MAX_SCALE, MAX_WHOLE, Size, text

__all__ = ["CALLS", "NODE", "call", "compare", "equal", "hashed"]

#: an expression's own part in evaluating it, whatever it is
NODE = 10


Cost = Callable[[Sequence[Size], Sequence[Expr], Room], int]


def call(fn: str, sizes: Sequence[Size], args: Sequence[Expr], room: Room, loc: int = -1) -> int:
    """One evaluation of a function, an operator or a cast, its arguments being there."""
    cost = CALLS.get(fn)
    if cost is None:
        raise NoRule(
            f'no bound is known for the time of "{fn}"',
            detail="The time of a release is bounded before it begins.",
            hint="Use the functions that privid.allowed_calls lists.",
            position=loc if loc >= 0 else None,
        )
    return NODE + cost(sizes, args, room)


# Comparing and hashing


def equal(size: Size) -> int:
    """x = y. Texts are compared by their bytes in every collation."""
    return 15 + size.bytes // 20 + size.digits // 2


def compare(a: Size, b: Size, room: Room) -> int:
    """x < y."""
    cost = 20 + (a.bytes + b.bytes) // 20 + (a.digits + b.digits) // 2
    match room.order:
        case Order.ICU:
            # marks that could belong to what comes later are looked for anew from each of them
            cost += 40 * (a.chars + b.chars) + 100 * a.chars * b.chars
        case Order.LIBC:
            cost += 10_000 * a.chars * b.chars
    return cost


def hashed(size: Size) -> int:
    """The hash of a value; a numeric is printed for it."""
    return 25 + size.bytes + 8 * size.digits


def _equal(sizes: Sequence[Size], args: Sequence[Expr], room: Room) -> int:
    return equal(Size(min(sizes[0].bytes, sizes[1].bytes), 0, *_longer(sizes)))


def _longer(sizes: Sequence[Size]) -> tuple[int, int]:
    return max(sizes[0].whole, sizes[1].whole), max(sizes[0].scale, sizes[1].scale)


def _compare(sizes: Sequence[Size], args: Sequence[Expr], room: Room) -> int:
    return compare(sizes[0], sizes[1], room)


# Texts


def _linear(base: int, per_char: int) -> Cost:
    """Every character is looked at."""
    return lambda sizes, args, room: base + per_char * sum(s.chars for s in sizes)


def _cased(sizes: Sequence[Size], args: Sequence[Expr], room: Room) -> int:
    return 200 + (40 if room.order is Order.ICU else 14) * sizes[0].chars


def _found(sizes: Sequence[Size], args: Sequence[Expr], room: Room) -> int:
    """A text within another, at worst with almost all of it compared at every character."""
    where, sought = sizes[0], min(sizes[1].bytes, sizes[0].bytes // 2)
    return 150 + where.chars * sought // 2 + 16 * where.chars + 4 * sizes[1].chars


def _like(sizes: Sequence[Size], args: Sequence[Expr], room: Room) -> int:
    """At every place of the text the longest part between two % may be compared almost to its end;
    a part that was found is never looked for again: PostgreSQL gives up when the text ends."""
    part = 3 * sizes[1].bytes
    if isinstance(args[1], Const) and args[1].value is not None:
        # what is escaped is a letter like others
        pieces = re.sub(r"\\.", chr(0x1D49C), args[1].value, flags=re.DOTALL).split("%")
        part = max(2 * len(piece.encode()) + piece.count("_") for piece in pieces)
    return 100 + sizes[0].chars * (20 + part) + 3 * sizes[1].bytes


def _ilike(sizes: Sequence[Size], args: Sequence[Expr], room: Room) -> int:
    """Both in small letters, and then as LIKE compares them. A letter can take four bytes then; with ICU one can become three."""
    growth = _GROWTH if room.order is Order.ICU else 1
    small = [text(growth * size.chars) for size in sizes]
    pattern = args[1]
    if isinstance(pattern, Const) and pattern.value is not None:
        pattern = Const(type="text", value=re.sub(r"[^%_\\]", growth * chr(0x1D49C), pattern.value))
    return sum(_cased([size], args, room) for size in sizes) + _like(small, [args[0], pattern], room)


def _read(base: int) -> Cost:
    """A number, or what is none, in a text: every character, and a copy of the text."""
    return lambda sizes, args, room: base + 3 * sizes[0].chars + sizes[0].bytes // 8


def _formatted(sizes: Sequence[Size], args: Sequence[Expr], room: Room) -> int:
    return 1_000 + 130 * sizes[1].bytes + 8 * sizes[0].digits  # a letter of a year of ISO 8601 takes 110


# Numbers


def _fixed(cost: int) -> Cost:
    return lambda sizes, args, room: cost


def _as_double(sizes: Sequence[Size]) -> int:
    """Every argument of a twin is printed and read as a double first."""
    return 100 * len(sizes) + 4 * sum(s.digits for s in sizes)


def _capped(size: Size) -> int:
    """Digits of a number that a twin computes with."""
    return min(size.whole, MAX_WHOLE) + min(size.scale, MAX_SCALE)


def _added(sizes: Sequence[Size], args: Sequence[Expr], room: Room) -> int:
    return 200 + _as_double(sizes) + sum(map(_capped, sizes))


def _multiplied(sizes: Sequence[Size], args: Sequence[Expr], room: Room) -> int:
    # a product with too many digits is not computed
    digits = min(_capped(sizes[0]) + _capped(sizes[1]), 2 * MAX_WHOLE + MAX_SCALE)
    return 250 + _as_double(sizes) + digits * digits // 100


def _divided(sizes: Sequence[Size], args: Sequence[Expr], room: Room) -> int:
    """Long division: the digits of the quotient times those of the divisor."""
    a, b = sizes
    whole = min(a.whole + b.scale, 2 * MAX_WHOLE + MAX_SCALE)
    scale = min(max(a.scale, b.scale, 20 + b.whole + a.scale), 1000)
    return 400 + _as_double(sizes) + (whole + scale) * _capped(b) // 6


def _digits(base: int, per_digit: int = 0) -> Cost:
    """Digits are printed; or, four at a time, looked at."""
    return lambda sizes, args, room: base + per_digit * sizes[0].digits + sizes[0].digits // 4


_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
_WHOLE = ("int2", "int4", "int8")
_MOMENTS = ("date", "timestamp", "timestamptz")
_TIMES = (*_MOMENTS, "time", "interval")


def _comparisons() -> dict[str, Cost]:
    types = [(t, t) for t in ("float8", "text", "boolean", "numeric", "anyenum", *_TIMES)]
    types += list(product(_WHOLE, _WHOLE)) + [
        (a, b) for a, b in product(_MOMENTS, _MOMENTS) if a != b
    ]
    found: dict[str, Cost] = {}
    for op, (a, b) in product(_COMPARISONS, types):
        cost: Cost = _equal if op in ("=", "<>") and a == b else _compare
        if (a != b and "date" in (a, b)) or {a, b} == {"timestamp", "timestamptz"}:
            cost = _fixed(150)  # through the session's time zone
        found[f"{op}({a},{b})"] = cost
    return found


def _numbers() -> dict[str, Cost]:
    whole = list(product(_WHOLE, _WHOLE))
    found: dict[str, Cost] = {f"{op}({a},{b})": _fixed(50) for op, (a, b) in product("+-*/", whole)}
    found |= {f"{op}({t},{t})": _fixed(50) for op, t in product(("%", "mod"), _WHOLE)}
    found |= {f"{op}(float8,float8)": _fixed(30) for op in "+-*/"}
    found |= {f"{name}({t})": _fixed(50) for name, t in product(("-", "+", "@", "abs"), _WHOLE)}
    steps = ("-", "+", "@", "abs", "floor", "ceil", "ceiling", "round", "trunc", "sign")
    found |= {f"{name}(float8)": _fixed(30) for name in steps}
    found |= {f"{name}(numeric)": _digits(120) for name in (*steps, "trim_scale")}
    found |= {f"{name}(float8)": _fixed(70) for name in ("sqrt", "ln", "log", "exp")}
    found |= {f"{name}(float8,float8)": _fixed(120) for name in ("power", "pow")}
    pair = "(numeric,numeric)"
    found |= {
        f"+{pair}": _added,
        f"-{pair}": _added,
        f"*{pair}": _multiplied,
        f"/{pair}": _divided,
        f"%{pair}": _divided,
        f"mod{pair}": _divided,
    }
    found |= {f"{name}(numeric,int4)": _digits(150) for name in ("round", "trunc", "numeric")}
    found |= {f"{to}(numeric)": _digits(200, 4) for to in ("int4", "int8", "float8")}
    casts = (
        "int8(int4)",
        "float8(int4)",
        "float8(int8)",
        "int4(float8)",
        "int8(float8)",
        "int4(int8)",
    )
    found |= {cast: _fixed(40) for cast in casts}
    found |= {
        "numeric(int4)": _fixed(150),
        "numeric(int8)": _fixed(150),
        "numeric(float8)": _fixed(900),
    }
    return found


def _texts() -> dict[str, Cost]:
    found: dict[str, Cost] = {f"{name}(text)": _cased for name in ("lower", "upper")}
    found |= {
        f"{name}(text)": _linear(60, 5) for name in ("length", "char_length", "character_length")
    }
    found |= {
        "octet_length(text)": _linear(20, 1),
        "text(boolean)": _fixed(60),
        "int4(boolean)": _fixed(20),
        "width_bucket(float8,float8,float8,int4)": _fixed(60),
        "to_timestamp(float8)": _fixed(150),
        "||(text,text)": _linear(120, 6),
    }
    found |= {f"{name}(text)": _linear(150, 9) for name in ("btrim", "ltrim", "rtrim")}
    found |= {f"{name}(text,text)": _linear(150, 6) for name in ("starts_with", "^@")}
    names_ = ("left", "right", "substring", "substr")
    found |= {f"{name}(text,int4)": _linear(150, 10) for name in names_}
    found |= {f"{name}(text,int4,int4)": _linear(150, 10) for name in names_[2:]}
    found |= {f"{name}(text,text)": _found for name in ("strpos", "position")}
    found["split_part(text,text,int4)"] = _found
    return found | {f"{name}(text,text)": _like for name in ("~~", "!~~", "like", "notlike")} | {
        f"{name}(text,text)": _ilike for name in ("~~*", "!~~*")}


def _named(base: int) -> Cost:
    """A unit or a time zone, which is copied and looked up in small letters."""
    return lambda sizes, args, room: base + 4 * sum(s.chars + s.bytes for s in sizes if s.chars)


def _moments() -> dict[str, Cost]:
    """Arithmetic and parts of moments; a time zone is looked up in a table, a unit in another."""
    found: dict[str, Cost] = {
        f"{name}(text,{t})": _named(500) for name, t in product(("extract", "date_part"), _TIMES)
    }
    found |= {
        f"date_trunc(text,{t})": _named(130) for t in ("timestamptz", "timestamp", "interval")
    }
    found["date_trunc(text,timestamptz,text)"] = _named(500)
    found |= {f"date_bin(interval,{t},{t})": _fixed(60) for t in ("timestamptz", "timestamp")}
    found |= {
        f"timezone({zone},{t})": _named(500)
        for zone, t in product(("text", "interval"), ("timestamptz", "timestamp"))
    }
    found |= {f"to_char({t},text)": _formatted for t in ("timestamptz", "timestamp", "numeric")}
    found |= {f"{op}({t},interval)": _fixed(150) for op, t in product("+-", _TIMES)}
    found |= {f"+(interval,{t})": _fixed(150) for t in _TIMES}
    found |= {f"-({t},{t})": _fixed(80) for t in _TIMES}
    found |= {f"{op}(date,int4)": _fixed(50) for op in "+-"} | {"+(int4,date)": _fixed(50)}
    found |= {
        f"{call_}": _fixed(150)
        for call_ in (
            "-(interval)",
            "*(interval,float8)",
            "*(float8,interval)",
            "/(interval,float8)",
        )
    }
    found |= {
        f"{to}({of})": _fixed(150)
        for to, of in product(("date", "timestamp", "timestamptz", "time"), _MOMENTS)
        if to != of
    }
    return found


def _calls() -> dict[str, Cost]:
    inside = _comparisons() | _numbers() | _texts() | _moments()
    found = {f"pg_catalog.{name}": cost for name, cost in inside.items()}
    for schema in ("privid", "public"):
        found[f"{schema}.range(float8,float8,float8)"] = _fixed(500)
        found |= {
            f"{schema}.{name}(timestamptz)": _fixed(130)
            for name in ("minute", "hour", "day", "week", "month", "year")
        }
        found |= {
            f"{schema}.bin({types})": _fixed(60)
            for types in (
                "timestamptz,interval",
                "interval,timestamptz",
                "timestamptz,interval,timestamptz",
            )
        }
    found |= {
        f"privid.total_{name}(float8,float8)": _fixed(50) for name in ("add", "sub", "mul", "div")
    }
    found |= {
        "cast(text,float8)": _read(400),
        "cast(text,int4)": _read(80),
        "cast(text,int8)": _read(80),
        "cast(text,boolean)": _read(80),
        "cast(float8,text)": _fixed(250),
        "cast(int4,text)": _fixed(80),
        "cast(int8,text)": _fixed(80),
        "cast(anyenum,text)": _fixed(300),
        "cast(date,text)": _fixed(300),
        "cast(timestamptz,text)": _fixed(400),
        "cast(numeric,text)": _digits(150, 3),
    }
    return found


#: by identity
CALLS = _calls()
