"""Expressions of a statement as SQL that PostgreSQL evaluates: over chunk and region here, over rows
in the room (room/writers.py).

Nothing of the analyst's text reaches it: functions come from the list, operators and types are
schema-qualified, constants are quoted and cast, text is compared in the database's own collation and
says so. Arguments have the very types that an identity declares, so that PostgreSQL has nothing to
choose between.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import NamedTuple

from privid.errors import NoRule

from .clamps import RANGES, clamped
from .functions import FUNCTIONS, is_operator, names
from .reader import MAX_NODES
from .tree import (
    AggRef,
    AnyOf,
    Call,
    Case,
    Choice,
    Col,
    Const,
    DistinctFrom,
    Expr,
    GroupRef,
    Logic,
    NullIf,
    NullTest,
    Relabel,
    Truth,
    position,
)
from .twins import SCHEMA, TWINS
from .weight import check_written, utf8

__all__ = ["COLLATED", "COLLATION", "TYPES", "Sql", "Writer", "collated", "deparse", "deparse_all", "deparse_numbered",
           "literal"]

#: types of PostgreSQL itself, by their name in a request; all of them can be compared and sorted
TYPES = {"boolean": "bool", **{t: t for t in (
    "text", "varchar", "bpchar", "float4", "float8", "numeric", "int2", "int4", "int8",
    "timestamptz", "timestamp", "date", "time", "timetz", "interval", "uuid")}}
COLLATED = {"text", "varchar", "bpchar"}
COLLATION = 'COLLATE pg_catalog."default"'
_COLUMNS = {"chunk", "region"}

#: a larger number could overflow numeric after few more steps
_MODEST = Decimal("1e300")


class Sql(NamedTuple):
    """An expression as it is written."""

    text: str
    #: expressions that are evaluated for it, each as often as it is written; a column of a subquery
    #: counts as what it stands for
    steps: int = 1
    #: bytes beyond the characters of the text: of letters, and of what columns of subqueries stand for,
    #: because PostgreSQL puts it in their place
    more: int = 0

    @property
    def size(self) -> int:
        return len(self.text) + self.more


class Writer:
    """Writes expressions. A place where they are evaluated says what columns and enums are called
    there, and which functions it has."""

    #: where our own functions are
    schema = SCHEMA

    def column(self, col: Col) -> Sql:
        raise self.no_form(col, f'column "{col.name}"')

    def group(self, ref: GroupRef) -> Sql:
        raise self.no_form(ref, "a group")

    def aggregate(self, ref: AggRef) -> Sql:
        raise self.no_form(ref, "an aggregate")

    def enum(self, type_: str) -> str | None:
        """What an enum is called here."""
        return None

    def twin(self, call: Call) -> str | None:
        """The function that is evaluated in the place of one that could raise. It is so everywhere: what is judged of chunks and public
        rows must be what is evaluated on rows."""
        if call.fn in RANGES:
            clamped(call)  # bounds that are not constant, or that range refuses
        return TWINS.get(call.fn)

    def check(self, const: Const) -> None:
        """Refuses a number with which sums could overflow."""
        if const.type != "numeric" or const.value is None:
            return
        try:
            value = Decimal(const.value)
        except InvalidOperation:
            raise self.no_form(const, "a number that is none") from None
        if value.is_finite() and abs(value) > _MODEST:
            raise self.no_form(const, f"a number beyond {_MODEST:e}")

    def no_form(self, expr: Expr | None, what: str) -> NoRule:
        return NoRule("expression has a part that no rule covers",
                      detail=f"There is no safe form for {what}.",
                      hint="Use columns and constants with comparison, arithmetic and the functions "
                           "that privid.allowed_calls lists.",
                      position=position(expr.loc) if expr is not None else None)

    def type_name(self, expr: Expr) -> str:
        if expr.type in TYPES:
            return f"pg_catalog.{TYPES[expr.type]}"
        enum = self.enum(expr.type)
        if enum is None:
            raise self.no_form(expr, f"type {expr.type}")
        return enum

    def write(self, expr: Expr) -> Sql:
        found = self._write(expr)
        if found.steps > MAX_NODES:
            raise NoRule("statement is too complex to be analysed", position=position(expr.loc),
                         detail=f"One of its expressions has more than {MAX_NODES} parts.",
                         hint="Write it with fewer nested expressions, or compute the value inside "
                              "the executable.")
        check_written(found.size, expr.loc)
        return found

    def condition(self, expr: Expr) -> Sql:
        """What WHERE, ON, HAVING and FILTER take."""
        self._same(expr, ("boolean",), (expr,))
        return self.write(expr)

    def _write(self, expr: Expr) -> Sql:
        match expr:
            case Col() | GroupRef() | AggRef():
                self.type_name(expr)
                found = self._reference(expr)
                return Sql(collated(found.text, expr.type), found.steps, found.more)
            case Const():
                constant = self._constant(expr)
                return Sql(collated(f"{constant}::{self.type_name(expr)}", expr.type), 1, utf8(constant) - len(constant))
            case AnyOf():
                return self._any_of(expr)
        args, size = [], 0
        for arg in expr.args:
            args.append(self.write(arg))
            size += args[-1].size
            check_written(size, expr.loc)  # before one text is made of them
        text = [a.text for a in args]
        steps, more = 1 + sum(a.steps for a in args), sum(a.more for a in args)
        match expr:
            case Call():
                return Sql(self._call(expr, text), steps, more)
            case DistinctFrom():
                # the analysed operator is named: IS DISTINCT FROM would look its own up
                equal = self._apply(expr.fn, expr, text)
                same = f"({text[0]} IS NULL) AND ({text[1]} IS NULL)"
                return Sql(f"(NOT COALESCE({equal}, {same}))", 2 * steps + 4, 2 * more)
            case NullIf():
                # and so would NULLIF
                self._same(expr, (expr.type,), expr.args[:1])
                equal, null = self._apply(expr.fn, expr, text), f"NULL::{self.type_name(expr)}"
                return Sql(f"(CASE WHEN {equal} THEN {null} ELSE {text[0]} END)",
                           steps + args[0].steps + 2, more + args[0].more)
            case Logic(kind="not"):
                self._same(expr, ("boolean",), expr.args)
                return Sql(f"(NOT {text[0]})", steps, more)
            case Logic(kind="and" | "or"):
                self._same(expr, ("boolean",) * len(text), expr.args)
                return Sql("(" + f" {expr.kind.upper()} ".join(text) + ")", steps, more)
            case NullTest():
                return Sql(f"({text[0]} IS {'NOT ' if expr.negated else ''}NULL)", steps, more)
            case Truth():
                self._same(expr, ("boolean",), expr.args)
                return Sql(f"({text[0]} {expr.test.upper()})", steps, more)
            case Case():
                declared = ("boolean", expr.type) * (len(text) // 2)
                self._same(expr, (*declared, expr.type), expr.args)
                whens = " ".join(f"WHEN {condition} THEN {value}" for condition, value
                                 in zip(text[:-1:2], text[1:-1:2], strict=True))
                return Sql(f"(CASE {whens} ELSE {text[-1]} END)", steps, more)
            case Choice(kind="coalesce" | "greatest" | "least"):
                self._same(expr, (expr.type,) * len(text), expr.args)
                return Sql(f"{expr.kind.upper()}({', '.join(text)})", steps, more)
            case Relabel():
                return Sql(self._relabel(expr, text[0]), steps, more)
            case _:
                raise self.no_form(expr, f"an expression of kind {type(expr).__name__}")

    def _reference(self, expr: Col | GroupRef | AggRef) -> Sql:
        match expr:
            case Col():
                return self.column(expr)
            case GroupRef():
                return self.group(expr)
            case AggRef():
                return self.aggregate(expr)

    def _constant(self, const: Const) -> str:
        self.check(const)
        return "NULL" if const.value is None else literal(const.value, const)

    def _any_of(self, expr: AnyOf) -> Sql:
        subject, items = expr.args[0], expr.args[1:]
        if not items:
            return Sql("true" if expr.all else "false")
        listed, size, letters = [], 0, 0
        for item in items:
            if not isinstance(item, Const) or item.type != items[0].type:
                raise self.no_form(expr, "a list that is not constant")
            text = self._constant(item)
            listed.append(text)
            size, letters = size + utf8(text), letters + utf8(text) - len(text)
            check_written(size, expr.loc)
        _, operator, types = names(expr.fn)
        if expr.fn not in FUNCTIONS or not is_operator(expr.fn):
            raise self.no_form(expr, f'"{expr.fn}" of a list')
        self._same(expr, types, (subject, items[0]))
        one = self.write(subject)
        array = f"ARRAY[{', '.join(listed)}]::{self.type_name(items[0])}[]"
        compared = f"OPERATOR(pg_catalog.{operator}) {'ALL' if expr.all else 'ANY'} ({array})"
        return Sql(f"({one.text} {compared})", one.steps + 1 + len(items), one.more + letters)

    def _call(self, expr: Call, args: list[str]) -> str:
        twin = self.twin(expr)
        if not expr.fn.startswith("cast("):
            return self._apply(expr.fn, expr, args, twin)
        _, _, types = names(expr.fn)
        if expr.fn not in FUNCTIONS or types[1] != expr.type:
            raise self.no_form(expr, f'"{expr.fn}" as {expr.type}')
        self._same(expr, types[:1], expr.args)
        if twin is not None:
            return f"{twin}({args[0]})"
        return collated(f"({args[0]})::{self.type_name(expr)}", expr.type)

    def _apply(self, fn: str, expr: Expr, args: list[str], twin: str | None = None) -> str:
        """A function or an operator by its identity, or what stands in for it."""
        if fn not in FUNCTIONS:
            raise self.no_form(expr, f'"{fn}"')
        schema, name, types = names(fn)
        self._same(expr, types, expr.args)
        if twin is not None:
            return f"{twin}({', '.join(args)})"
        if not is_operator(fn):
            own = schema if schema == "pg_catalog" else self.schema
            return f'{own}."{name}"({", ".join(args)})'
        operator = f"OPERATOR(pg_catalog.{name})"
        return f"({args[0]} {operator} {args[1]})" if len(args) == 2 else f"({operator} {args[0]})"

    def _relabel(self, expr: Relabel, arg: str) -> str:
        of = expr.args[0].type
        if of == expr.type:
            return arg
        if {of, expr.type} != {"text", "varchar"}:
            raise self.no_form(expr, f"a value of type {of} as {expr.type}")
        return collated(f"({arg})::{self.type_name(expr)}", expr.type)

    def _same(self, expr: Expr, declared: Sequence[str], args: Sequence[Expr]) -> None:
        """Refuses arguments of other types: PostgreSQL would choose another function, or a cast."""
        given = [a.type for a in args]
        if len(declared) != len(given) or not all(map(self._fits, declared, given)):
            raise self.no_form(expr, f"arguments of types {', '.join(given)} where "
                                     f"{', '.join(declared)} are declared")

    def _fits(self, declared: str, given: str) -> bool:
        return declared == given or (declared == "anyenum" and self.enum(given) is not None)


class _Trusted(Writer):
    """Over the trusted columns, for values that are public: what raises may raise."""

    def column(self, col: Col) -> Sql:
        if col.name not in _COLUMNS:
            raise self.no_form(col, f'column "{col.name}"')
        return Sql(f'"{col.name}"')

    def no_form(self, expr: Expr | None, what: str) -> NoRule:
        return NoRule("expression over trusted columns has a part that no rule covers",
                      detail=f"There is no safe form for {what}.",
                      hint="Use chunk, region and constants with date_trunc, extract, comparison and "
                           "arithmetic.",
                      position=position(expr.loc) if expr is not None else None)


class _Numbered(Writer):
    """Columns c1, c2, ... of public rows."""

    def column(self, col: Col) -> Sql:
        return Sql(f"c{col.col}")


def deparse(expr: Expr) -> str:
    """SQL for an expression whose columns are chunk and region."""
    return _Trusted().write(expr).text


def deparse_all(exprs: Sequence[Expr]) -> list[str]:
    """The same of several that stand in one statement, four times each: of a chunk and of the one before it, shown and compared."""
    found, size = [], 0
    for expr in exprs:
        sql = _Trusted().write(expr)
        size += 4 * sql.size
        check_written(size, expr.loc)
        found.append(sql.text)
    return found


def deparse_numbered(expr: Expr) -> str:
    """SQL for a condition on public rows, whose columns are c1, c2, ..."""
    return _Numbered().condition(expr).text


def collated(text: str, type_: str) -> str:
    """Text of whatever origin, in the database's own collation."""
    return f"({text} {COLLATION})" if type_ in COLLATED else text


def literal(text: str, expr: Expr | None = None) -> str:
    """Text as a literal that reads the same under every setting of standard_conforming_strings."""
    if "\0" in text or (not text.isascii() and any("\ud800" <= c <= "\udfff" for c in text)):
        raise Writer().no_form(expr, "a constant with a zero byte or half a character")
    quoted = text.replace("'", "''")
    return f" E'{quoted}'".replace("\\", "\\\\") if "\\" in text else f"'{quoted}'"
