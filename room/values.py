"""Expressions with their bounds: how large a value is, what it costs, how many there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from privid.calculus.functions import names
from privid.calculus.tree import (
    AggRef,
    AnyOf,
    Call,
    Choice,
    Col,
    Const,
    DistinctFrom,
    Expr,
    GroupRef,
    NullIf,
)
from privid.calculus.zones import zone_of
from privid.errors import NoRule

from .calls import NODE, call, compare, hashed
from .lengths import check_sizes, held
from .premises import Room
from .sizes import EMPTY, Size, fixed, join_sizes, of_literal, result

__all__ = ["MANY", "Carried", "Scope", "Value", "Values"]

#: more values than any relation has rows
MANY = 1 << 60
#: lists that are longer are looked up in a hash table
_LISTED = 8


#: a column, by a number of its level, its relation and its own, and its bytes
Carried = tuple[int, int, int, int]


class Value(NamedTuple):
    size: Size
    cost: int = 0  # nanoseconds to compute it for one row
    distinct: int = MANY  # different values, NULL among them
    nodes: int = 1  # expressions that it stands for
    memory: int = 0  # bytes that calls have made until the row is done
    #: what rows carry along until it is evaluated, where PostgreSQL puts it in the place of references to it; none: itself
    carried: frozenset[Carried] = frozenset()


#: columns of a level's relations, by relation and number
Scope = Mapping[tuple[int, int], Value]


class Values:
    """The values of one level's expressions; counts what the planner meets."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self.nodes = 0
        self.items = 0
        #: bytes that one row's expressions make, all levels being evaluated at once
        self.memory = 0
        #: names of time zones, each of which the session reads once
        self.zones: set[Expr] = set()
        #: does PostgreSQL make hash tables of the lists that it meets?
        self.looked_up = True

    def __call__(
        self, expr: Expr, scope: Scope, groups: Sequence[Value] = (), aggs: Sequence[Value] = ()
    ) -> Value:
        found = self._value(expr, scope, groups, aggs)
        self.nodes += found.nodes
        self.memory += found.memory
        return found

    def _value(
        self, expr: Expr, scope: Scope, groups: Sequence[Value], aggs: Sequence[Value]
    ) -> Value:
        if isinstance(expr, Const):
            return Value(of_literal(expr.value, expr.type), 0, 1)
        if isinstance(expr, Col | GroupRef | AggRef):
            return self._reference(expr, scope, groups, aggs)
        if isinstance(expr, AnyOf):
            return self._any_of(expr, scope, groups, aggs)
        args = [self._value(arg, scope, groups, aggs) for arg in expr.args]
        sizes = [arg.size for arg in args]
        cost, nodes, distinct, memory = NODE, 1, 2, sum(arg.memory for arg in args)
        for arg in args:
            cost, nodes, distinct = (
                cost + arg.cost,
                nodes + arg.nodes,
                min(distinct * arg.distinct, MANY),
            )
        match expr:
            case Call(fn=fn):
                if (zone := zone_of(expr)) is not None:
                    self.zones.add(zone)
                cost += call(fn, sizes, expr.args, self.room, expr.loc)
                made = result(fn, expr.type, sizes, expr.args)
                check_sizes(expr, sizes, made)
                return Value(made, cost, distinct, nodes, memory=memory + held(sizes, made))
            case DistinctFrom(fn=fn):
                # NOT COALESCE(a = b, a IS NULL AND b IS NULL): both are written twice
                cost = 2 * cost + call(fn, sizes, expr.args, self.room, expr.loc) + 4 * NODE
                return Value(fixed("boolean"), cost, 3, 2 * nodes + 4, 2 * memory + held(sizes, EMPTY))
            case NullIf(fn=fn):
                # CASE WHEN a = b THEN NULL ELSE a END
                cost += args[0].cost + call(fn, sizes, expr.args, self.room, expr.loc) + 2 * NODE
                return Value(sizes[0], cost, distinct, nodes + args[0].nodes + 2,
                             memory + args[0].memory + held(sizes, EMPTY))
        if expr.type == "boolean":
            return Value(fixed("boolean"), cost, 3, nodes, memory)
        # CASE, COALESCE, GREATEST, LEAST and casts that change nothing: one of the arguments
        widest = join_sizes(sizes)
        if isinstance(expr, Choice) and expr.kind != "coalesce":
            cost += len(args) * compare(widest, widest, self.room)
        return Value(widest, cost, distinct, nodes, memory)

    def _reference(
        self,
        expr: Col | GroupRef | AggRef,
        scope: Scope,
        groups: Sequence[Value],
        aggs: Sequence[Value],
    ) -> Value:
        if isinstance(expr, Col):
            found = scope.get((expr.rel, expr.col))
        else:
            known = groups if isinstance(expr, GroupRef) else aggs
            found = known[expr.index] if 0 <= expr.index < len(known) else None
        if found is None:
            raise NoRule(
                "statement has a part that no rule covers",
                detail="In the analysed statement: a column, a group or an aggregate is missing.",
                hint="Write an aggregate over foreign tables with WHERE and GROUP BY.",
            )
        return found

    def _any_of(
        self, expr: AnyOf, scope: Scope, groups: Sequence[Value], aggs: Sequence[Value]
    ) -> Value:
        """x = ANY (ARRAY[…]) with x written once."""
        subject, items = expr.args[0], expr.args[1:]
        found = self._value(subject, scope, groups, aggs)
        cost, nodes = found.cost + 2 * NODE, found.nodes + 1
        if not items:
            return Value(fixed("boolean"), cost, 1, nodes, True)
        sizes, memory = [], found.memory
        constant = True
        for item in items:
            if isinstance(item, Const):
                sizes.append(of_literal(item.value, item.type))
            else:
                other = self._value(item, scope, groups, aggs)
                cost, nodes, constant = cost + other.cost, nodes + other.nodes, False
                memory += other.memory
                sizes.append(other.size)
        self.items += len(items)
        # each by itself: what a pattern costs follows from the pattern, and not from the first one
        compared = [
            call(expr.fn, [found.size, size], (subject, item), self.room, expr.loc)
            for size, item in zip(sizes, items, strict=True)
        ]
        if len(items) > _LISTED and constant and self._looks_up(expr):
            compared = [max(compared)] * _LISTED
            cost += hashed(found.size)
        for size, item in zip(sizes, items, strict=True):
            check_sizes(AnyOf(type=expr.type, fn=expr.fn, all=expr.all, args=(subject, item), loc=expr.loc), [found.size, size], EMPTY)
        memory += sum(held([found.size, size], EMPTY) for size in sizes)
        return Value(fixed("boolean"), cost + sum(compared), 3, nodes, memory)

    def _looks_up(self, expr: AnyOf) -> bool:
        """Equality with constants is a look into a hash table, where both types have one hash
        function, which is where they are the same; and the table is a list, where hashes can be
        chosen."""
        schema, name, types = names(expr.fn)
        wanted = "<>" if expr.all else "="
        return (
            self.looked_up
            and (schema, name) == ("pg_catalog", wanted)
            and len(types) == 2
            and types[0] == types[1]
            and self.room.keyed
        )
