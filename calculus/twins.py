"""What the room evaluates in the place of functions that could raise on a program's output.

A twin gives what the original gives, and NULL where the original would raise. The library has them
(fdw/total.c), the room's schema declares them. Which functions may touch untrusted values at all is
the calculus' business (calculus/functions.py); a test holds the lists together.
"""

from __future__ import annotations

from itertools import product

__all__ = ["AGGREGATES", "SCHEMA", "TWINS"]

#: the room's own schema
SCHEMA = "room"


def _twins() -> dict[str, str]:
    pairs = ("float8,float8", "numeric,numeric", "int4,int4", "int8,int8", "int4,int8", "int8,int4")
    words = {"+": "add", "-": "sub", "*": "mul", "/": "div"}
    found = {f"pg_catalog.{op}({pair})": f"total_{words[op]}" for op, pair in product(words, pairs)}
    found |= {f"pg_catalog.%({t},{t})": "total_mod" for t in ("int4", "int8", "numeric")}
    found |= {f"pg_catalog.mod({t},{t})": "total_mod" for t in ("int4", "int8", "numeric")}
    found |= {f"pg_catalog.-({t})": "total_neg" for t in ("int4", "int8")}
    found |= {f"pg_catalog.{f}(float8)": f"total_{f}" for f in ("sqrt", "ln", "log", "exp")}
    found |= {f"pg_catalog.{name}(float8,float8)": "total_power" for name in ("power", "pow")}
    found |= {
        "pg_catalog.substring(text,int4,int4)": "total_substring",
        "pg_catalog.substr(text,int4,int4)": "total_substring",
        "pg_catalog.split_part(text,text,int4)": "total_split_part",
        "pg_catalog.||(text,text)": "total_concat",
        "pg_catalog.width_bucket(float8,float8,float8,int4)": "total_width_bucket",
        "pg_catalog.-(timestamptz,timestamptz)": "total_sub",
        "pg_catalog.extract(text,interval)": "total_extract",
    }
    casts = ("int4(numeric)", "int4(float8)", "int4(int8)", "int8(numeric)", "int8(float8)",
             "float8(numeric)")
    found |= {f"pg_catalog.{cast}": f"total_{cast.partition('(')[0]}" for cast in casts}
    texts = ("float8", "int4", "int8", "boolean")
    return found | {f"cast(text,{to})": f"total_{to}" for to in texts}


def _aggregates() -> dict[str, str]:
    """Sums of whole numbers and of numeric are far from every overflow; sums of float8 are not."""
    spreads = ("variance", "var_pop", "var_samp", "stddev", "stddev_pop", "stddev_samp")
    extremes = ("float8", "numeric", "int4", "int8", "text", "timestamptz", "date", "interval")
    own = ["count()", "count(any)"]
    own += [f"{name}({t})" for name, t in product(("sum", "avg"), ("numeric", "int4", "int8"))]
    own += [f"{name}({t})" for name, t in product(("min", "max"), extremes)]
    own += [f"{name}(numeric)" for name in spreads]
    found = {f"pg_catalog.{one}": f'pg_catalog."{one.partition("(")[0]}"' for one in own}
    twins = ("sum", "avg", *spreads)
    return found | {f"pg_catalog.{name}(float8)": f"{SCHEMA}.total_{name}" for name in twins}


#: identity of a function, an operator or a cast: its twin
TWINS: dict[str, str] = {fn: f"{SCHEMA}.{name}" for fn, name in _twins().items()}
#: identity of every aggregate that may stand in a release: what is evaluated for it
AGGREGATES: dict[str, str] = _aggregates()
