"""Puts what a column stands for in the place of the column, and keeps count: each level of a statement can double what is below it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from privid.errors import NoRule

from .reader import MAX_NODES
from .tree import AggRef, Col, Expr, GroupRef, position
from .weight import Expressions

__all__ = ["Env", "Inliner", "Size", "size_of"]

#: nesting of one expression after subqueries have been inlined
MAX_INLINED_DEPTH = 300
#: what the columns of a level stand for: (rel, col) of the statement, in terms of the relation below
Env = Mapping[tuple[int, int], Expr]


class Size(NamedTuple):
    nodes: int
    depth: int
    bytes: int


class Inliner:
    """`all`: what all expressions of the statement weigh together; nodes are counted level by level."""

    def __init__(self, env: Env, all: Expressions, groups: tuple[Expr, ...] = (), aggs: tuple[Expr, ...] = ()) -> None:
        self.env, self.all, self.groups, self.aggs = env, all, groups, aggs
        self.nodes = 0
        self.sizes: dict[int, tuple[Expr, Size]] = {}

    def maybe(self, expr: Expr | None) -> Expr | None:
        return None if expr is None else self(expr)

    def __call__(self, expr: Expr) -> Expr:
        nodes, depth, size = self.measure(expr)
        self.nodes += nodes
        # measured before anything is built
        if self.nodes > MAX_NODES or depth > MAX_INLINED_DEPTH:
            raise NoRule("statement is too complex to be analysed", position=position(expr.loc),
                         detail=f"With subqueries inlined its expressions have {self.nodes} parts, nested {depth} deep.",
                         hint="Compute the value inside the executable.")
        self.all.take(size, expr)
        return self.substitute(expr)

    def meaning(self, expr: Expr) -> Expr | None:
        """What a reference stands for; None for what is no reference."""
        match expr:
            case Col():
                if (expr.rel, expr.col) not in self.env:
                    raise NoRule("column of an outer query has no rule here", position=position(expr.loc),
                                 detail="Each level may use the columns of its own source only.",
                                 hint="Write the condition at the level of the column's table.")
                return self.env[expr.rel, expr.col]
            case GroupRef() | AggRef():
                known = self.groups if isinstance(expr, GroupRef) else self.aggs
                if not 0 <= expr.index < len(known):
                    raise NoRule("statement has a part that no rule covers", position=position(expr.loc),
                                 detail="In the analysed statement: a group or an aggregate is missing.",
                                 hint="Write an aggregate over foreign tables with WHERE and GROUP BY.")
                return known[expr.index]
            case _:
                return None

    def measure(self, expr: Expr) -> Size:
        known = self.meaning(expr)
        if known is not None:
            if id(known) not in self.sizes:
                self.sizes[id(known)] = (known, size_of(known))
            return self.sizes[id(known)][1]
        return _of_parts(expr, [self.measure(a) for a in expr.args])

    def substitute(self, expr: Expr) -> Expr:
        known = self.meaning(expr)
        if known is not None:
            # the place of the reference, not of the definition, is what the analyst asked for
            return replace(known, loc=expr.loc)
        return replace(expr, args=tuple(map(self.substitute, expr.args))) if expr.args else expr


def size_of(expr: Expr, columns: Mapping[int, Size] | None = None) -> Size:
    """Of the whole tree; with `columns`, as if these stood in the place of its columns."""
    if columns is not None and isinstance(expr, Col):
        return columns[expr.col]
    return _of_parts(expr, [size_of(a, columns) for a in expr.args])


def _of_parts(expr: Expr, parts: Sequence[Size]) -> Size:
    return Size(1 + sum(part.nodes for part in parts), 1 + max((part.depth for part in parts), default=0),
                Expressions.of_node(expr) + sum(part.bytes for part in parts))
