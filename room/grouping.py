"""A level that groups, as two: s computes what is grouped by, aggregated and filtered by, and the
level above speaks of the columns of s alone, so that PostgreSQL has no expressions to match."""

from __future__ import annotations

from collections.abc import Sequence

from privid.calculus.conversions import converted
from privid.calculus.deparse import Sql, collated, literal
from privid.calculus.facts import unwidened
from privid.calculus.functions import names
from privid.calculus.tree import AggRef, Aggregate, Call, Const, Expr, Group
from privid.calculus.twins import AGGREGATES
from privid.calculus.weight import check_written
from privid.errors import NoRule
from privid.model import Collect, Collected

from .writers import Column, Groups, Rows, unreadable

__all__ = ["Grouping", "refuse_width"]

#: of a level. PostgreSQL would have 1600, but takes the square of their number to compare and to plan them
MAX_COLUMNS = 100
_RANGE = "privid.range(float8,float8,float8)"


class Grouping:
    """s, and the keys and aggregates over it."""

    def __init__(self, group: Sequence[Group], rows: Rows, source: str) -> None:
        self.rows, self.source = rows, source
        self.fed: list[str] = []
        self.steps, self.size = 0, 0
        self.shared: dict[tuple[str, str], Column] = {}
        self.keys = tuple(self._feed(f"k{number}", g.expr, rows.write(g.expr))
                          for number, g in enumerate(group, 1))

    def _feed(self, name: str, expr: Expr, sql: Sql) -> Column:
        """A column of s."""
        self.fed.append(f"{sql.text} AS {name}")
        self.steps += sql.steps
        self.size += sql.size
        check_written(self.size, expr.loc)
        return Column(f"s.{name}", expr.type, sql.steps, sql.size)

    def _share(self, prefix: str, expr: Expr, sql: Sql) -> Column:
        """A column of s that aggregates have in common."""
        if (prefix, sql.text) not in self.shared:
            name = f"{prefix}{len(self.shared) + 1}"
            self.shared[prefix, sql.text] = self._feed(name, expr, sql)
        return self.shared[prefix, sql.text]

    def _argument(self, expr: Expr) -> Column:
        return self._share("a", expr, self.rows.write(expr))

    def value(self, agg: Aggregate) -> Column:
        """An aggregate as it is written in the statement."""
        name = AGGREGATES.get(agg.name)
        declared, given = names(agg.name)[2], tuple(arg.type for arg in agg.args)
        fits = declared == given or declared == ("any",) * len(given)
        if name is None or not fits or agg.star != (not given):
            what = f"aggregate {agg.name} of {', '.join(given) or 'rows'}"
            raise self.rows.no_form(agg.args[0] if agg.args else None, what)
        args = [self._argument(arg) for arg in agg.args]
        inside = ", ".join(collated(arg.text, arg.type) for arg in args) or "*"
        text = f"{name}({'DISTINCT ' if agg.distinct else ''}{inside})"
        return self._filtered(text, agg, agg.type, 1 + sum(arg.steps for arg in args), sum(arg.more for arg in args))

    def collected(self, agg: Aggregate, column: Collected) -> Column:
        """The aggregate, or a part of it: sum, number, sum of squares or bins of its argument."""
        if column.what is Collect.VALUE:
            return self.value(agg)
        if len(agg.args) != (2 if column.what is Collect.BINS else 1) or agg.distinct:
            raise unreadable("parts of an aggregate that has none are asked for")
        # of a quantile the first argument is the fraction
        arg = self._argument(unwidened(agg.args[-1]) if column.what is Collect.BINS else agg.args[0])
        # what a mechanism makes of it, as a tree: its rule has seen to it that the value has bounds, and is never NULL
        made, over = AggRef(type=arg.type, index=0, loc=agg.loc), Groups(self.rows.names, (), (arg,))
        value: Expr = made
        if column.low is not None and column.high is not None:
            bounds = (Const(type="float8", value=bound) for bound in (column.low, column.high))
            value = Call(type="numeric", fn=_RANGE, args=(converted(made, "float8"), *bounds))
        if column.what is Collect.COUNT:
            counted = over.write(value)
            return self._filtered(f'pg_catalog."count"({counted.text})', agg, "int8", 1 + counted.steps, counted.more)
        exact = over.write(converted(value, "numeric"))
        if column.what is Collect.SQUARES:
            # PostgreSQL's own product, which has no limit that bounded values could meet: one that is missing would show
            exact = Sql(f"({exact.text} OPERATOR(pg_catalog.*) {exact.text})", 2 * exact.steps + 1, 2 * exact.more)
        if column.what is Collect.BINS:
            exact = _power(exact, column)
        return self._filtered(f'pg_catalog."sum"({exact.text})', agg, "numeric", 1 + exact.steps, exact.more)

    def _filtered(self, text: str, agg: Aggregate, type_: str, steps: int, more: int) -> Column:
        if agg.filter is not None:
            kept = self._share("f", agg.filter, self.rows.condition(agg.filter))
            text, steps, more = f"{text} FILTER (WHERE {kept.text})", steps + kept.steps, more + kept.more
        return Column(text, type_, steps, more)

    def tail(self, having: str | None) -> str:
        """Everything from FROM on; to be asked for when all aggregates are known."""
        refuse_width(len(self.fed))
        below = f"SELECT {', '.join(self.fed)}{self.source}"
        by = f" GROUP BY {', '.join(key.text for key in self.keys)}" if self.keys else ""
        if having is None and not self.keys:
            # one row, even if nothing that is written aggregates
            having = "true"
        return f" FROM ({below}) AS s{by}{'' if having is None else f' HAVING {having}'}"


def _power(value: Sql, column: Collected) -> Sql:
    """Ten to the digits that numbers have, times the bin of the value: the sum has the number of each bin in digits of its own.
    NULL has none. Edges are numbers of ours, not of the statement."""
    edges = literal("{" + ",".join(column.edges) + "}")
    place = f"pg_catalog.width_bucket({value.text}, {edges}::pg_catalog.numeric[])"
    exponent = f"({place} OPERATOR(pg_catalog.*) {int(column.digits)})::pg_catalog.text"
    return Sql(f"('1e'::pg_catalog.text OPERATOR(pg_catalog.||) {exponent})::pg_catalog.numeric", value.steps + 5, value.more)


def refuse_width(columns: int) -> None:
    if columns > MAX_COLUMNS:
        raise NoRule(f"statement has more than {MAX_COLUMNS} columns in one of its levels",
                     detail=f"It has {columns}.", hint="Ask for fewer aggregates at a time.")
