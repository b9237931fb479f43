"""Expressions over a relation: are they listed, are they total, do they come from chunks alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from privid.errors import NoRule

from . import show
from .certificate import Facts, Place, Relation
from .clamps import RANGES, clamped
from .facts import Judge
from .functions import FUNCTIONS, FunctionClass, is_operator, names
from .tree import AnyOf, Call, Col, Const, DistinctFrom, Expr, Logic, NullIf, Relabel, bare, position, walk

__all__ = ["Scope", "calls", "columns_of", "conjuncts", "substitute"]

#: functions whose first argument is a unit
_UNITS = {"extract", "date_part", "date_trunc"}


def conjuncts(expr: Expr | None) -> tuple[Expr, ...]:
    """The parts of a top-level AND."""
    if expr is None:
        return ()
    if isinstance(expr, Logic) and expr.kind == "and":
        return tuple(part for arg in expr.args for part in conjuncts(arg))
    return (expr,)


def calls(expr: Expr) -> str | None:
    """The function this node itself evaluates."""
    return expr.fn if isinstance(expr, Call | AnyOf | NullIf | DistinctFrom) else None


def columns_of(expr: Expr) -> set[int]:
    return {node.col for node in walk(expr) if isinstance(node, Col)}


def substitute(expr: Expr, columns: Mapping[int, Expr]) -> Expr:
    """The expression with other expressions in the place of its columns."""
    if isinstance(expr, Col):
        # the place of the reference, not of the definition, is what the analyst asked for
        return replace(columns[expr.col], loc=expr.loc)
    return replace(expr, args=tuple(substitute(a, columns) for a in expr.args)) if expr.args else expr


@dataclass
class Scope:
    """The columns of one relation; collects the trusted parts that must be tried before the charge."""

    columns: Mapping[int, Facts]
    #: by scan: trusted parts of expressions over rows; they may raise, so they are evaluated for every selected chunk first
    probes: list[tuple[int, Expr]] = field(default_factory=list)
    #: the scans that rows come from
    leaves: tuple[int, ...] = ()

    @classmethod
    def of(cls, relation: Relation, probes: list[tuple[int, Expr]] | None = None) -> Scope:
        return cls(relation.columns, [] if probes is None else probes, tuple(leaf.number for leaf in relation.leaves))

    def __post_init__(self) -> None:
        self._judge = Judge(self.columns)
        # by identity, with the node itself so that no other can take its number: large trees are asked about at every level
        self._trusted: dict[int, tuple[Expr, bool]] = {}

    def facts(self, expr: Expr) -> Facts:
        """What is known of its value."""
        known = self._judge.facts(expr)
        if not self.trusted(expr):
            return known
        places = {self.columns[col].place for col in columns_of(expr)}
        return replace(known, place=Place.LISTED if Place.LISTED in places else Place.CELL, cells=self.cells(expr))

    def trusted(self, expr: Expr) -> bool:
        """Computed only from chunk, region and constants, those of one scan: then all its values are known beforehand."""
        if isinstance(expr, Const):  # lists of keys are long
            return True
        if id(expr) not in self._trusted:
            if isinstance(expr, Col):
                holds = self.columns[expr.col].place is not Place.OUTPUT
            else:
                holds = all(map(self.trusted, expr.args)) and self._foreseen(expr)
            self._trusted[id(expr)] = (expr, holds)
        return self._trusted[id(expr)][1]

    def _foreseen(self, expr: Expr) -> bool:
        """Whether its columns come from the same scans, so that the chunks of a scan have all combinations of them that rows have; and
        where they may also be missing (a key without a match), whether it then is NULL, without being evaluated."""
        columns = [self.columns[col] for col in columns_of(expr)]
        if len({frozenset(column.cells) for column in columns}) > 1 or (columns and not columns[0].cells):
            return False
        return not any(column.nullable for column in columns) or isinstance(expr, Relabel) or (
            isinstance(expr, Call) and expr.fn not in RANGES)

    def local(self, expr: Expr) -> bool:
        """Trusted, and rows with a value depend on the cell of that value alone."""
        return all(self.columns[col].place is Place.CELL for col in columns_of(expr))

    def cells(self, expr: Expr) -> dict[int, Expr]:
        """A trusted expression in terms of chunk and region, for each scan; a constant is the same for all."""
        found = [self.columns[col].cells for col in columns_of(expr)]
        leaves = [leaf for leaf in found[0] if all(leaf in cells for cells in found)] if found else list(self.leaves)
        return {leaf: substitute(expr, {col: self.columns[col].cells[leaf] for col in columns_of(expr)}) for leaf in leaves}

    def check(self, expr: Expr) -> None:
        """Refuses what is not listed, and what could raise on an executable's output. Of a trusted expression each call that could raise is
        to be tried by itself: in which order conditions are evaluated, and whether at all, is PostgreSQL's choice."""
        if isinstance(expr, Const):
            return
        if self.trusted(expr):
            for node in walk(expr):
                _listed(node)
                fn = calls(node)
                if fn is not None and FUNCTIONS[fn].kind is not FunctionClass.TOTAL:
                    self.probes.extend(self.cells(node).items())
            return
        fn = calls(expr)
        if fn is not None:
            _listed(expr)
            self._check_call(fn, expr)
        for arg in expr.args:
            self.check(arg)

    def _check_call(self, fn: str, expr: Expr) -> None:
        kind = FUNCTIONS[fn].kind
        if isinstance(expr, Call) and fn in RANGES:
            clamped(expr)  # bounds that are not constant, or that range refuses
        if kind is FunctionClass.TRUSTED_ONLY:
            raise NoRule(f"{_word(fn)} {show.signature(fn)} has no rule for values that an executable outputs", position=position(expr.loc),
                         detail="It can raise an error, and an error would show what the video shows.",
                         hint="Apply it to chunk or region only, or compute the value inside the executable.")
        if kind is FunctionClass.PATTERN:
            for pattern in expr.args[1:]:
                if not isinstance(pattern, Const) or _ends_in_escape(pattern.value):
                    raise NoRule("LIKE has no rule for a pattern that can raise an error", position=position(pattern.loc),
                                 detail="A pattern must be a constant that does not end in a single backslash.",
                                 hint="Write a constant pattern, for example plate LIKE 'AB%'.")


def _listed(expr: Expr) -> None:
    fn = calls(expr)
    if fn is None:
        return
    arguments = 2 if isinstance(expr, AnyOf) else len(expr.args)
    declared = 1 if fn.startswith("cast(") else len(names(fn)[2])  # from, and to
    if fn not in FUNCTIONS or declared != arguments:
        raise NoRule(f"{_word(fn)} {show.signature(fn)} has no rule", position=position(expr.loc),
                     detail="Only functions and operators that are known to be safe are evaluated on private rows.",
                     hint="Compute the value inside the executable, or use a listed function.")
    if names(fn)[1] in _UNITS and not isinstance(bare(expr.args[0]), Const):
        raise NoRule(f"{names(fn)[1]} has no rule for a unit that is not constant", position=position(expr.loc),
                     detail="What is computed, and how long it takes, would depend on the row.",
                     hint=f"Write {names(fn)[1]} once for each unit, for example CASE WHEN ... THEN {names(fn)[1]}('hour', chunk) END.")


def _word(fn: str) -> str:
    return "operator" if is_operator(fn) else "function"


def _ends_in_escape(pattern: str | None) -> bool:
    return pattern is not None and (len(pattern) - len(pattern.rstrip("\\"))) % 2 == 1
