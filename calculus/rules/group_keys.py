"""GROUP BY what an executable outputs: only keys that the statement or the type declares, and all of them, every time.

Proof: group_keys.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from privid.errors import NoRule

from .. import show
from ..alike import alike_text
from ..expressions import Scope
from ..functions import names
from ..tree import AnyOf, Call, Const, Expr, bare, position

__all__ = ["RULE", "declared", "says"]

RULE = "group by declared keys"
#: types of constants that a list of keys may have: equal values print alike, once they are in the form that keys have (alike.py)
_EXACT = {"float8", "numeric", "text", "boolean", "anyenum", "int2", "int4", "int8"}


def declared(expr: Expr, conditions: Sequence[Expr], scope: Scope) -> tuple[str | None, ...]:
    """The keys of one group column: an IN list, else the labels of its type."""
    inside = bare(expr)
    lists = [keys for keys in (_listed(condition, inside) for condition in conditions) if keys is not None]
    if lists:
        return min(lists, key=len)
    facts = scope.facts(expr)
    if expr.type == "boolean":
        return ("f", "t", None) if facts.nullable else ("f", "t")
    if facts.labels is not None:
        return (*facts.labels, None) if facts.nullable else facts.labels
    name = show.expression(expr)
    raise NoRule(f"GROUP BY {name} has no rule without declared keys", position=position(expr.loc),
                 detail="Which groups appear would show what the video shows.",
                 hint=f"Declare the keys, for example WHERE {name} IN ('a', 'b'), make the column boolean or an enum, or write "
                      f"FROM (VALUES ('a'), ('b')) k(key) LEFT JOIN ... ON {name} = key GROUP BY key.")


def says(expressions: Sequence[Expr], keys: int) -> str:
    return f"{', '.join(map(show.expression, expressions))}: {keys} declared keys, each in the answer every time"


def _listed(condition: Expr, inside: Expr) -> tuple[str, ...] | None:
    """The constants to which a condition restricts the expression, as the type prints them."""
    if isinstance(condition, AnyOf) and not condition.all:
        subject, items = condition.args[0], condition.args[1:]
    elif isinstance(condition, Call) and len(condition.args) == 2:
        subject, items = condition.args[0], condition.args[1:]
        if isinstance(bare(subject), Const):
            subject, items = condition.args[1], condition.args[:1]
    else:
        return None
    schema, name, types = names(condition.fn)
    if (schema, name) != ("pg_catalog", "=") or len(set(types)) != 1 or types[0] not in _EXACT or bare(subject) != inside:
        return None
    constants = [bare(item) for item in items]
    if not all(isinstance(c, Const) for c in constants):
        return None
    # a NULL in the list matches nothing
    found = (c.value for c in constants if isinstance(c, Const) and c.value is not None)
    return tuple(dict.fromkeys(alike_text(types[0], text) for text in found))
