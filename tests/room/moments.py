"""Random expressions over chunk and region, drawn from what is allowed on trusted columns, and windows in which clocks are changed."""

from __future__ import annotations

import random
from datetime import datetime, timedelta

from privid.calculus.functions import FUNCTIONS
from privid.calculus.tree import AnyOf, Call, Case, Choice, Col, Const, DistinctFrom, Expr, Logic, NullIf, NullTest, Truth

__all__ = ["WINDOWS", "Grammar"]

#: time zone of a session, and when a window begins: each has a change of clocks that is a case of its own
WINDOWS = [
    ("UTC", "2026-03-27 00:00+00"),
    ("Europe/Berlin", "2026-03-28 00:00+00"),
    ("Europe/Berlin", "2026-10-24 00:00+00"),
    ("America/St_Johns", "2010-11-06 00:00+00"),  # back at 00:01: a day ends twice
    ("Australia/Lord_Howe", "2026-04-03 00:00+00"),  # half an hour
    ("Pacific/Apia", "2011-12-29 00:00+00"),  # a day is left out
    ("America/Havana", "2025-11-01 00:00+00"),  # midnight comes twice
    ("America/Sao_Paulo", "2018-11-03 00:00+00"),  # midnight does not come
    ("Europe/Moscow", "2014-10-25 00:00+00"),
    ("Africa/Casablanca", "2026-02-14 00:00+00"),
    ("Asia/Kathmandu", "1985-12-31 00:00+00"),  # a quarter of an hour
    ("Africa/Monrovia", "1972-01-06 00:00+00"),  # by 44 minutes and a half
    ("FOO0BAR,J100/1,J100/2:20", "2026-04-09 00:00+00"),  # twenty minutes of summer
    ("<+05>-05", "2026-03-27 00:00+00"),
]
_ZONES = ("Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "UTC", "EST", "Asia/Kathmandu", "europe/berlin")
_UNITS = ("minute", "hour", "day", "week", "month", "quarter", "year", "DAY", "Hours", "second", "decade")
_FIELDS = (*_UNITS[:7], "dow", "isodow", "doy", "isoyear", "second", "epoch", "DOW", "timezone", "milliseconds", "julian")
_PATTERNS = ("HH24", "YYYY-MM-DD", "D", "Day", "IYYY-IW", "HH24:MI", "TZ", "AM", "SSSS")
_INTERVALS = ("1 hour", "15 minutes", "1 day", "7 days", "00:00:01", "-1 day", "1 month", "25 hours", "90 minutes")
_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
_MOMENTS = ("timestamptz", "timestamp", "date")


class Grammar:
    """Draws expressions; constants lie in and about the window."""

    def __init__(self, rng: random.Random, begin: datetime, length: timedelta, each: int) -> None:
        self._rng, self._begin, self._length, self._each = rng, begin, length, each

    def expression(self, depth: int = 3) -> Expr:
        return self.of(self._rng.choice(("boolean", "boolean", "timestamptz", "timestamp", "date", "numeric", "text")), depth)

    def of(self, type_: str, depth: int) -> Expr:
        if not depth or self._rng.random() < 0.05:
            return self._leaf(type_)
        found: Expr = getattr(self, f"_{type_}")(depth - 1)
        assert not isinstance(found, Call | AnyOf | NullIf | DistinctFrom) or found.fn in FUNCTIONS
        return found

    def _text_of(self, *among: str) -> Const:
        return Const(type="text", value=self._rng.choice(among))

    def _moment(self, type_: str) -> Const:
        at = self._begin + timedelta(seconds=self._rng.randrange(-4000, int(self._length.total_seconds()) + 4000))
        if self._rng.random() < 0.5:  # where a chunk begins
            at = self._begin + timedelta(seconds=self._each) * self._rng.randrange(int(self._length.total_seconds()) // self._each)
        else:
            at = at.replace(minute=self._rng.choice((0, 1, 30, at.minute)), second=0)
        text = {"timestamptz": f"{at:%Y-%m-%d %H:%M:%S}+00", "timestamp": f"{at:%Y-%m-%d %H:%M:%S}", "date": f"{at:%Y-%m-%d}"}[type_]
        return Const(type=type_, value=self._rng.choice((text, text, text, text, "infinity", None)))

    def _leaf(self, type_: str) -> Expr:
        chunk = Col(type="timestamptz", rel=0, col=1, name="chunk")
        match type_:
            case "timestamptz":
                return chunk
            case "timestamp" | "date":
                return Call(type=type_, fn=f"pg_catalog.{type_}(timestamptz)", args=(chunk,))
            case "numeric":
                return Const(type="numeric", value=str(self._rng.choice((0, 1, 2, 3, 6, 12, 30))))
            case "text":
                return self._rng.choice((Col(type="text", rel=0, col=2, name="region"), self._text_of("a", "12", "2")))
            case _:
                return Call(type="boolean", fn="pg_catalog.<(timestamptz,timestamptz)", args=(chunk, self._moment("timestamptz")))

    def _boolean(self, depth: int) -> Expr:
        rng = self._rng
        match rng.randrange(9):
            case 0 | 1 | 2:
                left, right, op = rng.choice(_MOMENTS), rng.choice(_MOMENTS), rng.choice(_COMPARISONS)
                args: tuple[Expr, ...] = (self.of(left, depth), self._moment(right) if rng.random() < 0.8 else self.of(right, depth))
                if rng.random() < 0.3:
                    left, right, args = right, left, args[::-1]
                return Call(type="boolean", fn=f"pg_catalog.{op}({left},{right})", args=args)
            case 3:
                op, arg = rng.choice(_COMPARISONS), self.of("numeric", depth)
                return Call(type="boolean", fn=f"pg_catalog.{op}(numeric,numeric)", args=(arg, self._leaf("numeric")))
            case 4:
                op, arg = rng.choice(_COMPARISONS), self.of("text", depth)
                return Call(type="boolean", fn=f"pg_catalog.{op}(text,text)", args=(arg, self._leaf("text")))
            case 5:
                return Logic(type="boolean", kind=rng.choice(("and", "or")), args=(self.of("boolean", depth), self.of("boolean", depth)))
            case 6:
                return rng.choice((Logic(type="boolean", kind="not", args=(self.of("boolean", depth),)),
                                   Truth(type="boolean", test="is not true", args=(self.of("boolean", depth),)),
                                   NullTest(type="boolean", negated=False, args=(self.of("timestamptz", depth),))))
            case 7:
                type_ = rng.choice(_MOMENTS)
                items = [self._moment(type_) for _ in range(rng.randrange(1, 4))]
                return AnyOf(type="boolean", fn=f"pg_catalog.=({type_},{type_})", all=False, args=(self.of(type_, depth), *items))
            case _:
                type_ = rng.choice(_MOMENTS)
                return DistinctFrom(type="boolean", fn=f"pg_catalog.=({type_},{type_})",
                                    args=(self.of(type_, depth), self._moment(type_)))

    def _timestamptz(self, depth: int) -> Expr:
        rng, moment = self._rng, self.of("timestamptz", depth)
        length = Const(type="interval", value=rng.choice(_INTERVALS))
        unit, constant = self._text_of(*_UNITS), self._moment("timestamptz")
        own = rng.choice(("minute", "hour", "day", "week", "month", "year"))
        calls: list[tuple[str, tuple[Expr, ...]]] = [
            ("pg_catalog.date_trunc(text,timestamptz)", (unit, moment)),
            ("pg_catalog.date_trunc(text,timestamptz,text)", (unit, moment, self._text_of(*_ZONES))),
            (f"privid.{own}(timestamptz)", (moment,)),
            ("privid.bin(timestamptz,interval)", (moment, length)),
            ("pg_catalog.date_bin(interval,timestamptz,timestamptz)", (length, moment, constant)),
            (f"pg_catalog.{rng.choice('+-')}(timestamptz,interval)", (moment, length)),
            ("pg_catalog.timestamptz(timestamp)", (self.of("timestamp", depth),))]
        others: list[Expr] = [
            Case(type="timestamptz", args=(self.of("boolean", depth), moment, self.of("timestamptz", depth))),
            Choice(type="timestamptz", kind=rng.choice(("coalesce", "greatest", "least")), args=(moment, constant)),
            NullIf(type="timestamptz", fn="pg_catalog.=(timestamptz,timestamptz)", args=(moment, constant))]
        return rng.choice([*(Call(type="timestamptz", fn=fn, args=args) for fn, args in calls), rng.choice(others)])

    def _timestamp(self, depth: int) -> Expr:
        rng, moment, local = self._rng, self.of("timestamptz", depth), self.of("timestamp", depth)
        calls: list[tuple[str, tuple[Expr, ...]]] = [
            ("pg_catalog.date_trunc(text,timestamp)", (self._text_of(*_UNITS), local)),
            ("pg_catalog.timezone(text,timestamptz)", (self._text_of(*_ZONES), moment)),
            ("pg_catalog.date_bin(interval,timestamp,timestamp)",
             (Const(type="interval", value=rng.choice(_INTERVALS)), local, self._moment("timestamp"))),
            ("pg_catalog.timestamp(timestamptz)", (moment,))]
        fn, args = rng.choice(calls)
        return Call(type="timestamp", fn=fn, args=args)

    def _date(self, depth: int) -> Expr:
        of = self._rng.choice(("timestamptz", "timestamp"))
        return Call(type="date", fn=f"pg_catalog.date({of})", args=(self.of(of, depth),))

    def _numeric(self, depth: int) -> Expr:
        rng = self._rng
        if rng.random() < 0.2:
            op = rng.choice("+-*/")
            return Call(type="numeric", fn=f"pg_catalog.{op}(numeric,numeric)", args=(self.of("numeric", depth), self.of("numeric", depth)))
        of = rng.choice(("timestamptz", "timestamp", "date"))
        return Call(type="numeric", fn=f"pg_catalog.extract(text,{of})", args=(self._text_of(*_FIELDS), self.of(of, depth)))

    def _text(self, depth: int) -> Expr:
        rng = self._rng
        if rng.random() < 0.5:
            of = rng.choice(("timestamptz", "timestamp"))
            return Call(type="text", fn=f"pg_catalog.to_char({of},text)", args=(self.of(of, depth), self._text_of(*_PATTERNS)))
        of = rng.choice(("timestamptz", "date", "numeric"))
        return Call(type="text", fn=f"cast({of},text)", args=(self.of(of, depth),))
