"""Where the calculus is verified: a real PostgreSQL with the library, and in this process an engine that explains and nothing else.

The statement passes the planner hook and the serialiser like any other; what the engine would be asked arrives here, is judged as the
engine judges it, with a room of its own, by the calculus as it is in this process (or as a test has weakened it), and the plan is kept
for comparison.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import tempfile
import threading
import traceback
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

import privid
from privid import calculus
from privid.cli.bootstrap import bootstrap
from privid.cli.closing import close_to_others
from privid.cli.layout import Layout
from privid.cli.library import copy_into
from privid.cli.postgres import Postgres
from privid.engine.definitions import Sources
from privid.engine.judge import Judged
from privid.engine.wire import Malformed, pack_json, parse_body, read_message
from privid.errors import EngineUnavailable, PrividError
from privid.ledger.pool import Pool
from privid.model import (
    Cells,
    Executable,
    Footage,
    Mask,
    Region,
    Regions,
    VideoFile,
)
from privid.video.chunking import make_grid

from .calculus_claims import Claim
from .calculus_inner import InnerTruth
from .calculus_once import OnceJudge, OnceRoom
from .calculus_world import CAMERAS, FPS, FRAMES, KIND, PUBLIC, SIZES, STARTS, TABLES

__all__ = ["Claim", "Explainer", "Stand", "own_postgres"]

#: what every release asks for
EPSILON = Fraction(1)

# the search moves to time zones that psycopg does not know, and needs it not to
logging.getLogger("psycopg").setLevel(logging.ERROR)

_FOOTAGE = Footage((VideoFile("street.mp4", "0" * 64, 0, FRAMES),), Fraction(FPS), 16, 16)
_EXECUTABLE = Executable("rows", "1" * 64, b"")


class Offers:
    """The masks and regions of the tables, each under its table's name."""

    def mask(self, camera: str, name: str) -> Mask:
        promised = TABLES[name].mask
        assert promised is not None
        return Mask(name, Fraction(promised.frames, FPS), promised.pieces, (TABLES[name].strip(3),), visible=_seconds(promised.visible))

    def regions(self, camera: str, name: str) -> Regions:
        site = TABLES[name]
        parts = tuple(Region(region, site.strip(i)) for i, region in enumerate(site.regions))
        found = Regions(name, "hard" if site.hard else "soft", site.straddle, parts)
        if site.cells is not None:
            cell, wide, speed = site.cells
            return replace(found, cells=Cells((cell, 16), (wide, 16), Fraction(speed * FPS)))
        if site.stays is None:
            return found
        return replace(found, rho=_seconds(site.stays.frames), pieces=site.stays.pieces, visible=_seconds(site.stays.visible))


def _seconds(frames: int | None) -> Fraction | None:
    return None if frames is None else Fraction(frames, FPS)


class Explainer:
    """An engine that answers hello, checks of definitions, and whether and how a statement would be released."""

    def __init__(self, path: Path, conninfo: str) -> None:
        self.asked: list[tuple[dict[str, Any], Judged]] = []
        #: whatever came about the last statement
        self.bodies: list[tuple[str, dict[str, Any]]] = []
        self.path = path
        self._pool = Pool(conninfo)
        self.room = OnceRoom(path.parent, self._pool, lambda event, /, **fields: None)
        self.judge = OnceJudge(Sources(lambda source, fps: _FOOTAGE, make_grid, lambda owner, name: _EXECUTABLE, Offers()), self.room)
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        path.chmod(0o777)
        self._socket.listen(16)
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._socket.close()
        self.room.close()
        self._pool.close()
        self.path.unlink(missing_ok=True)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self._socket.accept()
                threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        with peer, contextlib.suppress(OSError, Malformed):
            while (message := read_message(peer)) is not None:
                kind, body = message[0], parse_body(message[1])
                try:
                    peer.sendall(self._answer(kind, body))
                except PrividError as error:
                    peer.sendall(pack_json("E", error.as_message()))
                except Exception as error:  # a mistake in the calculus: told, so that the search counts it
                    where = traceback.extract_tb(error.__traceback__)[-1]
                    told = f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
                    peer.sendall(pack_json("E", EngineUnavailable(told).as_message()))

    def _answer(self, kind: str, body: dict[str, Any]) -> bytes:
        self.bodies.append((kind, body))
        if kind == "H":
            return pack_json("h", {"version": privid.__version__})
        if kind == "K":
            return pack_json("k", {"notices": []})
        if kind == "T":
            return pack_json("t", {"releases": self.judge.choose(body)})
        if kind == "X":
            judged = self.judge.judge(body)
            self.asked.append((body, judged))
            shown, lines = calculus.explain(judged.plan, frames_charged=0, budget_remaining=None, slots=0, seconds=0.0)
            return pack_json("x", {"Privid": shown, "text": lines})
        raise Malformed(f"this engine does not answer {kind}")


class Stand:
    """The cameras and tables of calculus_world in a running PostgreSQL, twice: foreign tables for claims, ordinary ones for the truth."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._worlds = 0
        self._folder = tempfile.TemporaryDirectory(prefix="privid-verify-")
        Path(self._folder.name).chmod(0o755)
        conninfo = psycopg.conninfo.make_conninfo(host=str(layout.run), port=str(layout.socket_port), dbname="privid", user="privid_engine")
        self.engine = Explainer(Path(self._folder.name) / "engine.sock", conninfo)
        self._set_socket(str(self.engine.path))
        self._define()
        self.claims, self.truth = self.connect("analyst"), self.connect("analyst")
        self.inner = InnerTruth(self.engine.room)
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> None:
        self.claims.execute("SET privid.epsilon = 1")
        self.truth.execute("SET jit = off; SET max_parallel_workers_per_gather = 0; SET search_path = verify, public")
        self.claims.execute("SET search_path = verify, public")
        columns = f"world int, chunk timestamptz, region text, plate text, v float8, w float8, red boolean, size {KIND}"
        for name in TABLES:
            self.truth.execute(f"CREATE TEMP TABLE truth_{name} ({columns})".encode())
            self.truth.execute(f"CREATE INDEX ON pg_temp.truth_{name} (world)".encode())

    def set_zone(self, zone: str) -> None:
        """Of all that is asked from now on."""
        for connection in (self.claims, self.truth):
            connection.execute("SELECT set_config('TimeZone', %s, false)", (zone,))

    def connect(self, user: str) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(host=str(self.layout.run), port=self.layout.socket_port, dbname="privid", user=user, autocommit=True)

    def close(self) -> None:
        self.claims.close()
        self.truth.close()
        self.inner.close()
        self._set_socket(None)
        with self.connect("privid") as connection:
            connection.execute("DROP SCHEMA IF EXISTS verify CASCADE")
            for camera in CAMERAS:
                connection.execute(f"DROP SERVER IF EXISTS verify_{camera} CASCADE".encode())
        self.engine.close()
        self._folder.cleanup()

    def _set_socket(self, path: str | None) -> None:
        with self.connect("privid") as connection:
            if path is None:
                connection.execute("ALTER SYSTEM RESET privid.socket")
            else:
                connection.execute(sql.SQL("ALTER SYSTEM SET privid.socket = {}").format(sql.Literal(path)))
            connection.execute("SELECT pg_reload_conf()")
        # a backend that starts before the postmaster has reread its file would still meet the other engine
        wanted = path or str(self.layout.engine_socket)
        for _ in range(200):
            with self.connect("privid") as connection:
                found = connection.execute("SELECT current_setting('privid.socket')").fetchone()
            if found is not None and (found[0] == wanted or (path is None and found[0] != str(self.engine.path))):
                return
        raise RuntimeError("PostgreSQL does not read its settings anew")

    def _define(self) -> None:
        with self.connect("privid") as connection:
            connection.execute("CREATE SCHEMA verify")
            connection.execute("GRANT ALL ON SCHEMA verify TO owner, analyst")
        with self.connect("owner") as connection:
            for camera, policy in CAMERAS.items():
                connection.execute(sql.SQL("CREATE SERVER {} FOREIGN DATA WRAPPER privid OPTIONS ({})").format(
                    sql.Identifier(f"verify_{camera}"),
                    _options({"source": "street.mp4", "starts": STARTS.isoformat(), "rho": f"{policy.frames}/{FPS} s", "k": str(policy.k),
                              "epsilon": "1000000"})))
                connection.execute(f"GRANT USAGE ON FOREIGN SERVER verify_{camera} TO analyst".encode())
        with self.connect("analyst") as connection:
            connection.execute("SET search_path = verify, public")
            connection.execute(f"CREATE TYPE {KIND} AS ENUM ({', '.join(map(repr, SIZES))})".encode())
            for statement in filter(None, map(str.strip, PUBLIC.split(";"))):
                connection.execute(statement.encode())
            for site in TABLES.values():
                connection.execute(sql.SQL("CREATE FOREIGN TABLE {} ({}) SERVER {} OPTIONS ({})").format(
                    sql.Identifier(site.name), sql.SQL(site.columns), sql.Identifier(f"verify_{site.camera}"), _options(site.options)))

    def new_worlds(self, number: int) -> int:
        """The first of so many numbers under which no rows are."""
        if self._worlds > 4000:
            self.truth.execute(f"TRUNCATE {', '.join(f'truth_{t}' for t in TABLES)}".encode())
            self._worlds = 0
        self._worlds += number
        return self._worlds - number

    def explain(self, statement: str) -> Claim:
        """The claim about a statement; a refusal is psycopg's error."""
        self.engine.asked.clear()
        self.engine.bodies.clear()
        self.engine.judge.known = {}
        try:
            row = self.claims.execute(f"EXPLAIN (FORMAT JSON) {statement}".encode()).fetchone()
        finally:
            self.engine.judge.known = None
        assert row is not None
        if len(self.engine.asked) != 1:
            raise NotOneRelease(f"{len(self.engine.asked)} releases")
        request, judged = self.engine.asked[0]
        return Claim(request, judged, _privid(row[0]), _is_whole(row[0]))


class NotOneRelease(Exception):
    """The statement is answered by several releases, or by one further down."""


def _privid(node: Any) -> dict[str, Any]:
    pending = [node if not isinstance(node, str) else json.loads(node)]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            if isinstance(item.get("Privid"), dict):
                return dict(item["Privid"])
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)
    raise NotOneRelease("none")


def _is_whole(node: Any) -> bool:
    """Whether nothing is computed of the answer."""
    (explained,) = node if not isinstance(node, str) else json.loads(node)
    return "Privid" in explained["Plan"]


def _options(options: dict[str, str]) -> sql.Composable:
    return sql.SQL(", ").join(sql.SQL("{} {}").format(sql.Identifier(k), sql.Literal(v)) for k, v in options.items())


@contextlib.contextmanager
def own_postgres() -> Iterator[Layout]:
    """A PostgreSQL of its own with the extension, and no engine."""
    with tempfile.TemporaryDirectory(prefix="privid-verify-") as folder:
        os.chmod(folder, 0o755)  # noqa: PTH101 (the user that PostgreSQL steps down to must get in)
        layout = Layout(Path(folder) / "stack")
        layout.create(None)
        close_to_others(layout)
        postgres = Postgres(layout)
        postgres.create()
        postgres.configure(copy_into(layout.lib, postgres.build))
        postgres.start()
        try:
            bootstrap(postgres)
            yield layout
        finally:
            postgres.stop()
