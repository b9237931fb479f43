"""Reads dumps of pg_dump --format custom: what is in one, and the SQL that restores parts of it.

What a dump holds is read from its table of contents itself. pg_restore --list prints the same for
people: a name with a space in it cannot be told from two names there.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from .files import open_regular
from .terminal import CommandFailed

__all__ = ["DATA", "POST_DATA", "Archive", "Entry", "read_row"]

#: sections, as pg_dump numbers them; what has none is 1, definitions before the rows are 2
DATA, POST_DATA = 3, 4

#: bytes of a text: rows are not among them
_LONGEST = 1 << 28

#: the version of the format that PostgreSQL 12 to 15 write
_FORMAT = (1, 14)
_CUSTOM = 1
_CUSTOM_HINT = "Make one with pg_dump --format custom."

#: what newer minor versions put around a script for psql; the key is random
_RESTRICT = re.compile(rb"^\\restrict (\w+)$", re.MULTILINE)

#: how COPY writes what would end a field or a row
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@dataclass(frozen=True)
class Entry:
    """One object of a dump, or the rows of one table."""

    number: int
    kind: str  # as pg_restore --list says it: TABLE, TABLE DATA, ACL, ...
    section: int
    schema: str
    name: str
    owner: str  # empty for what has none, such as casts
    copy: str  # the statement before rows
    statement: str
    depends: frozenset[int]

    def __str__(self) -> str:
        return f'{self.kind.lower()} "{self.schema + "." if self.schema else ""}{self.name}"'


class Archive:
    """A dump in a file."""

    def __init__(self, path: Path, pg_restore: Path) -> None:
        self.path = path.absolute()
        self._pg_restore = pg_restore
        if not self.path.exists():
            raise CommandFailed(f'file "{path}" does not exist', _CUSTOM_HINT)
        if self.path.is_dir():
            raise CommandFailed(f'"{path}" is not a custom-format dump', _CUSTOM_HINT)
        try:
            with open_regular(self.path) as file:
                self.entries = _Contents(file, path).entries()
        except (ValueError, MemoryError):  # a text where a number should be, and lengths that are none
            raise CommandFailed(f'dump "{path}" is damaged', _CUSTOM_HINT) from None

    def script(self, entries: Iterable[Entry], *, owners: bool) -> bytes:
        """The statements that make these objects, and give them to their owners if so wanted."""
        done = subprocess.run(self._command(owners), input=_listed(entries), capture_output=True,
                              check=False, env=_environment())
        if done.returncode != 0:
            raise _failed(done.stderr)
        if found := _RESTRICT.search(done.stdout):
            return done.stdout.replace(b"\n%s\n" % found[0], b"\n", 1).replace(
                b"\n\\unrestrict %s\n" % found[1], b"\n", 1)
        return done.stdout

    @contextmanager
    def rows(self, entry: Entry) -> Iterator[Iterator[bytes]]:
        """The lines of COPY with the rows of a table; very long ones in pieces."""
        with subprocess.Popen(self._command(False), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, env=_environment()) as process:
            assert process.stdin and process.stdout and process.stderr
            try:
                process.stdin.write(_listed([entry]))
                process.stdin.close()
                before, copy = b"", entry.copy.encode()
                while not before.endswith(b"\n" + copy):
                    line = process.stdout.readline()
                    if not line:
                        raise _failed(process.stderr.read())
                    before += line
                yield _until_end(process.stdout)
                process.stdout.read()
                told = process.stderr.read()
                if process.wait() != 0:
                    raise _failed(told)
            finally:
                process.kill()  # a reader that gave up; harmless to one that has ended

    def _command(self, owners: bool) -> list[str]:
        return [str(self._pg_restore), "--use-list=/dev/stdin", "--file=-",
                *([] if owners else ["--no-owner"]), str(self.path)]


def read_row(line: bytes) -> list[str | None]:
    """The fields of a line of COPY."""
    fields = line.decode().removesuffix("\n").split("\t")
    return [None if field == r"\N" else re.sub(
        r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), field) for field in fields]


def _listed(entries: Iterable[Entry]) -> bytes:
    return "".join(f"{entry.number};\n" for entry in entries).encode()


def _environment() -> dict[str, str]:
    """Of a program that connects to nothing."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return kept | {"LC_ALL": "C"}


def _failed(told: bytes) -> CommandFailed:
    lines = told.decode(errors="replace").strip().splitlines() or ["no reason was given"]
    return CommandFailed(f"could not read the dump: {lines[0].removeprefix('pg_restore: error: ')}")


def _until_end(stream: IO[bytes]) -> Iterator[bytes]:
    begins = True
    while True:
        piece = stream.readline(1 << 24)
        if not piece:
            raise CommandFailed("could not read the dump: rows end too early")
        if begins and piece == b"\\.\n":
            return
        yield piece
        begins = piece.endswith(b"\n")


class _Contents:
    """The head of a dump: numbers, texts, and objects made of them."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._file, self._path = file, path
        self._size = os.fstat(file.fileno()).st_size
        magic = file.read(11)
        if magic[:5] != b"PGDMP" or len(magic) < 11 or magic[10] != _CUSTOM:
            raise CommandFailed(f'"{path}" is not a custom-format dump', _CUSTOM_HINT)
        if (magic[5], magic[6]) != _FORMAT:
            raise CommandFailed(
                f'"{path}" has format {magic[5]}.{magic[6]}, not {_FORMAT[0]}.{_FORMAT[1]}',
                "Make the dump with pg_dump of PostgreSQL 15.")
        self._integer, self._offset = magic[8], magic[9]

    def entries(self) -> list[Entry]:
        for _ in range(8):  # compression and time
            self._number()
        for _ in range(3):  # database and versions
            self._text()
        return [self._entry() for _ in range(self._number())]

    def _entry(self) -> Entry:
        number, _, _, _ = self._number(), self._number(), self._text(), self._text()
        name, kind, section = self._text(), self._text(), self._number()
        statement, _, copy, schema = self._text(), self._text(), self._text(), self._text()
        _, _, owner, _ = self._text(), self._text(), self._text(), self._text()
        depends = set()
        while (other := self._optional()) is not None:
            depends.add(int(other))
        self._bytes(1 + self._offset)  # where its rows begin
        return Entry(number, kind, section, schema, name, owner, copy, statement,
                     frozenset(depends))

    def _bytes(self, count: int) -> bytes:
        if count > self._size - self._file.tell():
            raise CommandFailed(f'dump "{self._path}" is cut off', _CUSTOM_HINT)
        if count > _LONGEST:
            raise ValueError(count)
        found = self._file.read(count)
        if len(found) < count:
            raise CommandFailed(f'dump "{self._path}" is cut off', _CUSTOM_HINT)
        return found

    def _number(self) -> int:
        sign, value = self._bytes(1), int.from_bytes(self._bytes(self._integer), "little")
        return -value if sign != b"\0" else value

    def _optional(self) -> str | None:
        length = self._number()
        return None if length < 0 else self._bytes(length).decode(errors="surrogateescape")

    def _text(self) -> str:
        return self._optional() or ""
