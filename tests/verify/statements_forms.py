"""The forms in which a client may send a statement.

A form is a list of steps of one session. Between two steps the second session may do something, so
that a plan made in one step is used in another: cursors, prepared statements, functions and views
are written for that.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from .calculus_expressions import Rel
from .calculus_relations import BASE
from .statements_expressions import Typed
from .statements_releases import Release
from .statements_shapes import KEYED, RAW, WRAPPED
from .statements_world import TABLES

__all__ = ["Forms", "Step"]


@dataclass(frozen=True)
class Step:
    """One statement of one session."""

    text: str
    #: main is the analyst's, other his second one, owner that of the cameras' owner
    who: str = "main"
    #: values for $1, $2, ... by the extended protocol
    parameters: tuple[str, ...] | None = None
    #: whether it carries out the release: its time is taken, and others may act while it runs
    asks: bool = False
    #: whether it shows what the release claims, and whether its rows are those of the release
    claims: bool = False
    answers: bool = False


_FETCHES = ("FETCH ALL FROM z", "FETCH 1 FROM z", "FETCH 0 FROM z", "MOVE 1 FROM z",
            "MOVE ALL FROM z", "FETCH BACKWARD 1 FROM z", "FETCH FIRST FROM z", "FETCH LAST FROM z")
_BEGINS = ("BEGIN", "BEGIN READ ONLY", "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE")
_VIEWED = ("SELECT * FROM z", "TABLE z", "SELECT count(*) AS c9 FROM z", "SELECT * FROM z LIMIT 1")
_HANDLER = """
    EXCEPTION WHEN OTHERS THEN
      GET STACKED DIAGNOSTICS d = PG_EXCEPTION_DETAIL, h = PG_EXCEPTION_HINT,
                              c = PG_EXCEPTION_CONTEXT;
      RAISE NOTICE '% % % % %', SQLSTATE, SQLERRM, d, h, c;"""


@dataclass
class Forms:
    """Draws forms."""

    rng: random.Random
    typed: Typed
    #: what takes back what the last form has made
    cleanup: list[Step] = field(default_factory=list)

    def draw(self, release: Release) -> tuple[str, list[Step]]:
        """The name of a form, and a release in it."""
        self.cleanup = []
        if release.parameters:
            if self.rng.random() < 0.6:
                return "prepare", self.prepared(release)
            return "extended", self.extended(release)
        several: tuple[tuple[str, Callable[[Release], list[Step]], int], ...] = (
            ("plain", self.plain, 30), ("extended", self.extended, 5),
            ("prepare", self.prepared, 8), ("cursor", self.cursor, 8), ("copy", self.copy, 4),
            ("create table as", self.created, 5), ("insert", self.inserted, 3),
            ("view", self.view, 5), ("materialized view", self.materialized, 2),
            ("function", self.function, 5), ("do", self.block, 4), ("explain", self.explained, 8),
            ("merge", self.merged, 2), ("wrapped", self.wrapped, 10),
            ("savepoint", self.savepoint, 3), ("raw", self.raw, 12))
        name, build, _ = self.rng.choices(several, [weight for *_, weight in several])[0]
        return name, build(release)

    def plain(self, release: Release) -> list[Step]:
        return [Step(release.text, asks=True, answers=True)] * self.rng.choice((1,) * 9 + (2,))

    def extended(self, release: Release) -> list[Step]:
        values = tuple(value.strip("'") for _, value in release.parameters)
        return [Step(release.text, parameters=values, asks=True)] * self.rng.choice((1, 1, 2))

    def prepared(self, release: Release) -> list[Step]:
        types = values = ""
        if release.parameters:
            types = f" ({', '.join(kind for kind, _ in release.parameters)})"
            values = f"({', '.join(value for _, value in release.parameters)})"
        mode = self.rng.choice(("auto", "force_generic_plan", "force_custom_plan"))
        explain = self.rng.choice(("", "", "EXPLAIN "))
        return [Step(f"SET plan_cache_mode = {mode}"),
                Step(f"PREPARE z{types} AS {release.text}"),
                *[Step(f"{explain}EXECUTE z{values}", asks=True)] * self.rng.choice((1, 2))]

    def cursor(self, release: Release) -> list[Step]:
        scroll = self.rng.choice(("", "SCROLL ", "NO SCROLL "))
        hold = "WITH HOLD " if self.rng.random() < 0.3 else ""
        level = self.rng.choice(("", "", "", " ISOLATION LEVEL REPEATABLE READ",
                                 " ISOLATION LEVEL SERIALIZABLE"))
        fetches = [Step(text, asks=True) for text in self.rng.choices(_FETCHES, k=3)]
        return [Step(f"BEGIN{level}"), Step(f"DECLARE z {scroll}CURSOR {hold}FOR {release.text}"),
                *([Step("COMMIT", asks=True)] if hold else []),
                *fetches[:self.rng.choice((1, 2, 3))], Step("CLOSE z"), Step("COMMIT")]

    def copy(self, release: Release) -> list[Step]:
        how = self.rng.choice(("", " WITH (FORMAT csv, HEADER)", " WITH (FORMAT binary)",
                               " WITH (DELIMITER '|')"))
        return [Step(f"COPY ({release.text}) TO STDOUT{how}", asks=True)]

    def created(self, release: Release) -> list[Step]:
        text = self.rng.choice((f"CREATE TEMP TABLE z AS {release.text}",
                                f"CREATE TEMP TABLE z AS {release.text} WITH NO DATA",
                                f"CREATE TEMP TABLE z AS SELECT * FROM ({release.text}) y",
                                f"SELECT * INTO TEMP z FROM ({release.text}) y"))
        return [Step(text, asks=True), Step("SELECT * FROM z")]

    def inserted(self, release: Release) -> list[Step]:
        tail = self.rng.choice(("", " RETURNING x", " ON CONFLICT DO NOTHING"))
        self.cleanup = [Step("TRUNCATE loot")]
        return [Step(f"INSERT INTO loot SELECT 'x' FROM ({release.text}) y{tail}", asks=True),
                Step("SELECT x FROM loot")]

    def view(self, release: Release) -> list[Step]:
        options = self.rng.choice(("", "", " WITH (security_barrier)"))
        read = Step(self.rng.choice(_VIEWED), asks=True)
        return [Step(f"CREATE TEMP VIEW z{options} AS {release.text}"),
                *[read] * self.rng.choice((1, 2))]

    def materialized(self, release: Release) -> list[Step]:
        self.cleanup = [Step("DROP MATERIALIZED VIEW IF EXISTS z_kept")]
        return [Step(f"CREATE MATERIALIZED VIEW z_kept AS {release.text}", asks=True),
                Step("SELECT * FROM z_kept"), Step("REFRESH MATERIALIZED VIEW z_kept", asks=True)]

    def function(self, release: Release) -> list[Step]:
        """A loop counts rows, which is public; count(*) over a release is a release itself."""
        kind = self.rng.choice(("sql", "plpgsql", "loop"))
        count = f"SELECT count(*) FROM ({release.text}) y"
        body = {"sql": count,
                "plpgsql": f"DECLARE n bigint; BEGIN n := ({count}); RETURN n; END",
                "loop": f"DECLARE r record; n bigint := 0; BEGIN FOR r IN {release.text} "
                        f"LOOP n := n + 1; END LOOP; RETURN n; END"}[kind]
        language, name = "sql" if kind == "sql" else "plpgsql", "k" if kind == "loop" else "c9"
        call = Step(self.rng.choice((
            f"SELECT pg_temp.z() AS {name}", f"SELECT pg_temp.z() AS {name}",
            f"SELECT pg_temp.z() + x AS {name} FROM generate_series(1, 2) x")), asks=True)
        return [Step(f"CREATE FUNCTION pg_temp.z() RETURNS bigint LANGUAGE {language} "
                     f"AS $z${body}$z$"), *[call] * self.rng.choice((1, 2, 3))]

    def block(self, release: Release) -> list[Step]:
        query = self.rng.choice((release.text, f"EXECUTE $y${release.text}$y$"))
        handler = self.rng.choice(("", _HANDLER))
        return [Step(f"DO $z$ DECLARE r record; d text; h text; c text; BEGIN FOR r IN {query} "
                     f"LOOP RAISE NOTICE 'a row'; END LOOP;{handler} END $z$", asks=True)]

    def explained(self, release: Release) -> list[Step]:
        analyze = self.rng.random() < 0.5
        options = [option for option in ("VERBOSE", "COSTS off", "BUFFERS", "SETTINGS",
                                         "SUMMARY off") if self.rng.random() < 0.25]
        if analyze:
            options += ["ANALYZE", *(option for option in ("TIMING off", "WAL")
                                     if self.rng.random() < 0.4)]
        options.append(f"FORMAT {self.rng.choice(('text', 'json', 'json', 'yaml', 'xml'))}")
        return [Step(f"EXPLAIN ({', '.join(options)}) {release.text}", asks=True)]

    def merged(self, release: Release) -> list[Step]:
        self.cleanup = [Step("TRUNCATE loot")]
        return [Step(f"MERGE INTO loot USING (SELECT 'x'::text AS x FROM ({release.text}) y) s "
                     f"ON loot.x = s.x WHEN MATCHED THEN DO NOTHING "
                     f"WHEN NOT MATCHED THEN INSERT VALUES (s.x)", asks=True),
                Step("SELECT x FROM loot")]

    def wrapped(self, release: Release) -> list[Step]:
        shape = self.rng.choice((*WRAPPED, *KEYED) if release.keyed else WRAPPED)
        return [Step(shape.replace("{q}", release.text), asks=True)]

    def savepoint(self, release: Release) -> list[Step]:
        ask = Step(release.text, asks=True)
        return [Step(self.rng.choice(_BEGINS)), Step("SAVEPOINT s"), ask, Step("ROLLBACK TO s"),
                ask, Step("COMMIT")]

    def raw(self, release: Release) -> list[Step]:
        rel, kinds = Rel("", BASE), ("float8", "text", "boolean")
        x, y = (self.typed.of(self.rng.choice(kinds), rel, 2) for _ in range(2))
        t, u = (self.rng.choice(list(TABLES)) for _ in range(2))
        put = {"t": t, "u": u, "x": x, "y": y, "c": self.typed.condition(rel, 2),
               "n": self.typed.of("float8", rel, 1)}
        text = self.rng.choice(RAW)
        for name, value in put.items():
            text = text.replace(f"{{{name}}}", value)
        self.cleanup = [Step("TRUNCATE loot")]
        return [Step(text, asks=True)]
