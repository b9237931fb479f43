"""Rows of a dump as INSERT: COPY of a client's rows is nothing that a function could execute."""

from __future__ import annotations

from .archive import Archive, Entry, read_row
from .confined import Confined

__all__ = ["insert_rows"]

#: how much one statement inserts, in characters and rows
_LENGTH, _COUNT = 1_000_000, 1000


def insert_rows(confined: Confined, archive: Archive, entry: Entry) -> None:
    """Inserts the rows of a table as its owner, in the order of the dump."""
    head = "SET row_security = off; SET search_path = ''; INSERT INTO "
    table = entry.copy.removeprefix("COPY ").removesuffix(" FROM stdin;\n")
    bare = not table.endswith(")")  # no column, or only those that are computed
    waiting: list[str] = []
    length = 0

    def insert() -> None:
        if bare:
            for _ in waiting:
                confined.run(entry.owner, f"{head}{table} DEFAULT VALUES")
        else:
            confined.run(entry.owner, f"{head}{table} OVERRIDING SYSTEM VALUE VALUES\n" + ",\n".join(waiting))

    with archive.rows(entry) as pieces:
        line = b""
        for piece in pieces:
            line += piece
            if not line.endswith(b"\n"):
                continue
            waiting.append("(" + ", ".join(map(confined.quote, read_row(line))) + ")")
            length += len(waiting[-1])
            line = b""
            if length > _LENGTH or len(waiting) == _COUNT:
                insert()
                waiting, length = [], 0
    if waiting:
        insert()
