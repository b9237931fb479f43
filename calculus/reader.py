"""From the JSON request of docs/protocol.md to typed nodes: every key and kind is known, or the statement is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from privid.errors import NoRule, PrividError, RawRows

from .conversions import explicit
from .tree import (
    AggRef,
    Aggregate,
    AnyOf,
    Argmax,
    Call,
    Case,
    Choice,
    ChoiceKind,
    Col,
    Const,
    DistinctFrom,
    Expr,
    FromItem,
    FromJoin,
    FromOther,
    FromPublic,
    FromSubquery,
    FromTable,
    Group,
    GroupRef,
    JoinKind,
    Logic,
    LogicKind,
    NullIf,
    NullTest,
    Order,
    PublicColumn,
    Query,
    Relabel,
    Select,
    SetKind,
    SetOperation,
    Target,
    Truth,
    position,
)
from .zones import check_zones

__all__ = ["MAX_DEPTH", "MAX_LITERAL", "MAX_NODES", "MAX_ROW", "parse_select"]

#: nesting that no person writes; a deeper tree would only exhaust the reader's stack
MAX_DEPTH = 150
#: items of one FROM, each of which is joined to those before it
MAX_ITEMS = 50
#: expressions in one request
MAX_NODES = 100_000
#: of a number that comes with a public row; sums of larger ones could overflow
MAX_DIGITS = 330
#: bytes of a constant: how long a call takes, and how deep it goes, grows with its arguments
MAX_LITERAL = 8192
#: bytes of a public row, with as much as a value of one size can take for each of its columns. It fits into a page of PostgreSQL, which
#: keeps it as it is: what is compressed or lies elsewhere is made anew for every call
MAX_ROW, _VALUE = 8000, 24
_LOGIC: dict[str, LogicKind] = {"and": "and", "or": "or", "not": "not"}
_CHOICES: dict[str, ChoiceKind] = {"coalesce": "coalesce", "greatest": "greatest", "least": "least"}


def identity(text: str) -> str:
    """A function's identity without quotes: count("any") and count(any) are one."""
    return text.replace('"', "")


class _Reader:
    """Reads one request; counts what it has read."""

    def __init__(self) -> None:
        self.nodes = 0
        self.zones: set[str | None] = set()

    def fields(self, value: Any, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> dict[str, Any]:
        """An object with exactly these keys."""
        if not isinstance(value, dict):
            raise _unreadable("an object was expected")
        strange = sorted(set(value) - set(required) - set(optional))
        missing = sorted(set(required) - set(value))
        if "refused" in value:
            raise _refused(value)
        if strange or missing:
            raise _unreadable(f"{'unexpected' if strange else 'missing'} part \"{(strange or missing)[0]}\"", value.get("loc", -1))
        return value

    def select(self, value: Any, depth: int) -> Select:
        self.deeper(depth, -1)
        body = self.fields(value, ("from", "where"), ("group", "aggs", "targets", "distinct", "limit", "offset", "having", "grouped",
                                                      "argmax", "order"))
        if len(_list(body["from"])) > MAX_ITEMS:
            raise NoRule(f"a FROM of {len(body['from'])} items is too complex to be analysed",
                         detail=f"At most {MAX_ITEMS} are, in one level of the statement.",
                         hint="Join some of them in a subquery, or put public rows into one table.")
        return Select(
            order=tuple(self.order(item, depth) for item in _list(body.get("order"))),
            having=self.maybe(body.get("having"), depth),
            grouped=_bool(body.get("grouped", bool(body.get("group") or body.get("aggs")))),
            argmax=self.argmax(body.get("argmax")),
            sources=tuple(self.source(item, depth + 1) for item in _list(body["from"])),
            where=self.maybe(body["where"], depth),
            group=tuple(self.group(item, depth) for item in _list(body.get("group"))),
            aggs=tuple(self.aggregate(item, depth) for item in _list(body.get("aggs"))),
            targets=tuple(self.target(item, depth) for item in _list(body.get("targets"))),
            distinct=_bool(body.get("distinct", False)),
            limit=self.maybe(body.get("limit"), depth),
            offset=self.maybe(body.get("offset"), depth))

    def query(self, value: Any, depth: int) -> Query:
        if not isinstance(value, dict) or "setop" not in value:
            return self.select(value, depth)
        self.deeper(depth, -1)
        body = self.fields(value, ("setop", "all", "left", "right", "columns"), ("limit", "offset", "order", "loc"))
        if body["setop"] not in list(SetKind):
            raise _unreadable(f'no rule reads the set operation "{body["setop"]}"')
        return SetOperation(kind=SetKind(body["setop"]), all=_bool(body["all"]), left=self.query(body["left"], depth + 1),
                            right=self.query(body["right"], depth + 1), columns=self.columns(body["columns"]),
                            limit=self.maybe(body.get("limit"), depth), offset=self.maybe(body.get("offset"), depth),
                            order=tuple(self.order(item, depth) for item in _list(body.get("order"))))

    def order(self, value: Any, depth: int) -> Order:
        by = "column" if isinstance(value, dict) and "column" in value else "expr"
        body = self.fields(value, (by, "desc", "nulls_first"))
        return Order(_int(body[by]) if by == "column" else self.expr(body[by], depth + 1), _bool(body["desc"]), _bool(body["nulls_first"]))

    def argmax(self, value: Any) -> Argmax | None:
        if value is None:
            return None
        body = self.fields(value, ("agg", "of"))
        return Argmax(_int(body["agg"]), tuple(_int(place) for place in _list(body["of"])))

    def columns(self, value: Any) -> tuple[PublicColumn, ...]:
        found = []
        for number, item in enumerate(_list(value), 1):
            body = self.fields(item, ("name", "type"), ("number", "labels"))
            labels = tuple(_text(label) for label in _list(body["labels"])) if "labels" in body else None
            found.append(PublicColumn(str(body["name"] or ""), _text(body["type"]), _int(body.get("number", number)), labels))
        return tuple(found)

    def public(self, value: Any) -> FromPublic:
        body = self.fields(value, ("kind", "rel", "columns", "rows"), ("alias", "loc"))
        columns = self.columns(body["columns"])
        rows = tuple(tuple(None if text is None else _text(text) for text in _list(row)) for row in _list(body["rows"]))
        if any(len(row) != len(columns) for row in rows):
            raise _unreadable("a public row has another number of columns")
        if any(len(row[place] or "") > MAX_DIGITS for place, column in enumerate(columns) if column.type == "numeric" for row in rows):
            raise NoRule(f'a number of "{body.get("alias", "")}" has too many digits', detail=f"At most {MAX_DIGITS} are computed with.",
                         hint="Round it, or cast it to double precision.")
        for row in rows:
            if (bytes_ := sum(len((text or "").encode(errors="replace")) + _VALUE for text in row)) > MAX_ROW:
                raise NoRule(f'a row of "{body.get("alias", "")}" has {bytes_} bytes, but at most {MAX_ROW} are computed with',
                             detail="The columns that the statement uses count. How long a release takes grows with their texts.",
                             hint="Shorten the text in a table of your own, for example CREATE TABLE short AS SELECT key, "
                                  "left(description, 1000) AS description FROM long.")
        return FromPublic(_int(body["rel"]), str(body.get("alias", "")), columns, rows)

    def source(self, value: Any, depth: int) -> FromItem:
        self.deeper(depth, -1)
        kind = value.get("kind") if isinstance(value, dict) else None
        if isinstance(value, dict) and "refused" in value:
            raise _refused(value)
        if kind == "table":
            body = self.fields(value, ("kind", "rel", "table"), ("alias", "loc"))
            return FromTable(rel=_int(body["rel"]), table=_int(body["table"]))
        if kind == "subquery":
            body = self.fields(value, ("kind", "rel", "select"), ("alias", "loc"))
            below = FromSubquery(rel=_int(body["rel"]), alias=str(body.get("alias", "")), select=self.query(body["select"], depth + 1))
            return _listed(below) or below
        if kind == "rows":
            return self.public(value)
        if kind == "join":
            body = self.fields(value, ("kind", "join", "left", "right"), ("on", "loc", "rel", "alias"))
            if body["join"] not in list(JoinKind):
                raise _unreadable(f'no rule reads a {body["join"]} join', body.get("loc", -1))
            return FromJoin(join=JoinKind(body["join"]), left=self.source(body["left"], depth + 1),
                            right=self.source(body["right"], depth + 1), on=self.maybe(body.get("on"), depth),
                            loc=_int(body.get("loc", -1)))
        if kind == "other":
            body = self.fields(value, ("kind", "what"), ("loc", "rel", "alias"))
            return FromOther(what=_text(body["what"]), loc=_int(body.get("loc", -1)))
        raise _unreadable(f'no rule reads a source of kind "{kind}"')

    def group(self, value: Any, depth: int) -> Group:
        body = self.fields(value, ("expr", "name", "type"), ("loc",))
        return Group(expr=self.expr(body["expr"], depth + 1), name=str(body["name"] or ""), type=_text(body["type"]))

    def aggregate(self, value: Any, depth: int) -> Aggregate:
        body = self.fields(value, ("name", "args", "star", "distinct", "filter", "type"), ("label", "loc"))
        args = self.exprs(body["args"], depth)
        if not args and not _bool(body["star"]):
            raise _unreadable("an aggregate has no argument", body.get("loc", -1))
        if _bool(body["star"]) and (args or _bool(body["distinct"])):
            raise _unreadable("an aggregate of * has arguments", body.get("loc", -1))
        return Aggregate(name=identity(_text(body["name"])), args=args, star=_bool(body["star"]),
                         distinct=_bool(body["distinct"]), filter=self.maybe(body["filter"], depth), type=_text(body["type"]),
                         loc=_int(body.get("loc", -1)))

    def target(self, value: Any, depth: int) -> Target:
        body = self.fields(value, ("name", "expr"))
        return Target(name=str(body["name"] or ""), expr=self.expr(body["expr"], depth + 1))

    def maybe(self, value: Any, depth: int) -> Expr | None:
        return None if value is None else self.expr(value, depth + 1)

    def exprs(self, value: Any, depth: int) -> tuple[Expr, ...]:
        return tuple(self.expr(item, depth + 1) for item in _list(value))

    def expr(self, value: Any, depth: int) -> Expr:
        kind = value.get("e") if isinstance(value, dict) else None
        if isinstance(value, dict) and "refused" in value:
            raise _refused(value)
        reader = _KINDS.get(kind) if isinstance(kind, str) else None
        if reader is None:
            raise _unreadable(f'no rule reads an expression of kind "{kind}"')
        loc = _int(value.get("loc", -1))
        self.nodes += 1
        self.deeper(depth, loc)
        return reader(self, value, depth, loc)

    def deeper(self, depth: int, loc: int) -> None:
        if depth > MAX_DEPTH or self.nodes > MAX_NODES:
            raise NoRule("statement is too complex to be analysed", position=position(loc),
                         detail=f"At most {MAX_NODES} expressions, nested at most {MAX_DEPTH} deep, are analysed.",
                         hint="Write the statement with fewer nested expressions or shorter lists.")

    def simple(self, value: Any, depth: int, *more: str) -> tuple[dict[str, Any], str, tuple[Expr, ...]]:
        """Type and arguments of a node whose other keys are `more`."""
        body = self.fields(value, ("e", "type", "args", *more), ("loc",))
        return body, _text(body["type"]), self.exprs(body["args"], depth)

    def col(self, value: Any, depth: int, loc: int) -> Expr:
        body = self.fields(value, ("e", "type", "rel", "col"), ("name", "loc"))
        return Col(type=_text(body["type"]), rel=_int(body["rel"]), col=_int(body["col"]), name=str(body.get("name", "")), loc=loc)

    def const(self, value: Any, depth: int, loc: int) -> Expr:
        body = self.fields(value, ("e", "type", "value"), ("loc",))
        text = None if body["value"] is None else _text(body["value"])
        if text is not None and len(text) * 4 > MAX_LITERAL and (bytes_ := len(text.encode(errors="replace"))) > MAX_LITERAL:
            raise NoRule(f"a constant has {bytes_} bytes, but at most {MAX_LITERAL} are computed with", position=position(loc),
                         detail="How long a release takes grows with its texts.",
                         hint="Write a shorter one, for example left('...', 1000).")
        return Const(type=_text(body["type"]), value=text, loc=loc)

    def call(self, value: Any, depth: int, loc: int) -> Expr:
        body = self.fields(value, ("e", "type", "fn", "args"), ("op", "loc"))
        found = Call(type=_text(body["type"]), fn=identity(_text(body["fn"])), args=self.exprs(body["args"], depth), loc=loc)
        check_zones(found, self.zones)
        return found

    def any_of(self, value: Any, depth: int, loc: int) -> Expr:
        body = self.fields(value, ("e", "type", "fn", "all", "args"), ("loc",))
        pair = _list(body["args"])
        if len(pair) != 2 or not isinstance(pair[1], dict) or pair[1].get("e") != "array":
            raise _unreadable("a list of values was expected", loc)
        items = self.exprs(self.fields(pair[1], ("e", "items"), ("type", "loc"))["items"], depth)
        return AnyOf(type=_text(body["type"]), fn=identity(_text(body["fn"])), all=_bool(body["all"]),
                     args=(self.expr(pair[0], depth + 1), *items), loc=loc)

    def logic(self, value: Any, depth: int, loc: int) -> Expr:
        body, type_, args = self.simple(value, depth)
        return Logic(type=type_, kind=_LOGIC[_arity(body["e"], args, 1 if body["e"] == "not" else None, loc)], args=args, loc=loc)

    def null_test(self, value: Any, depth: int, loc: int) -> Expr:
        body, type_, args = self.simple(value, depth)
        return NullTest(type=type_, negated=_arity(body["e"], args, 1, loc) == "isnotnull", args=args, loc=loc)

    def truth(self, value: Any, depth: int, loc: int) -> Expr:
        body, type_, args = self.simple(value, depth, "test")
        _arity("test", args, 1, loc)
        if body["test"] not in {f"is {no}{what}" for no in ("", "not ") for what in ("true", "false", "unknown")}:
            raise _unreadable(f'no rule reads the test "{body["test"]}"', loc)
        return Truth(type=type_, test=_text(body["test"]), args=args, loc=loc)

    def case(self, value: Any, depth: int, loc: int) -> Expr:
        body = self.fields(value, ("e", "type", "whens", "else"), ("loc",))
        type_ = _text(body["type"])
        args: list[Expr] = []
        for when in _list(body["whens"]):
            args.extend(self.exprs(when, depth))
            _arity("when", tuple(_list(when)), 2, loc)
        args.append(Const(type=type_, value=None) if body["else"] is None else self.expr(body["else"], depth + 1))
        return Case(type=type_, args=tuple(args), loc=loc)

    def choice(self, value: Any, depth: int, loc: int) -> Expr:
        body, type_, args = self.simple(value, depth)
        return Choice(type=type_, kind=_CHOICES[_arity(body["e"], args, None, loc)], args=args, loc=loc)

    def null_if(self, value: Any, depth: int, loc: int) -> Expr:
        body = self.fields(value, ("e", "type", "args", "fn"), ("op", "loc"))
        type_, args = _text(body["type"]), self.exprs(body["args"], depth)
        _arity("nullif", args, 2, loc)
        return NullIf(type=type_, fn=identity(_text(body["fn"])), args=args, loc=loc)

    def distinct_from(self, value: Any, depth: int, loc: int) -> Expr:
        body = self.fields(value, ("e", "type", "args", "fn"), ("op", "loc"))
        args = self.exprs(body["args"], depth)
        _arity("distinct", args, 2, loc)
        return DistinctFrom(type=_text(body["type"]), fn=identity(_text(body["fn"])), args=args, loc=loc)

    def reference(self, value: Any, depth: int, loc: int) -> Expr:
        body = self.fields(value, ("e", "type", "index"), ("loc",))
        kind = GroupRef if body["e"] == "group" else AggRef
        return kind(type=_text(body["type"]), index=_int(body["index"]), loc=loc)

    def relabel(self, value: Any, depth: int, loc: int) -> Expr:
        _, type_, args = self.simple(value, depth)
        _arity("relabel", args, 1, loc)
        return Relabel(type=type_, args=args, loc=loc)


_KINDS: dict[str, Callable[[_Reader, Any, int, int], Expr]] = {
    "col": _Reader.col, "const": _Reader.const, "call": _Reader.call, "any": _Reader.any_of,
    "and": _Reader.logic, "or": _Reader.logic, "not": _Reader.logic,
    "isnull": _Reader.null_test, "isnotnull": _Reader.null_test, "test": _Reader.truth, "case": _Reader.case,
    "coalesce": _Reader.choice, "greatest": _Reader.choice, "least": _Reader.choice,
    "nullif": _Reader.null_if, "relabel": _Reader.relabel, "distinct": _Reader.distinct_from, "cast": _Reader.call,
    "group": _Reader.reference, "agg": _Reader.reference}


def parse_select(value: Any) -> Select:
    """The "select" of a request, with every conversion in it."""
    return explicit(_Reader().select(value, 0))


def _listed(below: FromSubquery) -> FromPublic | None:
    """(VALUES …) k(key) is a subquery to PostgreSQL and a list to people; None for any other subquery."""
    match below.select:
        case Select(sources=(FromPublic() as values,), where=None, group=(), aggs=(), distinct=False, limit=None, offset=None,
                    having=None, grouped=False, argmax=None) as level:
            shown = [(e.rel, e.col) if isinstance(e := target.expr, Col) else None for target in level.targets]
            if shown != [(values.rel, c.number) for c in values.columns]:
                return None
            columns = tuple(replace(c, name=target.name) for c, target in zip(values.columns, level.targets, strict=True))
            return replace(values, rel=below.rel, alias=below.alias, columns=columns)
    return None


def _refused(value: dict[str, Any]) -> PrividError:
    """What the library wrote where something had no form; or, with a state of its own, a whole message."""
    loc = value.get("loc", -1)
    detail, hint = (text if isinstance(text := value.get(name), str) else None for name in ("detail", "hint"))
    at = position(loc) if isinstance(loc, int) else None
    if "sqlstate" not in value:
        return NoRule(f"{value['refused']} cannot be used in a release", hint=hint, position=at,
                      detail="No rule bounds what a protected event can change through it.")
    kind = RawRows if value["sqlstate"] == RawRows.sqlstate else NoRule
    return kind(str(value["refused"]), detail=detail, hint=hint, position=at)


def _unreadable(why: str, loc: Any = -1) -> NoRule:
    return NoRule("statement has a part that no rule covers", detail=f"In the analysed statement: {why}.",
                  hint="Write an aggregate over foreign tables with WHERE and GROUP BY.",
                  position=position(loc) if isinstance(loc, int) else None)


def _arity(kind: str, args: tuple[Any, ...], wanted: int | None, loc: int) -> str:
    if len(args) == 0 or (wanted is not None and len(args) != wanted):
        raise _unreadable(f'"{kind}" has {len(args)} arguments', loc)
    return kind


def _list(value: Any) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise _unreadable("a list was expected")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _unreadable("text was expected")
    return value


def _int(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _unreadable("a whole number was expected")
    return value


def _bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _unreadable("true or false was expected")
    return value
