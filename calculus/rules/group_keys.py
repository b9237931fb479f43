"""GROUP BY what an executable outputs: only keys that the statement or the type declares, and all of them, every time.

Proof: group_keys.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from privid.errors import NoRule

from .. import show
from ..alike import alike_text
from ..expressions import Scope
from ..facts import WHOLE
from ..finite import EXACT, values_of
from ..functions import names
from ..tree import AnyOf, Call, Const, Expr, Logic, bare, position

__all__ = ["RULE", "declared", "says"]

RULE = "group by declared keys"


def declared(expr: Expr, conditions: Sequence[Expr], scope: Scope) -> tuple[str | None, ...]:
    """The keys of one group column: an IN list, else the values that it has by its form or type."""
    inside = bare(expr)
    lists = [keys for keys in (_listed(condition, inside) for condition in conditions) if keys is not None]
    if lists:
        return min(lists, key=len)
    found = values_of(expr, scope)
    if found is not None:
        return found
    raise NoRule(f"GROUP BY {show.expression(expr)} has no rule without declared keys", position=position(expr.loc),
                 detail="Which groups appear would show what the video shows.", hint=_hint(expr, scope))


def _hint(expr: Expr, scope: Scope) -> str:
    """Keys of the expression's own type; of numbers of a program, bins."""
    name = show.expression(expr)
    if expr.type not in EXACT:
        return "Group by an expression of chunk and region alone, which is public, or by a text, a number or a boolean."
    one, other = ("1", "2") if expr.type in (*WHOLE, "numeric", "float8") else ("'a'", "'b'")
    bins = show.bins(expr, scope.trusted)
    written = (f"Declare the keys, for example WHERE {name} IN ({one}, {other}), make the column boolean or an enum, or write "
               f"FROM (VALUES ({one}), ({other})) k(key) LEFT JOIN ... ON {name} = key GROUP BY key.")
    return written if bins is None else f"Group by bins of it, for example GROUP BY {bins}. {written}"


def says(expressions: Sequence[Expr], keys: int) -> str:
    return f"{', '.join(map(show.expression, expressions))}: {keys} declared keys, each in the answer every time"


def _listed(condition: Expr, inside: Expr) -> tuple[str, ...] | None:
    """The constants to which a condition restricts the expression, as the type prints them."""
    if isinstance(condition, Logic) and condition.kind == "or":
        parts = [_listed(part, inside) for part in condition.args]
        return None if None in parts else tuple(dict.fromkeys(key for part in parts for key in part or ()))
    if isinstance(condition, AnyOf) and not condition.all:
        subject, items = condition.args[0], condition.args[1:]
    elif isinstance(condition, Call) and len(condition.args) == 2:
        subject, items = condition.args[0], condition.args[1:]
        if isinstance(bare(subject), Const):
            subject, items = condition.args[1], condition.args[:1]
    else:
        return None
    schema, name, types = names(condition.fn)
    if (schema, name) != ("pg_catalog", "=") or bare(subject) != inside:
        return None
    # of one type, or whole numbers of two sizes: they print alike
    if types[0] not in EXACT or not (len(set(types)) == 1 or set(types) <= WHOLE):
        return None
    constants = [bare(item) for item in items]
    if not all(isinstance(c, Const) for c in constants):
        return None
    # a NULL in the list matches nothing
    found = (c.value for c in constants if isinstance(c, Const) and c.value is not None)
    return tuple(dict.fromkeys(alike_text(types[0], text) for text in found))
