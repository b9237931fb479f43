"""Which functions and operators a rule may meet, by identity, and on which values each may be applied.

An expression over what an executable outputs must be total: an error would show what the video shows. So every entry is of one class:

- TOTAL: never raises, whatever the arguments. Arithmetic and many casts are total because the room evaluates versions of its own
  (calculus/twins.py), which yield NULL where PostgreSQL's would raise.
- PATTERN: total when the pattern is a constant that does not end in an escape.
- TRUSTED_ONLY: may raise. On chunk, region and constants that is public, and it is tried on every selected chunk before the charge.

What is not listed is refused. The library has its own list of what it serialises; a test compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from itertools import product

__all__ = ["FUNCTIONS", "Function", "FunctionClass", "is_operator", "names"]


class FunctionClass(Enum):
    TOTAL = "total"
    PATTERN = "pattern"
    TRUSTED_ONLY = "trusted only"


@dataclass(frozen=True)
class Function:
    kind: FunctionClass
    #: arguments that are not NULL may give NULL all the same
    may_null: bool = False


def names(fn: str) -> tuple[str, str, tuple[str, ...]]:
    """Schema, name and argument types of an identity.

    >>> names('pg_catalog.<(float8,float8)')
    ('pg_catalog', '<', ('float8', 'float8'))
    """
    path, _, types = fn.partition("(")
    schema, _, name = path.rpartition(".") if path.startswith("cast") else path.partition(".")
    return schema, name, tuple(t for t in types.rstrip(")").split(",") if t)


def is_operator(fn: str) -> bool:
    """Operators are written with symbols, functions with letters."""
    return not (names(fn)[1][:1].isalpha() or names(fn)[1].startswith("_"))


_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
_WHOLE = ("int2", "int4", "int8")
_MOMENTS = ("date", "timestamp", "timestamptz")


def _total() -> list[str]:
    same = ("float8", "text", "boolean", "timestamptz", "timestamp", "date", "time", "interval", "numeric")
    found = [f"pg_catalog.{op}({t},{t})" for op, t in product(_COMPARISONS, same)]
    found += [f"pg_catalog.{op}({a},{b})" for op, a, b in product(_COMPARISONS, _WHOLE, _WHOLE)]
    found += [f"pg_catalog.{op}(anyenum,anyenum)" for op in _COMPARISONS]
    found += [f"pg_catalog.{op}({t})" for op, t in product(("-", "+", "@", "abs", "floor", "ceil", "ceiling", "round", "trunc", "sign"),
                                                           ("float8", "numeric"))]
    found += ["pg_catalog.round(numeric,int4)", "pg_catalog.trunc(numeric,int4)", "pg_catalog.trim_scale(numeric)"]
    found += [f"pg_catalog.{name}(text)" for name in ("lower", "upper", "length", "char_length", "character_length", "octet_length",
                                                      "btrim", "ltrim", "rtrim")]
    found += [f"pg_catalog.{name}(text,text)" for name in ("starts_with", "^@", "strpos", "position")]
    found += [f"pg_catalog.{name}(text,int4)" for name in ("left", "right", "substring", "substr")]
    # casts to a type that holds every value of the other, and to text
    found += ["pg_catalog.int8(int4)", "pg_catalog.numeric(int4)", "pg_catalog.numeric(int8)", "pg_catalog.float8(int4)",
              "pg_catalog.float8(int8)", "pg_catalog.numeric(float8)", "pg_catalog.text(boolean)", "pg_catalog.int4(boolean)"]
    found += [f"cast({t},text)" for t in ("float8", "numeric", "int4", "int8", "anyenum", "timestamptz", "date")]
    found += [f"{schema}.range(float8,float8,float8)" for schema in ("privid", "public")]
    return found


def _null_instead_of_an_error() -> list[str]:
    pairs = ("float8,float8", "numeric,numeric", "int4,int4", "int8,int8", "int4,int8", "int8,int4")
    found = [f"pg_catalog.{op}({pair})" for op, pair in product("+-*/", pairs)]
    found += [f"pg_catalog.%({t},{t})" for t in ("int4", "int8", "numeric")] + ["pg_catalog.-(int4)", "pg_catalog.-(int8)"]
    found += ["pg_catalog.-(timestamptz,timestamptz)", "pg_catalog.extract(text,interval)", "pg_catalog.||(text,text)"]
    found += [f"pg_catalog.{name}(float8)" for name in ("sqrt", "ln", "log", "exp")]
    found += [f"pg_catalog.{name}(float8,float8)" for name in ("power", "pow")]
    found += [f"pg_catalog.{name}(text,int4,int4)" for name in ("substring", "substr")] + ["pg_catalog.split_part(text,text,int4)"]
    found += ["pg_catalog.width_bucket(float8,float8,float8,int4)"]
    found += [f"pg_catalog.mod({t},{t})" for t in ("int4", "int8", "numeric")]
    found += [f"pg_catalog.{to}({of})" for to, of in (("int4", "numeric"), ("int8", "numeric"), ("float8", "numeric"), ("int4", "float8"),
                                                      ("int8", "float8"), ("int4", "int8"))]
    return found + [f"cast(text,{t})" for t in ("float8", "int4", "int8", "boolean")]


def _trusted_only() -> list[str]:
    found = ["pg_catalog.date_trunc(text,timestamptz)", "pg_catalog.date_trunc(text,timestamptz,text)",
             "pg_catalog.date_trunc(text,timestamp)", "pg_catalog.date_trunc(text,interval)",
             "pg_catalog.date_bin(interval,timestamptz,timestamptz)", "pg_catalog.date_bin(interval,timestamp,timestamp)",
             "pg_catalog.timezone(text,timestamptz)", "pg_catalog.timezone(text,timestamp)",
             "pg_catalog.timezone(interval,timestamptz)", "pg_catalog.timezone(interval,timestamp)",
             "pg_catalog.to_char(timestamptz,text)", "pg_catalog.to_char(timestamp,text)", "pg_catalog.to_char(numeric,text)"]
    found += [f"pg_catalog.{name}(text,{t})" for name in ("extract", "date_part")
              for t in ("timestamptz", "timestamp", "date", "time", "interval")]
    # moments: arithmetic, comparison across types, casts
    found += [f"pg_catalog.{op}({t},interval)" for op, t in product("+-", ("timestamptz", "timestamp", "date", "interval", "time"))]
    found += [f"pg_catalog.+(interval,{t})" for t in ("timestamptz", "timestamp", "date", "time")]
    found += [f"pg_catalog.-({t},{t})" for t in (*_MOMENTS, "time")]
    found += ["pg_catalog.+(date,int4)", "pg_catalog.-(date,int4)", "pg_catalog.+(int4,date)", "pg_catalog.-(interval)",
              "pg_catalog.*(interval,float8)", "pg_catalog.*(float8,interval)", "pg_catalog./(interval,float8)"]
    found += [f"pg_catalog.{op}({a},{b})" for op, a, b in product(_COMPARISONS, _MOMENTS, _MOMENTS) if a != b]
    found += ["pg_catalog.date(timestamptz)", "pg_catalog.date(timestamp)", "pg_catalog.timestamp(timestamptz)",
              "pg_catalog.timestamp(date)", "pg_catalog.timestamptz(timestamp)", "pg_catalog.timestamptz(date)",
              "pg_catalog.time(timestamptz)", "pg_catalog.time(timestamp)"]
    found += [f"{schema}.{name}(timestamptz)" for schema in ("privid", "public")
              for name in ("minute", "hour", "day", "week", "month", "year")]
    found += [f"{schema}.bin(timestamptz,interval)" for schema in ("privid", "public")]
    # numbers: extract yields numeric, and the rest follows from it
    found += [f"pg_catalog.{op}({t},{t})" for op, t in product("+-*/%", ("int2", "int4", "int8", "numeric"))]
    found += [f"pg_catalog.{op}({a},{b})" for op, a, b in product("+-*/", _WHOLE, _WHOLE) if a != b]
    found += [f"pg_catalog.{name}({t})" for name, t in product(("-", "+", "@", "abs"), (*_WHOLE, "numeric"))]
    found += [f"pg_catalog.{name}(numeric)" for name in ("floor", "ceil", "ceiling", "round", "trunc", "sign")]
    found += ["pg_catalog.round(numeric,int4)", "pg_catalog.trunc(numeric,int4)", "pg_catalog.to_timestamp(float8)"]
    found += ["pg_catalog.int4(numeric)", "pg_catalog.int4(float8)", "pg_catalog.int4(int8)", "pg_catalog.int8(numeric)",
              "pg_catalog.int8(float8)", "pg_catalog.float8(numeric)", "pg_catalog.numeric(numeric,int4)"]
    found += ["cast(timestamptz,text)", "cast(date,text)"]
    return found


FUNCTIONS: dict[str, Function] = {
    **{fn: Function(FunctionClass.TRUSTED_ONLY, may_null=True) for fn in _trusted_only()},
    **{fn: Function(FunctionClass.TOTAL, may_null=True) for fn in _null_instead_of_an_error()},
    **{fn: Function(FunctionClass.TOTAL) for fn in _total()},
    **{f"pg_catalog.{name}(text,text)": Function(FunctionClass.PATTERN) for name in ("~~", "!~~", "~~*", "!~~*", "like", "notlike")},
}
