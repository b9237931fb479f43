"""What is known of an expression: whether it is trusted, whether it is total, whether it can be NULL."""

from __future__ import annotations

from dataclasses import dataclass, field

from privid.errors import NoRule
from privid.model import Table

from . import show
from .functions import FUNCTIONS, FunctionClass, is_operator, names
from .tree import AnyOf, Call, Case, Choice, Col, Const, Expr, Logic, NullIf, NullTest, Relabel, Truth, position, walk

__all__ = ["Trust", "calls", "conjuncts", "nullable"]


def conjuncts(expr: Expr | None) -> tuple[Expr, ...]:
    """The parts of a top-level AND."""
    if expr is None:
        return ()
    if isinstance(expr, Logic) and expr.kind == "and":
        return tuple(part for arg in expr.args for part in conjuncts(arg))
    return (expr,)


def calls(expr: Expr) -> str | None:
    """The function this node itself evaluates."""
    return expr.fn if isinstance(expr, Call | AnyOf | NullIf) else None


def nullable(expr: Expr) -> bool:
    """False only when the value is certainly not NULL. Columns of base tables never are."""
    match expr:
        case Col() | NullTest() | Truth():
            return False
        case Const():
            return expr.value is None
        case Call(fn="privid.range(float8,float8,float8)" | "public.range(float8,float8,float8)"):
            return False
        case Call():
            return expr.fn not in FUNCTIONS or FUNCTIONS[expr.fn].may_null or any(map(nullable, expr.args))
        case AnyOf() | Logic() | Relabel():
            return any(map(nullable, expr.args))
        case Case():
            return any(map(nullable, (*expr.args[1:-1:2], expr.args[-1])))
        case Choice():
            return all(map(nullable, expr.args))
        case _:
            return True


@dataclass
class Trust:
    """Checks expressions over one table; collects the trusted parts that must be tried before the charge."""

    table: Table
    #: trusted parts of expressions over rows: they may raise, so they are evaluated for every selected chunk first
    probes: list[Expr] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._columns = {c.attno for c in self.table.columns if c.trusted}
        # by identity, with the node itself so that no other can take its number: large trees are asked about at every level
        self._known: dict[int, tuple[Expr, bool]] = {}

    def trusted(self, expr: Expr) -> bool:
        """Computed only from chunk, region and constants."""
        if id(expr) not in self._known:
            holds = expr.col in self._columns if isinstance(expr, Col) else all(map(self.trusted, expr.args))
            self._known[id(expr)] = (expr, holds)
        return self._known[id(expr)][1]

    def check(self, expr: Expr, *, evaluated: bool = False) -> None:
        """Refuses what is not listed, and what could raise on an executable's output.

        `evaluated`: if the whole expression is trusted, a rule evaluates it for every selected chunk anyway.
        """
        if self.trusted(expr):
            for node in walk(expr):
                _listed(node)
            if not evaluated and any(calls(node) for node in walk(expr)):
                self.probes.append(expr)
            return
        fn = calls(expr)
        if fn is not None:
            _listed(expr)
            self._check_call(fn, expr)
        for arg in expr.args:
            self.check(arg)

    def _check_call(self, fn: str, expr: Expr) -> None:
        kind = FUNCTIONS[fn].kind
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
    if fn not in FUNCTIONS or len(names(fn)[2]) != arguments:
        raise NoRule(f"{_word(fn)} {show.signature(fn)} has no rule", position=position(expr.loc),
                     detail="Only functions and operators that are known to be safe are evaluated on private rows.",
                     hint="Compute the value inside the executable, or use a listed function.")


def _word(fn: str) -> str:
    return "operator" if is_operator(fn) else "function"


def _ends_in_escape(pattern: str | None) -> bool:
    return pattern is not None and (len(pattern) - len(pattern.rstrip("\\"))) % 2 == 1
