"""What the bounds take for granted of PostgreSQL's plan, read from the plan that it makes.

The bound of an inner query is that of its steps (relations.py), and which steps there are is for
PostgreSQL to choose: by sizes that are public, whatever is in the video. So the plan is looked at
before anything is charged. A plan with a step that has no bound is refused; what else the bound
must know of it (are pairs of rows looked at one by one, is anything sorted beside what a LIMIT
keeps) is handed to the bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from privid.errors import NoRule

from .premises import Room

__all__ = ["Planned", "read_plan"]

#: A node of EXPLAIN (FORMAT JSON)
Node = Mapping[str, Any]
#: how many public rows of a relation meet a condition, as EXPLAIN shows both
Count = Callable[[str, str], int]

#: Steps that have a bound. A sort has one because little is sorted at once; a merge join would sort
#: without it.
_BOUNDED = frozenset({
    "Foreign Scan", "Seq Scan", "Subquery Scan", "Result", "Append", "Aggregate", "Group", "Unique",
    "Hash", "Hash Join", "Nested Loop", "Materialize", "SetOp", "Sort", "Limit"})
#: aggregates in a hash table, in the order of their input, or of all of it
_STRATEGIES = frozenset({"Plain", "Sorted", "Hashed"})
#: bytes of a row that PostgreSQL expects in a hash table, beside its values: headers, padding, two pointers
_EXPECTED = 56
#: a plan within an expression is run anew for each row, or whenever it is first needed
_WITHIN = frozenset({"SubPlan", "InitPlan"})


@dataclass(frozen=True)
class Planned:
    """What the bound must know of a plan."""

    #: joins that look at every pair of rows; the others look partners up in a hash table
    nested_loops: int = 0
    #: sorts of groups, which aggregates of distinct values need
    group_sorts: int = 0
    #: sorts where the bound has a hash table
    other_sorts: int = 0
    #: tables of public rows that are read without a condition
    whole_scans: int = 0
    #: files into which joins split each side, because PostgreSQL expects more rows than fit
    batches: int = 0


def read_plan(plan: object, count: Count, hash_memory: int = Room.hash_memory) -> Planned:
    """The facts of a plan, as EXPLAIN (FORMAT JSON) shows it; refuses one that has no bound.

    `hash_memory`: bytes that a hash table may have where the plan is carried out."""
    if not isinstance(plan, Sequence) or len(plan) != 1 or "Plan" not in plan[0]:
        raise _refusal("PostgreSQL shows no plan of it.")
    nested = groups = others = whole = batches = 0
    for node, above in _nodes(plan[0]["Plan"], ()):
        kind = node["Node Type"]
        _check(node, kind)
        if kind == "Nested Loop":
            _check_nested(node, count)
            nested += 1
        if kind == "Sort":
            over = next((one for one in above if one not in ("Result", "Subquery Scan")), "")
            groups += over == "Aggregate"
            others += over not in ("Aggregate", "Limit")
        if kind == "Hash":
            batches += _batches(node["Plan Rows"], node["Plan Width"], hash_memory)
        whole += kind == "Seq Scan" and "Filter" not in node
    return Planned(nested, groups, others, whole, batches)


def _batches(rows: int, width: int, hash_memory: int) -> int:
    """Into how many parts PostgreSQL splits a hash table from the start, at most: none, if all that it
    expects fits. What it really has does (premises.py), so that no part is ever split again."""
    expected = rows * (_EXPECTED + width)
    if expected < hash_memory * 49 // 50:  # the rest is kept for frequent values
        return 0
    return 1 << (2 * expected // hash_memory).bit_length()


def _nodes(node: Node, above: tuple[str, ...]) -> Iterator[tuple[Node, tuple[str, ...]]]:
    """All nodes, and the kinds of those above each, the nearest first."""
    yield node, above
    for part in _below(node):
        yield from _nodes(part, (node["Node Type"], *above))


def _below(node: Node) -> Sequence[Node]:
    found: Sequence[Node] = node.get("Plans", ())
    return found


def _check(node: Node, kind: str) -> None:
    if kind not in _BOUNDED:
        raise _refusal(f"PostgreSQL plans it with a step {kind}.")
    if node.get("Parent Relationship") in _WITHIN:
        raise _refusal("PostgreSQL plans it with a plan within an expression.")
    if kind == "Aggregate" and (node.get("Strategy") not in _STRATEGIES
                                or node.get("Partial Mode", "Simple") != "Simple"):
        raise _refusal("PostgreSQL plans it with an aggregate in several steps.")


def _check_nested(node: Node, count: Count) -> None:
    """A nested loop reads its inner side anew for each row of the outer one. That is bounded where
    the rows lie ready: set aside, or those of a table in the room, all of them. A foreign scan
    would ask the engine again, an aggregate compute again."""
    outer, inner = _below(node)
    if not _lies_ready(inner) and not _is_one_row(outer, count):
        raise NoRule(
            "statement has a form that cannot be computed in bounded time",
            detail="PostgreSQL plans it with a join that computes one side again for each row of "
                   f"the other: a step Nested Loop over a step {inner['Node Type']}.",
            hint="Leave out the condition that sets a column of the join to a constant, or the "
                 "HAVING below the join.")


def _lies_ready(node: Node) -> bool:
    return node["Node Type"] == "Materialize" or (
        node["Node Type"] in ("Seq Scan", "Result") and not _below(node)
        and not {"Filter", "One-Time Filter"} & node.keys())


def _is_one_row(node: Node, count: Count) -> bool:
    """Has it one row at most, whatever the tables of cameras have?"""
    while node["Node Type"] == "Subquery Scan":
        (node,) = _below(node)
    if node["Node Type"] == "Seq Scan":
        return "Filter" in node and count(node["Relation Name"], node["Filter"]) <= 1
    return node.get("Strategy") == "Plain" or (node["Node Type"] == "Result" and not _below(node))


def _refusal(detail: str) -> NoRule:
    return NoRule("statement has a form that cannot be computed in bounded time", detail=detail,
                  hint="Join by equalities between columns of one type, and order fewer rows.")
