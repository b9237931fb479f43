"""A SELECT in FROM needs no parentheses and no name in the paper; PostgreSQL 15 wants both."""

from __future__ import annotations

from sqlglot import exp

__all__ = ["subqueries"]


def subqueries(query: exp.Query) -> None:
    """Puts what is missing: parentheses, and a name that nothing else has."""
    for holder in list(query.find_all(exp.From, exp.Join)):
        if isinstance(holder.this, exp.Query) and not isinstance(holder.this, (exp.Subquery, exp.Table)):
            holder.this.replace(exp.Subquery(this=holder.this.copy()))
    taken = {identifier.name.lower() for identifier in query.find_all(exp.Identifier)}
    number = 0
    for subquery in query.find_all(exp.Subquery):
        if isinstance(subquery.parent, (exp.From, exp.Join)) and not subquery.alias:
            number += 1
            while f"q{number}" in taken:
                number += 1
            subquery.set("alias", exp.TableAlias(this=exp.to_identifier(f"q{number}")))
