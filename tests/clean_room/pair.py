"""Two videos that differ in one event, seen through tables that differ in nothing else, and what a
client sees of a statement over each.

Side a has the event: five rows of its chunk name plate X, are flagged and large. Side b has the
same rows without it. Each side is a schema with a table t on a camera of its own, so that one text,
down to the positions in it, asks about either.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg

from tests.conftest import RunningStack

__all__ = ["COLUMNS", "HEAVY", "PROGRAM", "SIDES", "Connection", "Pair", "Seen", "alongside"]

Connection = psycopg.Connection[tuple[Any, ...]]

SIDES = ("a", "b")
SECONDS = 4
EVENT = 2
COLUMNS = (
    "chunk timestamptz, plate text DEFAULT 'none', v float8 DEFAULT 0, flag boolean DEFAULT false, "
    "size event_size DEFAULT 'small', note text DEFAULT ''"
)
OPTIONS = {
    "begin": "2026-03-01 06:00+00",
    "end": f"2026-03-01 06:00:0{SECONDS}+00",
    "chunk": "1s",
    "timeout": "400ms",
    "max_rows": "20",
}

#: twenty rows for each chunk, five of them about the event if the last frame shows it
PROGRAM = """#!/usr/bin/python3
import json, sys
with open(sys.argv[1] + "/frames.npy", "rb") as file:
    file.seek(-1, 2)
    bright = file.read(1)[0] > 100
for i in range(20):
    seen = bright and i < 5
    plate, size = ("X", "large") if seen else ("none", "small")
    row = {"plate": plate, "v": 1 + i % 4, "flag": seen, "size": size, "note": "a" * 1000}
    print(json.dumps(row))
"""

#: twenty LIKEs that compare every place of a text with a long pattern, for rows of the event alone
HEAVY = "SELECT count(*) FROM few WHERE CASE WHEN plate = 'X' THEN {} ELSE false END".format(
    " AND ".join(f"note NOT LIKE '%{'a' * 500}{letter}%'" for letter in "bcdefghijklmnopqrstu")
)


@dataclass(frozen=True)
class Seen:
    """Everything that a client sees of a statement, with the numbers of a release taken out."""

    error: tuple[str | None, ...] | None = None
    columns: tuple[tuple[str, int], ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    tag: str | None = None
    notices: tuple[str, ...] = ()
    charged: float = 0.0
    #: how long it took, which is compared by other means
    seconds: float = field(default=0.0, compare=False)

    @property
    def sqlstate(self) -> str | None:
        return self.error[0] if self.error else None


@dataclass
class Pair:
    """Role analyst's schemas event_a and event_b, with a table t each."""

    stack: RunningStack

    @classmethod
    def make(cls, stack: RunningStack, write_video: Callable[..., Path]) -> Pair:
        calm = [10] * 10 * SECONDS
        event = [200 if i // 10 == EVENT else level for i, level in enumerate(calm)]
        stack.executable("event", PROGRAM)
        stack.run("CREATE TYPE event_size AS ENUM ('small', 'large')")
        pair = cls(stack)
        for side, levels in zip(SIDES, (event, calm), strict=True):
            name = f"event_{side}"
            write_video(stack.videos / f"{name}.mp4", levels)
            stack.camera(name, f"{name}.mp4", rho="1s", epsilon="1000000", quantum="5ms")
            stack.run(f"CREATE SCHEMA {name} AUTHORIZATION analyst", user="privid")
        pair.table("t")
        pair.warm("t")
        return pair

    # Making

    def connect(self, side: str, user: str = "analyst", **options: Any) -> Connection:
        """A session that finds the tables of a side first."""
        return self.stack.connect(
            user, options=f"-c search_path=event_{side},analyst,public", **options
        )

    def execute(self, statement: str) -> None:
        """The same on both sides."""
        for side in SIDES:
            with self.connect(side) as connection:
                connection.execute(statement.encode())

    def table(
        self, name: str, executable: str = "event", columns: str = COLUMNS, **options: str
    ) -> None:
        """A table of that name on both sides."""
        chosen = {**OPTIONS, "executable": executable, **options}
        written = ", ".join(f"\"{key}\" '{value}'" for key, value in chosen.items())
        for side in SIDES:
            with self.connect(side) as connection:
                connection.execute(
                    f"CREATE FOREIGN TABLE event_{side}.{name} ({columns}) SERVER event_{side} "
                    f"OPTIONS ({written})".encode()
                )

    def warm(self, name: str) -> None:
        """Runs the chunks of a table on both sides: a release over them then waits for nothing."""
        for side in SIDES:
            with self.connect(side) as connection:
                connection.execute(f"SELECT count(*) FROM {name}".encode())

    # Looking

    def spent(self, side: str) -> float:
        """What is gone of a camera's budget where most of it is gone."""
        rows = self.stack.run(
            "SELECT c.epsilon - min(b.remaining) FROM privid.cameras c "
            "JOIN privid.budget b USING (camera) WHERE camera = %s GROUP BY c.epsilon",
            f"event_{side}",
        )
        return round(float(rows[0][0]), 9)

    def see(
        self, side: str, statement: str, settings: str = "", user: str = "analyst", **options: Any
    ) -> Seen:
        """What a fresh session sees of a statement, after the settings."""
        with self.connect(side, user, **options) as connection:
            connection.execute("SET privid.reuse = off")
            connection.execute(settings.encode() or b"SELECT 1")
            return self.look(side, connection, statement)

    def look(self, side: str, connection: Connection, statement: str) -> Seen:
        """What a session sees of a statement."""
        notices: list[str] = []

        def notice(told: psycopg.errors.Diagnostic) -> None:
            notices.append(
                _blank(
                    " ".join(
                        filter(
                            None,
                            (
                                told.severity,
                                told.sqlstate,
                                told.message_primary,
                                told.message_detail,
                                told.message_hint,
                            ),
                        )
                    )
                )
            )

        connection.add_notice_handler(notice)
        before, begun = self.spent(side), time.monotonic()
        try:
            cursor = connection.execute(statement.encode())
            found = (
                tuple((c.name, c.type_code) for c in cursor.description or ()),
                tuple(
                    tuple(map(_public, row))
                    for row in (cursor.fetchall() if cursor.description else [])
                ),
                cursor.statusmessage,
            )
            error = None
        except psycopg.Error as raised:
            d = raised.diag
            found = ((), (), None)
            error = tuple(
                _blank(part) if part else part
                for part in (
                    d.sqlstate,
                    d.message_primary,
                    d.message_detail,
                    d.message_hint,
                    d.statement_position,
                    d.context,
                )
            )
        finally:
            seconds = time.monotonic() - begun
            connection.remove_notice_handler(notice)
        return Seen(error, *found, tuple(notices), round(self.spent(side) - before, 9), seconds)

    def both(self, statement: str, settings: str = "", **options: Any) -> tuple[Seen, Seen]:
        """What is seen on either side."""
        a, b = (self.see(side, statement, settings, **options) for side in SIDES)
        return a, b


def _public(value: Any) -> str:
    """Released numbers differ from run to run; all else must not."""
    return (
        "number"
        if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)
        else _blank(str(value))
    )


def _blank(text: str) -> str:
    """Without what names a side, or the past of its budget."""
    text = re.sub(r"\bevent_[ab]\b", "EVENT", text)
    return re.sub(r"[\d.]+ (remains|s\b)", r"N \1", text)


@contextmanager
def alongside(work: Callable[[], object]) -> Iterator[None]:
    """Does the work in a thread while the block runs; what it raises is raised at the end."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        thread.join()
    if raised:
        raise raised[0]
