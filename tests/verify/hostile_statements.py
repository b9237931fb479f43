"""2,000 hostile options, names, polygons, JSON, durations, literals and arguments in statements: each is accepted or refused in words.

None is an internal error of PostgreSQL (XX000) or of the engine, none writes a traceback to a log, none ends a session or takes long,
and the memory of the engine is bounded. Functions are taken from the catalog, with arguments of their types.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from tests.conftest import BRIGHTNESS, STARTS, RunningStack, run_privid, write_video
from tests.guard import guarded

from .hostile_values import BUILDERS, Chance, duration, json_text, moment, name, number, polygon, text

__all__ = ["GROWTH", "Hostile"]

STATEMENTS = 2_000
#: of one statement, in seconds, on a busy machine; and what the engine may grow by, in KiB
PATIENCE, GROWTH = 30.0, 120_000

_CAMERA = {"source": "hostile.mp4", "starts": STARTS, "rho": "1s", "k": "1", "epsilon": "10"}
_TABLE = {"executable": "hostile", "begin": STARTS, "end": "2026-03-01 06:00:10+00", "chunk": "1s", "timeout": "200ms", "max_rows": "1"}
#: option -> what it is
_OPTIONS = {
    "source": name,
    "starts": moment,
    "fps": number,
    "rho": duration,
    "k": number,
    "epsilon": number,
    "quantum": duration,
    "warm": name,
    "visibility": name,
    "executable": name,
    "begin": moment,
    "end": moment,
    "chunk": duration,
    "stride": duration,
    "runtime": name,
    "timeout": duration,
    "max_rows": number,
    "pad": name,
    "mask": name,
    "regions": name,
}
#: literals and forms in a query; %s is hostile
_QUERIES = (
    "SELECT count(*) FROM hostile WHERE v > {n}",
    "SELECT sum(range(v, 0, {n})) FROM hostile",
    "SELECT count(*) FROM hostile WHERE w = {t}",
    "SELECT count(*) FROM hostile WHERE w LIKE {t}",
    "SELECT count(*) FROM hostile WHERE chunk > {m}",
    "SELECT count(*) FROM hostile LIMIT {n}",
    "SELECT count(*) FROM hostile WHERE {p}true{q}",
    "SELECT count(*) FROM hostile WHERE {not}true",
    "SELECT count(*) FROM hostile WHERE v IN ({l})",
    "SELECT sum(range(v{plus}, 0, 1)) FROM hostile",
    "SELECT {t}, count(*) FROM hostile GROUP BY 1",
    "SELECT count(*) {u}",
    "SELECT avg(range(v, {n}, {n})) FROM hostile",
    "SELECT count(*) FROM hostile WHERE chunk > {m}::timestamptz - {d}::interval",
)


class Hostile:
    """A camera, an executable, a table; and statements that nobody means."""

    def __init__(self, stack: RunningStack, seed: int) -> None:
        self.stack, self.chance, self.outcomes = stack, Chance(seed), Counter[str]()
        self._number = 0
        write_video(stack.videos / "hostile.mp4", [10] * 100)
        stack.camera("hostile", **_CAMERA)
        stack.executable("hostile", BRIGHTNESS)
        stack.run(
            "CREATE FOREIGN TABLE hostile (chunk timestamptz, v float8 DEFAULT 0, w text DEFAULT '') SERVER hostile OPTIONS "
            + _written(_TABLE)
        )
        self._functions = {
            role: stack.run(
                "SELECT p.proname, array(SELECT format_type(t, NULL) FROM unnest(p.proargtypes) t) FROM pg_proc p "
                "WHERE p.pronamespace = 'privid'::regnamespace AND p.prokind = 'f' AND p.prorettype NOT IN ('trigger'::regtype, "
                "'event_trigger'::regtype, 'internal'::regtype) AND has_function_privilege(p.oid, 'EXECUTE') ORDER BY p.oid",
                user=role,
            )
            for role in ("owner", "analyst")
        }
        self._sessions = {role: stack.connect(role) for role in ("owner", "analyst")}
        for session in self._sessions.values():
            session.execute("SET statement_timeout = '60s'")
            session.execute("SET privid.epsilon = 1")

    def run(self, count: int) -> Counter[str]:
        actions: list[Callable[[], None]] = [
            self._camera,
            self._table,
            self._column,
            self._mask,
            self._regions,
            self._query,
            self._query,
            self._setting,
            self._function,
            self._function,
        ]
        for _ in range(count):
            self._number += 1
            self.chance.choice(actions)()
        self._look_at_logs()
        return self.outcomes

    def _do(self, role: str, statement: sql.Composable | str, *values: Any) -> bool:
        """Whether it was accepted; it must have been that, or refused in words and soon."""
        session, begun = self._sessions[role], time.monotonic()
        shown = (statement if isinstance(statement, str) else statement.as_string(session))[:600]
        try:
            session.execute(statement.encode() if isinstance(statement, str) else statement.as_bytes(session), values or None)
            self.outcomes["accepted"] += 1
            accepted = True
        except psycopg.Error as error:
            assert not session.closed, (shown, str(error))
            state = error.sqlstate or type(error).__name__
            told = str(error)
            assert not state.startswith("XX") and "internal" not in told and "Traceback" not in told, (
                shown,
                state,
                told[:600],
                values and str(values)[:600],
            )
            assert state != "PV004" and not state.startswith(("57", "58")), (shown, state, told[:600], str(values)[:600])
            self.outcomes[state] += 1
            accepted = False
        assert time.monotonic() - begun < PATIENCE, shown
        return accepted

    def close(self) -> None:
        for session in self._sessions.values():
            session.close()

    # What is tried

    def _camera(self) -> None:
        options = dict(_CAMERA)
        for option in self.chance.sample([*_CAMERA, "fps", "quantum", "warm", "visibility"], self.chance.choice([1, 1, 2])):
            options[option] = _OPTIONS[option](self.chance)
        called = f"h{self._number}" if self.chance.random() < 0.7 else name(self.chance) or "x"
        server = sql.Identifier(called.replace("\0", ""))
        if self._do(
            "owner", sql.SQL("CREATE SERVER {} FOREIGN DATA WRAPPER privid OPTIONS {}").format(server, _Verbatim(_written(options)))
        ):
            self._do("owner", sql.SQL("DROP SERVER {} CASCADE").format(server))

    def _table(self) -> None:
        options = dict(_TABLE)
        for option in self.chance.sample([*_TABLE, "stride", "runtime", "pad", "mask", "regions"], self.chance.choice([1, 1, 2])):
            options[option] = _OPTIONS[option](self.chance)
        self._with_table("v float8 DEFAULT 0", options)

    def _column(self) -> None:
        kind = self.chance.choice(
            ["float8 OPTIONS (low {}, high {}) DEFAULT 0", "text OPTIONS (keys {}) DEFAULT ''", "text DEFAULT {}", "float8 DEFAULT {}"]
        )
        column = sql.SQL(kind).format(*(sql.Literal(text(self.chance)) for _ in range(kind.count("{}"))))
        self._with_table(sql.Identifier(name(self.chance)[:60].replace("\0", "") or "v").as_string() + " " + column.as_string(), _TABLE)

    def _with_table(self, columns: str, options: dict[str, str]) -> None:
        made = sql.SQL("CREATE FOREIGN TABLE made ({}) SERVER hostile OPTIONS {}").format(_Verbatim(columns), _Verbatim(_written(options)))
        if self._do("analyst", made):
            self._do("analyst", "EXPLAIN SELECT count(*) FROM made")
            self._do("analyst", "DROP FOREIGN TABLE made")

    def _mask(self) -> None:
        called = name(self.chance) if self.chance.random() < 0.2 else f"m{self._number}"
        shapes = [
            polygon(self.chance) if self.chance.random() < 0.6 else "((0,0),(9,0),(9,9))"
            for _ in range(self.chance.choice([0, 1, 3, 1001]))
        ]
        image = BUILDERS["bytea"](self.chance) if self.chance.random() < 0.3 else None
        if self._do(
            "owner",
            "SELECT privid.create_mask('hostile', %s, %s::text[]::polygon[], %s, %s, %s, %s)",
            called,
            shapes,
            duration(self.chance) if self.chance.random() < 0.5 else "1s",
            BUILDERS["integer"](self.chance) if self.chance.random() < 0.3 else 1,
            image,
            duration(self.chance) if self.chance.random() < 0.3 else None,
        ):
            self._with_table("v float8 DEFAULT 0", {**_TABLE, "mask": called})

    def _regions(self) -> None:
        called = name(self.chance) if self.chance.random() < 0.2 else f"r{self._number}"
        if self._do(
            "owner",
            "SELECT privid.create_regions('hostile', %s, %s, %s, %s, cells => %s)",
            called,
            json_text(self.chance),
            self.chance.choice(["soft", "hard", name(self.chance)]),
            BUILDERS["integer"](self.chance) if self.chance.random() < 0.5 else None,
            json_text(self.chance) if self.chance.random() < 0.3 else None,
        ):
            self._with_table("region text, v float8 DEFAULT 0", {**_TABLE, "regions": called})

    def _query(self) -> None:
        depth, chance = self.chance.choice([3, 200, 2000, 20_000]), self.chance
        bare = number(chance)
        parts = {
            "n": bare if bare.lstrip("-").isdigit() and bare.isascii() else _literal(bare),
            "t": _literal(text(chance)),
            "m": _literal(moment(chance)),
            "d": _literal(duration(chance)),
            "p": "(" * depth,
            "q": ")" * depth,
            "not": "NOT " * depth,
            "l": ", ".join(["1"] * depth),
            "plus": " + 1" * depth,
            "u": "FROM (" + " UNION ALL ".join(["SELECT v FROM hostile"] * min(depth, 300)) + ") q",
        }
        self._do("analyst", "EXPLAIN " + chance.choice(_QUERIES).format(**parts))

    def _setting(self) -> None:
        setting = self.chance.choice(["privid.epsilon", "privid.allowance", "privid.reuse", "privid.raw", "privid.share"])
        if self._do("analyst", "SELECT set_config(%s, %s, false)", setting, text(self.chance).replace("\0", "")):
            self._do("analyst", "EXPLAIN SELECT count(*) FROM hostile")
        self._do("analyst", "RESET ALL")
        self._do("analyst", "SET privid.epsilon = 1")

    def _function(self) -> None:
        role = self.chance.choice(["owner", "analyst"])
        called, types = self.chance.choice(self._functions[role])
        values = [None if self.chance.random() < 0.05 else BUILDERS.get(kind, text)(self.chance) for kind in types]
        if types and types[0] == "text" and self.chance.random() < 0.5:
            values[0] = "hostile"
        marks = sql.SQL(", ").join(sql.SQL("%s::{}").format(_Verbatim(kind)) for kind in types)
        self._do(role, sql.SQL("SELECT {}({})").format(sql.Identifier("privid", called), marks), *values)

    def _look_at_logs(self) -> None:
        for log in self.stack.layout.log.iterdir():
            lines = log.read_text(errors="replace").splitlines()
            assert not [
                line
                for line in lines
                if "Traceback" in line
                or "internal error" in line
                or "PANIC" in line
                or "connection failed" in line
                or "thread failed" in line
                or "was terminated by signal" in line
            ], log

    def resident(self) -> int:
        """KiB of the engine."""
        status = Path(f"/proc/{self.stack.engine_pid()}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])


class _Verbatim(sql.Composable):
    """SQL as it stands, with signs that psycopg would take for places."""

    def __init__(self, text: str) -> None:
        super().__init__(text)

    def as_bytes(self, context: Any = None) -> bytes:
        return str(self._obj).encode()


def _literal(value: str) -> str:
    return sql.Literal(value.replace("\0", "")).as_string()


def _written(options: dict[str, str]) -> str:
    return "(" + ", ".join(f'"{option}" {_literal(value)}' for option, value in options.items()) + ")"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--statements", type=int, default=STATEMENTS, help="how many")
    parser.add_argument("--seed", type=int, default=1, help="of the values")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="privid-hostile-"))
    directory.chmod(0o755)
    with guarded(directory, [sys.executable, "-m", "privid.cli.main", "down", "--data", directory / "stack"]):
        run_privid("up", "--data", directory / "stack")
        hostile = Hostile(RunningStack(directory / "stack"), options.seed)
        hostile.run(100)
        before = hostile.resident()
        outcomes = hostile.run(options.statements)
        grown = hostile.resident() - before
        hostile.close()
    for outcome, count in outcomes.most_common():
        print(f"{count:6} {outcome}")
    print(f"the engine grew by {grown} KiB")
    assert grown < GROWTH


if __name__ == "__main__":
    main()
