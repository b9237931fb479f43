"""One question in many words: the same meaning by moves that keep it, and nearly the same by a slip here and there."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, TypeAlias

from .calculus_world import TABLES, Site

__all__ = ["Question", "Words"]

#: a condition: its kind, and its parts
Cond: TypeAlias = tuple[Any, ...]
_TURNED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NUMBERS = ("v", "w", "nullif(v, 1)", "range(v, 0, 3)", "v + w", "plate::float8", "1", "3", "0", "greatest(v, w)")
_TEXTS = ("plate", "nullif(plate, 'A')", "upper(plate)", "'A'", "'B'", "'a'", "size::text")
_ITEMS = ("'A'", "'B'", "'C'", "'a'", "NULL")
_UNITS = ("second", "minute", "milliseconds")


@dataclass(frozen=True)
class Question:
    """What is asked, apart from the words."""

    table: str
    form: str  # plain, groups, bins, join, listed, limit, argmax
    conditions: tuple[Cond, ...]
    later: tuple[Cond, ...]  # of the level above, where there is one
    keys: tuple[str, ...]
    listed: tuple[str, ...]
    aggs: tuple[tuple[str, Cond | None], ...]
    unit: str


class Words:
    """Draws questions, and words for them; `slip`: the chance at each part of words that mean something else."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.slip = 0.0

    # Questions

    def question(self) -> Question:
        rng = self.rng
        form = rng.choice(("plain",) * 4 + ("groups", "groups", "join", "join", "bins", "listed", "limit", "argmax"))
        table = rng.choice(("n1", "n2", "n3", "s1", "r1", "r2")) if form == "plain" else rng.choice(("n1", "n2", "s3"))
        keys = rng.choice(((), (), ("bin",), ("plate",), ("red",), ("bin", "plate"))) if form == "plain" else ()
        values = ("count(*)", "count(*)", "count(v)", "count(nullif(v, 1))", "sum(range(v, 0, 7))", "avg(range(w, 0, 4))")
        aggs = tuple((rng.choice(values), rng.choice((None, None, self.condition(1), self.trusted(table))))
                     for _ in range(rng.choice((1, 1, 2))))
        conditions = tuple(self.trusted(table) if rng.random() < 0.35 else self.condition(2) for _ in range(rng.choice((0, 1, 2, 3))))
        return Question(table, form, conditions, tuple(self.condition(1) for _ in range(rng.choice((0, 1)))), keys,
                        tuple(rng.sample(("'A'", "'B'", "'C'", "'D'"), rng.choice((2, 3)))), aggs, rng.choice(_UNITS))

    def condition(self, depth: int) -> Cond:
        rng = self.rng
        kind = rng.choice(("cmp", "cmp", "in", "in", "red", "distinct", "null") if not depth else
                          ("cmp", "in", "and", "or", "or", "not", "in", "distinct"))
        pool = rng.choice((_NUMBERS, _TEXTS))
        match kind:
            case "and" | "or":
                parts = tuple(self.condition(depth - 1) for _ in range(rng.choice((2, 2, 3))))
                if rng.random() < 0.4:  # comparisons of one value with constants, which a list could be
                    op, subject = rng.choice(("=", "=", "<>")), rng.choice(("plate", "nullif(plate, 'A')"))
                    parts = (*(("cmp", op, subject, item) for item in rng.sample(_ITEMS, 2)), *parts[:1])
                return (kind, parts)
            case "not":
                return ("not", self.condition(depth - 1))
            case "in":
                return ("in", rng.choice(("plate", "nullif(plate, 'A')")), tuple(rng.sample(_ITEMS, rng.choice((1, 2, 3)))),
                        rng.random() < 0.4)
            case "red" | "null":
                return ("as it is", "red" if kind == "red" else "nullif(v, 1) IS NULL")
            case _:
                return (kind, rng.choice(tuple(_TURNED)), *rng.sample(pool, 2))

    def trusted(self, table: str) -> Cond:
        site = TABLES[table]
        if site.regions and self.rng.random() < 0.5:
            return ("region", tuple(self.rng.sample(site.regions, self.rng.choice((1, len(site.regions) - 1)) or 1)))
        first = self.rng.randrange(site.count)
        return ("chunks", table, first, self.rng.randint(first + 1, site.count))

    # Words

    def slips(self) -> bool:
        return self.rng.random() < self.slip

    def shuffled(self, parts: Sequence[Any]) -> list[Any]:
        """In another order, some twice; by a slip one is missing."""
        found = self.rng.sample(list(parts), len(parts))
        if len(found) > 1 and self.slips():
            found.pop()
        return found + found[:1] if found and self.rng.random() < 0.3 else found

    def statement(self, q: Question) -> str:
        rng, form = self.rng, q.form
        if form == "plain":
            return self.plain(q, tuple(self.shuffled(q.conditions)))
        if form == "argmax":
            listed = ", ".join(self.shuffled(q.listed) if rng.random() < 0.5 else q.listed)
            where = self.where([*q.conditions[:1]], f"plate IN ({listed})")
            return f"SELECT plate FROM {q.table}{where} GROUP BY plate ORDER BY count(*) DESC LIMIT 1"
        if form == "groups":
            count = self.count()
            return (f"SELECT sum(range(n, 0, 3)) FROM (SELECT plate, {count} AS n FROM {q.table}{self.where(q.conditions)} GROUP BY plate"
                    f"{rng.choice((' HAVING true', ''))}) z WHERE {self.compared('>', 'n', '1')}")
        if form == "bins":
            return (f"SELECT sum(range(n, 0, 2)) FROM (SELECT {self.bin(q)}, {self.count()} AS n FROM {q.table}{self.where(q.conditions)} "
                    "GROUP BY 1) z")
        if form == "limit":
            inside, outside = (q.conditions, q.later) if not self.slips() else ((*q.conditions, *q.later), ())
            order = rng.choice(("v", "v ASC"))
            return (f"SELECT {self.count()} FROM (SELECT * FROM {q.table}{self.where(inside)} ORDER BY {order} LIMIT 4) z"
                    f"{self.where(outside)}")
        if form == "listed":
            keys = ", ".join(f"({key})" for key in self.shuffled(q.listed) if key)
            keys = ", ".join(dict.fromkeys(keys.split(", ")))
            on, later = (q.conditions, q.later) if not self.slips() else (q.conditions[:-1], (*q.later, *q.conditions[-1:]))
            more = "".join(f" AND {self.cond(c)}" for c in on)
            equal = self.compared("=", "q.plate", "k.key")
            return (f"SELECT k.key, count(q.v) FROM (VALUES {keys}) k(key) LEFT JOIN {q.table} q ON {equal}{more}{self.where(later)} "
                    "GROUP BY 1")
        more = self.compared(">", "a.v", "b.v")
        equal, slip = self.compared("=", "a.plate", "b.plate"), self.slips()
        both, where = " AND ".join([equal] if slip else self.shuffled([equal, more])), f" WHERE {more}" if slip else ""
        return (f"SELECT sum(range(n, 0, 5)) FROM (SELECT a.plate, count(*) AS n FROM {q.table} a "
                f"{'LEFT JOIN' if len(q.conditions) % 2 else 'JOIN'} n2 b ON {both}{where} GROUP BY a.plate) z")

    def plain(self, q: Question, conditions: Sequence[Cond]) -> str:
        rng = self.rng
        keys = {"bin": self.bin(q), "plate": "plate", "red": "red"}
        declared = [f"plate IN ({', '.join(self.shuffled(q.listed))})"] if "plate" in q.keys else []
        aggs = ", ".join(self.aggregate(text, kept) for text, kept in q.aggs)
        group = f" GROUP BY {', '.join(str(i) for i in range(1, len(q.keys) + 1))}" if q.keys else ""
        wanted = ", ".join([*(keys[key] for key in q.keys), aggs])
        split = rng.randint(0, len(conditions))
        match rng.randrange(4):
            case 0:
                source, above = f"(SELECT * FROM {q.table}{self.where(conditions[:split])}) AS inside", conditions[split:]
            case 1:
                below = f"SELECT * FROM {q.table}{self.where(conditions)}"
                return f"WITH w AS ({below}) SELECT {wanted} FROM w{self.where((), *declared)}{group}"
            case _:
                source, above = q.table, conditions
        text = f"SELECT {wanted} FROM {source}{self.where(above, *declared)}{group}"
        return f"SELECT * FROM ({text}) AS outside LIMIT 1000" if rng.random() < 0.2 else text

    def bin(self, q: Question) -> str:
        unit = self.rng.choice(_UNITS) if self.slips() else q.unit
        return f"date_trunc('{''.join(self.rng.choice((c, c.upper())) for c in unit)}', chunk)"

    def where(self, conditions: Sequence[Cond], *more: str) -> str:
        parts = [*map(self.cond, conditions), *more]
        if self.rng.random() < 0.2:
            parts.append(self.rng.choice(("true", "1=1", "NOT false", "(1 < 2 OR red)")))
        return f" WHERE {' AND '.join(self.rng.sample(parts, len(parts)))}" if parts else ""

    def aggregate(self, text: str, kept: Cond | None) -> str:
        if text == "count(*)":
            text = self.count()
        if kept is None:
            return text + (" FILTER (WHERE true)" if self.rng.random() < 0.1 else "")
        return f"{text} FILTER (WHERE {self.cond(kept)})"

    def count(self) -> str:
        return self.rng.choice(("count(v)", "count(nullif(v, 1))", "count(DISTINCT 1)", "count(NULL::int)") if self.slips()
                               else ("count(*)", "count(1)", "count(true)"))

    def compared(self, op: str, left: str, right: str) -> str:
        if self.slips():
            return self.rng.choice((f"{right} {op} {left}", f"{left} {self.rng.choice(tuple(_TURNED))} {right}"))
        return self.rng.choice((f"{left} {op} {right}", f"{right} {_TURNED[op]} {left}"))

    def cond(self, c: Cond) -> str:
        """Some words for a condition, in parentheses."""
        return f"({self._words[c[0]](self, *c[1:])})"

    def _logic(self, kind: str, parts: Sequence[Cond]) -> str:
        if self.slips():
            kind = "or" if kind == "and" else "and"
        words = [self.cond(part) for part in self.shuffled(parts)]
        if self.rng.random() < 0.15:
            words.append("true" if kind == "and" else "false")
        if len(words) > 2 and self.rng.random() < 0.4:
            words = [f"({f' {kind} '.join(words[:2])})", *words[2:]]
        return f" {kind} ".join(words)

    def _in(self, subject: str, items: Sequence[str], negated: bool) -> str:
        negated = negated != self.slips()
        if self.slips():
            items = [item for item in items if item != "NULL"] or items
        items = [item.swapcase() if item != "NULL" and self.slips() else item for item in self.shuffled(items)]
        if self.rng.random() < 0.5:
            op, word = ("<>", " AND ") if negated else ("=", " OR ")
            if self.slips():
                word = " OR " if negated else " AND "
            return word.join(self.compared(op, subject, item) for item in items)
        if self.rng.random() < 0.3:
            return f"{subject} {'<> ALL' if negated else '= ANY'} (ARRAY[{', '.join(items)}]::text[])"
        return f"{subject} {'NOT IN' if negated else 'IN'} ({', '.join(items)})"

    def _distinct(self, _op: str, left: str, right: str) -> str:
        if self.rng.random() < 0.5:
            left, right = right, left
        if self.slips():
            return self.rng.choice((f"{left} IS NOT DISTINCT FROM {right}", f"{left} <> {right}"))
        return f"{left} IS DISTINCT FROM {right}"

    def _not(self, inside: Cond) -> str:
        return self.cond(inside) if self.slips() else self.rng.choice(("NOT ", "NOT NOT NOT ")) + self.cond(inside)

    def _as_it_is(self, text: str) -> str:
        return self.rng.choice(("false", f"NOT ({text})", f"({text}) IS NOT TRUE")) if self.slips() else text

    def _region(self, wanted: Sequence[str]) -> str:
        return f"region IN ({', '.join(repr(region) for region in self.shuffled(wanted))})"

    def _chunks(self, table: str, first: int, stop: int) -> str:
        """From one chunk to another, by moments that lie anywhere between chunks."""
        site, low, high = TABLES[table], first, stop
        if self.slips():
            low, high = max(0, low + self.rng.choice((-1, 0, 1))), min(site.count, high + self.rng.choice((-1, 0, 1)))
        since, until = self._between(site, low), self._between(site, high)
        return self.rng.choice((f"chunk BETWEEN '{since}' AND '{until}'", f"chunk >= '{since}' AND '{until}' > chunk",
                                f"NOT (chunk < '{since}' OR chunk > '{until}')", f"NOT chunk <= '{since}' AND chunk < '{until}'"))

    def _between(self, site: Site, chunk: int) -> str:
        """A moment after the chunk before and before this one."""
        begin = datetime.fromisoformat(site.moments[0]) + timedelta(seconds=site.step / 10) * (chunk - 1)
        return (begin + timedelta(seconds=site.step / 10) * self.rng.uniform(0.1, 0.9)).isoformat()

    _words: ClassVar[dict[str, Callable[..., str]]] = {
        "cmp": compared, "in": _in, "distinct": _distinct, "and": lambda self, parts: self._logic("and", parts),
        "or": lambda self, parts: self._logic("or", parts), "not": _not, "as it is": _as_it_is, "region": _region,
        "chunks": _chunks}
