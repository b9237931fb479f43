"""Expressions over the trusted columns, evaluated by PostgreSQL: they mean what they mean in the query."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import psycopg
from psycopg import RawCursor, errors

from privid.calculus.weight import Keys
from privid.errors import InvalidValue
from privid.model import Evaluate, Key, Run, SetWise, Span, Table
from privid.quantities import to_pg_microseconds

from .pool import Connection, RoomPool, apply_settings
from .settings import request_settings
from .sizes import MAX_CONCAT
from .zones import changes_between, is_file_name, is_zone_only

__all__ = ["chunk_moment", "chunk_moments", "make_evaluate"]

#: enough for so many chunks; an expression that is slower than this would also be slow in the query
_TIMEOUT, _BATCH = "30s", 250_000
#: rows that are fetched at a time, and bytes that all of them can have, for a value has so many at most (room/sizes.py)
_FETCH, _BYTES, _WIDEST = 10_000, 32 << 20, 4 * MAX_CONCAT
#: of all values that are given in one list
_MAX_VALUES = 128 << 20
#: PostgreSQL's microseconds of 1970
_UNIX = -946_684_800_000_000


def make_evaluate(pool: RoomPool, settings: Mapping[str, str]) -> Evaluate:
    """Evaluates as a session with these settings would.

    The expressions must come from the calculus, never from a client.
    """
    return _Evaluate(pool, {**request_settings(settings), "statement_timeout": _TIMEOUT})


@dataclass
class _Evaluate(SetWise):
    """Implements model.SetWise for one request, which one thread judges."""

    pool: RoomPool
    settings: Mapping[str, str]
    solved: dict[Any, Any] = field(default_factory=dict)
    _held: Connection | None = None

    def __call__(self, expressions: Sequence[str], table: Table, span: Span, region: str = "", /) -> list[Key]:
        return self.at(expressions, table, range(*span), region)

    def at(self, expressions: Sequence[str], table: Table, chunks: Sequence[int], region: str = "", /) -> list[Key]:
        if not expressions or not chunks:
            return [() for _ in chunks]
        with self._session() as conn:
            return _rows(conn, expressions, _moments(table, chunks), region)

    def runs(self, expressions: Sequence[str], table: Table, spans: Sequence[Span], region: str = "", /) -> Iterator[Run]:
        if not spans:
            return
        last: Run | None = None
        with self._session() as conn:
            for some in _batches(spans):
                for run in _borders(conn, expressions, table, some, region):
                    if last is not None and last[1] == run[0] and last[2] == run[2]:
                        run = (last[0], run[1], run[2])
                    elif last is not None:
                        yield last
                    last = run
        if last is not None:
            yield last

    def steady(self, table: Table, spans: Sequence[Span], zones: Collection[str | None], /) -> list[Span] | None:
        if not spans:
            return []
        seconds = [(chunk_moment(table, j) - _UNIX) // 1_000_000 for j in (spans[0][0], spans[-1][1] - 1)]
        changes: set[int] = set()
        with self._session() as conn:
            for zone in zones:
                content = _zone_file(conn, zone)
                found = None if content is None else changes_between(content, *seconds)
                if found is None:
                    return None
                changes.update(found)
        return _cut(spans, sorted({_first_at(table, _UNIX + 1_000_000 * moment) for moment in changes}))

    @contextmanager
    def together(self) -> Iterator[None]:
        with self._session() as conn:
            self._held = conn
            try:
                yield
            finally:
                self._held = None

    @contextmanager
    def _session(self) -> Iterator[Connection]:
        """A transaction that can change nothing; what PostgreSQL says against an expression is said to whoever asked."""
        if self._held is not None:
            yield self._held
            return
        with self.pool.public() as conn:
            try:
                with conn.transaction():
                    apply_settings(conn, {"transaction_read_only": "on", **self.settings}, local=True)
                    yield conn
            except errors.QueryCanceled as error:
                raise InvalidValue(
                    "expression over the chunks takes too long to evaluate",
                    hint="Group or select by a simpler expression of chunk.") from error
            except (psycopg.DataError, psycopg.ProgrammingError, errors.ReadOnlySqlTransaction,
                    errors.FeatureNotSupported) as error:
                told = error.diag
                raise InvalidValue(
                    told.message_primary or "expression over the chunks cannot be evaluated",
                    detail=told.message_detail, hint=told.message_hint) from error


def chunk_moment(table: Table, chunk: int) -> int:
    """Table.chunk_microseconds, in integers throughout."""
    return _moments(table, (chunk,))[0]


def chunk_moments(table: Table, span: Span) -> list[int]:
    """Table.chunk_microseconds of each chunk of the span, in integers throughout.

    A hundred thousand take a moment, not seconds.
    """
    return _moments(table, range(*span))


def _moments(table: Table, chunks: Sequence[int]) -> list[int]:
    grid, fps = table.grid, table.camera.footage.fps
    starts = to_pg_microseconds(table.camera.starts)
    per_frame, divisor = 1_000_000 * fps.denominator, fps.numerator
    first, step, moments = grid.first, grid.step, []
    for chunk in chunks:
        whole, rest = divmod((first + chunk * step) * per_frame, divisor)
        # ties to even, as round() does
        up = 2 * rest > divisor or (2 * rest == divisor and whole & 1)
        moments.append(starts + whole + bool(up))
    return moments


def _first_at(table: Table, moment: int) -> int:
    """The first chunk that begins at this moment or later; moments ascend with the chunks."""
    return bisect_left(range(table.grid.count), moment, key=lambda chunk: chunk_moment(table, chunk))


def _cut(spans: Sequence[Span], borders: Sequence[int]) -> list[Span]:
    """The same chunks; none of the spans goes across a border."""
    found: list[Span] = []
    for lo, hi in spans:
        inside = borders[bisect_left(borders, lo + 1):bisect_left(borders, hi)]
        edges = [lo, *inside, hi]
        found += pairwise(edges)
    return found


def _batches(spans: Sequence[Span]) -> Iterator[list[Span]]:
    """The same chunks, so many at a time as one statement looks at."""
    batch: list[Span] = []
    room = _BATCH
    for lo, hi in spans:
        while lo < hi:
            end = min(hi, lo + room)
            batch.append((lo, end))
            room -= end - lo
            lo = end
            if not room:
                yield batch
                batch, room = [], _BATCH
    if batch:
        yield batch


def _zone_file(conn: Connection, zone: str | None) -> bytes | None:
    """The file that PostgreSQL reads for a zone; None is that of the session."""
    name = str(conn.execute("SELECT pg_catalog.current_setting('TimeZone')").fetchall()[0][0]) if zone is None else zone
    if not is_file_name(name) or (zone is not None and not is_zone_only(name)):
        return None
    found = conn.execute("""
        SELECT pg_catalog.pg_read_binary_file(coalesce(
                   pg_catalog.substring((SELECT setting FROM pg_catalog.pg_config() WHERE name = 'CONFIGURE'),
                                        '--with-system-tzdata=([^'' ]+)'),
                   (SELECT setting FROM pg_catalog.pg_config() WHERE name = 'SHAREDIR') || '/timezone')
               || '/' || %s, 0, 1000000, true)""", (name,)).fetchall()[0][0]
    return bytes(found) if isinstance(found, bytes | memoryview) else None


def _moment(table: Table, chunk: str) -> str:
    """SQL for the trusted column chunk, from SQL for a chunk's number (int8)."""
    grid, fps = table.grid, table.camera.footage.fps
    starts = to_pg_microseconds(table.camera.starts)
    per_frame, divisor = 1_000_000 * fps.denominator, fps.numerator
    first, by = grid.first * per_frame, grid.step * per_frame
    if first % divisor == 0 and by % divisor == 0:
        microseconds = f"({chunk} * {by // divisor}::int8 + {starts + first // divisor}::int8)"
    else:
        # of a fraction the nearest, ties to even; numeric, so that no product is too long
        at = f"({chunk} * {by}::numeric + {first}::numeric)"
        whole, rest = f"pg_catalog.div({at}, {divisor})", f"pg_catalog.mod({at}, {divisor})"
        up = f"(2 * {rest} > {divisor} OR (2 * {rest} = {divisor} AND pg_catalog.mod({whole}, 2) = 1))::int4"
        microseconds = f"({starts}::numeric + {whole} + {up})::int8"
    return _timestamp(microseconds)


def _timestamp(microseconds: str) -> str:
    """A moment, exactly: double precision has every number of hours, and of microseconds of one, but not of those of 300 years."""
    return (f"(timestamptz '2000-01-01 00:00:00+00' + ({microseconds} / 3600000000)::float8 * interval '1 hour'"
            f" + ({microseconds} % 3600000000)::float8 * interval '1 microsecond')")


def _borders(conn: Connection, expressions: Sequence[str], table: Table, spans: Sequence[Span], region: str) -> Iterator[Run]:
    """Every chunk is evaluated beside the one before it, and only those leave that differ from it. Equal values are taken to print
    alike, as keys do (privid.calculus.alike)."""
    def written(chunk: str, name: str) -> str:
        listed = ", ".join(f"({expression}) AS v{i}" for i, expression in enumerate(expressions))
        return f"LATERAL (SELECT {listed} FROM (SELECT {_moment(table, chunk)} AS chunk, $3::text AS region) AS chunks) AS {name}"

    differs = " OR ".join(f"now.v{i} IS DISTINCT FROM before.v{i}" for i in range(len(expressions)))
    statement = f"""
        SELECT n.n, {", ".join(f"now.v{i}" for i in range(len(expressions)))}
        FROM ROWS FROM (unnest($1::int8[]), unnest($2::int8[])) AS span(lo, hi),
             LATERAL pg_catalog.generate_series(span.lo, span.hi - 1) AS n(n), {written("n.n", "now")}, {written("(n.n - 1)", "before")}
        WHERE n.n = span.lo OR {differs}"""
    firsts, ends = [lo for lo, _ in spans], [hi for _, hi in spans]
    at, begin, key, fetched = -1, -1, Key(), _at_once(len(expressions))
    with RawCursor(conn) as cursor:
        # a cursor holds no more than what is fetched, and the values are taken as text, as in _rows
        cursor.execute(f"DECLARE runs NO SCROLL CURSOR FOR {statement}".encode(), (firsts, ends, region), prepare=False)
        while True:
            cursor.execute(f"FETCH {fetched} FROM runs".encode(), prepare=False, binary=False)
            result = cursor.pgresult
            assert result is not None
            values, columns = result.get_value, range(1, result.nfields)
            for row in range(result.ntuples):
                chunk = int(values(row, 0) or b"")
                if chunk <= begin:
                    raise RuntimeError("chunks did not come back in their order")
                if at >= 0:
                    yield begin, min(chunk, ends[at]), key
                begin, key = chunk, tuple(None if (value := values(row, column)) is None else value.decode() for column in columns)
                while at < 0 or ends[at] <= chunk:
                    at += 1
            if not result.ntuples:
                break
        cursor.execute(b"CLOSE runs", prepare=False)
    yield begin, ends[-1], key


def _rows(conn: Connection, expressions: Sequence[str], moments: list[int], region: str
          ) -> list[Key]:
    # The results are taken in text format without a cast: that is the output function's text, which
    # ::text is not for a boolean.
    statement = f"""
        DECLARE rows NO SCROLL CURSOR FOR SELECT {", ".join(f"({expression})" for expression in expressions)}
        FROM (SELECT u.n, $2::text AS region,
                     {_timestamp("u.us")} AS chunk
              FROM unnest($1::int8[]) WITH ORDINALITY u(us, n)) AS chunks
        ORDER BY n"""
    fetched, found, known = _at_once(len(expressions)), list[Key](), Keys(most=None, limit=_MAX_VALUES)
    with RawCursor(conn) as cursor:
        cursor.execute(statement.encode(), (moments, region), prepare=False)
        while len(found) < len(moments):
            cursor.execute(f"FETCH {fetched} FROM rows".encode(), prepare=False, binary=False)
            result = cursor.pgresult
            assert result is not None
            columns, values = range(result.nfields), result.get_value
            found += [known.one(tuple(None if (value := values(row, column)) is None else value.decode() for column in columns))
                      for row in range(result.ntuples)]
            if not result.ntuples:
                break
        cursor.execute(b"CLOSE rows", prepare=False)
    return found


def _at_once(columns: int) -> int:
    """Rows of so many values that are fetched together, however wide they are."""
    return max(1, min(_FETCH, _BYTES // (_WIDEST * max(1, columns))))
