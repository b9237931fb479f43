"""Reads a query file: comments become blanks, semicolons end statements, SPLIT and PROCESS are understood, SELECT is for select.py."""

from __future__ import annotations

import re

from privid.model import SYSTEM_COLUMNS

from .scanner import Scanner
from .source import Mistake, Source
from .statements import Column, Process, Program, Select, Split, Statement
from .values import duration, moment, whole

__all__ = ["read"]

_QUOTED = re.compile(r"""'(?:[^']|'')*('?)|"(?:[^"]|"")*("?)""")
_FILE = re.compile(r"""[^\s;"',()]+""")
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?(?![\w.])")


def read(source: Source) -> Program:
    """All statements of the file. The whole file is read before anything is run, so that a typing mistake at its end costs nothing."""
    statements: list[Statement] = []
    overlooked: list[tuple[str, int]] = []
    splits: dict[str, Split] = {}
    tables: set[str] = set()
    for text, start, stop in _pieces(source.text):
        scanner = Scanner(text, start, stop)
        at = scanner.at
        if scanner.accept("SPLIT"):
            split = _split(scanner, at)
            if split.name in splits:
                raise Mistake(f'chunk set "{split.name}" already exists', split.places["into"])
            splits[split.name] = split
            statements.append(split)
        elif scanner.accept("PROCESS"):
            process = _process(scanner, at, splits)
            if process.table in tables:
                raise Mistake(f'table "{process.table}" already exists', process.places["into"])
            tables.add(process.table)
            statements.append(process)
        elif any(scanner.accept(word) for word in ("SELECT", "WITH", "(")):
            body = text[at:stop].rstrip()
            # the paper's first listing closes a parenthesis that it never opened
            if _depth(body) == -1 and body.endswith(")"):
                body = body[:-1].rstrip()
                overlooked.append(("closing parenthesis without an opening one is ignored", at + text[at:stop].rstrip().rfind(")")))
            statements.append(Select(at, body))
        else:
            raise scanner.mistake("a query file has statements SPLIT, PROCESS and SELECT")
    if not any(isinstance(statement, Select) for statement in statements):
        raise Mistake("there is no SELECT in the file", len(source.text.rstrip()), hint="Add a SELECT that aggregates a table of PROCESS.")
    return Program(tuple(statements), tuple(overlooked))


def _split(scanner: Scanner, at: int) -> Split:
    places = {"camera": scanner.at}
    camera = scanner.name("a camera")
    scanner.expect("BEGIN")
    begin, places["begin"] = moment(scanner)
    scanner.expect("END")
    end, places["end"] = moment(scanner)
    scanner.expect("BY", "TIME")
    chunk, places["chunk"] = duration(scanner, "the length of a chunk")
    scanner.expect("STRIDE")
    stride, places["stride"] = duration(scanner, "the stride")
    seen: dict[str, str] = {}
    while True:
        option = "regions" if scanner.accept("BY", "REGION") else "mask" if scanner.accept("WITH", "MASK") else None
        if option is None:
            break
        if option in seen:
            raise Mistake(f"{'BY REGION' if option == 'regions' else 'WITH MASK'} specified more than once", scanner.at)
        places[option] = scanner.at
        seen[option] = scanner.name("regions" if option == "regions" else "a mask")
    scanner.expect("INTO")
    places["into"] = scanner.at
    name = scanner.name("a chunk set")
    scanner.end()
    return Split(at, camera, begin, end, chunk, stride, name, places, seen.get("mask"), seen.get("regions"))


def _process(scanner: Scanner, at: int, splits: dict[str, Split]) -> Process:
    chunks_at = scanner.at
    chunks = scanner.name("a chunk set")
    if chunks not in splits:
        raise Mistake(f'chunk set "{chunks}" does not exist', chunks_at,
                      hint=f"A SPLIT before this statement makes one: SPLIT ... INTO {chunks};")
    scanner.expect("USING")
    places = {"executable": scanner.at}
    file = scanner.string()
    if file is None:
        found = scanner.match(_FILE)
        if found is None:
            raise scanner.mistake("the file of an executable is expected here")
        file = found[0]
    scanner.expect("TIMEOUT")
    timeout, places["timeout"] = duration(scanner, "the time-out")
    scanner.expect("PRODUCING")
    pad = scanner.accept("EXACTLY")
    max_rows, places["max_rows"] = whole(scanner, "the number of rows of a chunk")
    scanner.accept("ROWS") or scanner.accept("ROW")
    scanner.expect("WITH", "SCHEMA")
    columns = _schema(scanner)
    scanner.expect("INTO")
    places["into"] = scanner.at
    table = scanner.name("a table")
    scanner.end()
    return Process(at, splits[chunks], file, timeout, max_rows, pad, columns, table, places)


def _schema(scanner: Scanner) -> tuple[Column, ...]:
    columns: dict[str, Column] = {}
    scanner.expect("(")
    while True:
        at = scanner.at
        name = scanner.name("a column")
        if name in SYSTEM_COLUMNS:
            raise Mistake(f'column "{name}" is filled by the system', at, hint="Give the program's column another name.")
        if name in columns:
            raise Mistake(f'column "{name}" specified more than once', at)
        scanner.expect(":")
        kind = "STRING" if scanner.accept("STRING") else "NUMBER" if scanner.accept("NUMBER") else None
        if kind is None:
            raise scanner.mistake("a type is expected here: STRING or NUMBER")
        columns[name] = Column(name, kind, _default(scanner, name, kind))
        if not scanner.accept(","):
            scanner.expect(")")
            return tuple(columns.values())


def _default(scanner: Scanner, name: str, kind: str) -> str:
    example = '=""' if kind == "STRING" else "=0"
    if not scanner.accept("="):
        raise scanner.mistake(f'column "{name}" needs a default, the value of a chunk whose program failed, for example {example}')
    if kind == "STRING":
        text = scanner.string()
        if text is not None:
            return text
    else:
        number = scanner.match(_NUMBER)
        if number is not None:
            return number[0]
    wanted = "text in quotes" if kind == "STRING" else "number"
    raise scanner.mistake(f'the default of column "{name}" is a {wanted}, for example {example}')


def _pieces(text: str) -> list[tuple[str, int, int]]:
    """The statements: the whole text with its comments blanked, first and last offset of each. Lengths never change, so offsets hold."""
    blanked, cuts = list(text), []
    at = 0
    while at < len(text):
        if text.startswith("--", at) or text.startswith("/*", at):
            stop = _comment_end(text, at)
            blanked[at:stop] = [c if c == "\n" else " " for c in text[at:stop]]
            at = stop
        elif text[at] in "'\"":
            quoted = _QUOTED.match(text, at)
            assert quoted is not None
            if not (quoted[1] or quoted[2]):
                raise Mistake("unterminated quoted text", at)
            at = quoted.end()
        else:
            if text[at] == ";":
                cuts.append(at)
            at += 1
    clean = "".join(blanked)
    starts = [0, *(cut + 1 for cut in cuts)]
    return [(clean, start, stop) for start, stop in zip(starts, [*cuts, len(text)], strict=True) if clean[start:stop].strip()]


def _comment_end(text: str, at: int) -> int:
    """Just past a comment; those with stars nest, as in SQL."""
    if text.startswith("--", at):
        stop = text.find("\n", at)
        return len(text) if stop < 0 else stop
    depth, place = 0, at
    for mark in re.finditer(r"/\*|\*/", text[at:]):
        depth += 1 if mark[0] == "/*" else -1
        place = at + mark.end()
        if depth == 0:
            return place
    raise Mistake("unterminated /* comment", at)


def _depth(body: str) -> int:
    """Parentheses opened less parentheses closed."""
    bare = _QUOTED.sub("", body)
    return bare.count("(") - bare.count(")")
