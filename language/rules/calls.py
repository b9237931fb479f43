"""What several rules ask about expressions."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

__all__ = ["calls", "is_call", "offset", "plain_name"]


def is_call(node: object, *names: str) -> bool:
    """Whether it is a call of one of these functions."""
    return isinstance(node, exp.Anonymous) and str(node.this).lower() in names


def calls(query: exp.Expr, *names: str) -> Iterator[exp.Anonymous]:
    """All calls of these functions, found before any is changed."""
    yield from [node for node in query.find_all(exp.Anonymous) if is_call(node, *names)]


def plain_name(node: object) -> str | None:
    """The name of a column that is written without its table, as PostgreSQL folds it."""
    if not isinstance(node, exp.Column) or node.table:
        return None
    return node.name if isinstance(node.this, exp.Identifier) and node.this.quoted else node.name.lower()


def offset(node: exp.Expr) -> int:
    """Where it begins in the statement, as far as sqlglot remembers."""
    return min((int(part.meta["start"]) for part in node.walk() if "start" in part.meta), default=0)
