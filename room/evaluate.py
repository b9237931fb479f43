"""Expressions over the trusted columns, evaluated by PostgreSQL: they mean what they mean in the query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import psycopg
from psycopg import RawCursor, errors

from privid.errors import InvalidValue
from privid.model import Evaluate, Key, Span, Table
from privid.quantities import to_pg_microseconds

from .pool import Connection, RoomPool, apply_settings
from .settings import request_settings

__all__ = ["chunk_moments", "make_evaluate"]

#: enough for any chunk grid; an expression that is slower than this would also be slow in the query
_TIMEOUT = "30s"


def make_evaluate(pool: RoomPool, settings: Mapping[str, str]) -> Evaluate:
    """Evaluates as a session with these settings would.

    The expressions must come from the calculus, never from a client.
    """
    chosen = {**request_settings(settings), "statement_timeout": _TIMEOUT}

    def evaluate(expressions: Sequence[str], table: Table, span: Span, region: str = "", /
                 ) -> list[Key]:
        if not expressions:
            return [() for _ in range(*span)]
        with pool.public() as conn:
            try:
                with conn.transaction():
                    conn.execute("SET TRANSACTION READ ONLY")
                    apply_settings(conn, chosen, local=True)
                    return _rows(conn, expressions, chunk_moments(table, span), region)
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

    return evaluate


def chunk_moments(table: Table, span: Span) -> list[int]:
    """Table.chunk_microseconds of each chunk of the span, in integers throughout.

    A hundred thousand take a moment, not seconds.
    """
    camera, grid = table.camera, table.grid
    starts = to_pg_microseconds(camera.starts)
    per_frame, divisor = 1_000_000 * camera.footage.fps.denominator, camera.footage.fps.numerator
    moments = []
    first, last = (grid.first + chunk * grid.step for chunk in span)
    for frame in range(first, last, grid.step):
        whole, rest = divmod(frame * per_frame, divisor)
        # ties to even, as round() does
        up = 2 * rest > divisor or (2 * rest == divisor and whole & 1)
        moments.append(starts + whole + bool(up))
    return moments


def _rows(conn: Connection, expressions: Sequence[str], moments: list[int], region: str
          ) -> list[Key]:
    # The results are taken in text format without a cast: that is the output function's text, which
    # ::text is not for a boolean.
    statement = f"""
        SELECT {", ".join(f"({expression})" for expression in expressions)}
        FROM (SELECT u.n, $2::text AS region,
                     timestamptz '2000-01-01 00:00:00+00' + u.us::float8 * interval '1 microsecond' AS chunk
              FROM unnest($1::int8[]) WITH ORDINALITY u(us, n)) AS chunks
        ORDER BY n"""
    with RawCursor(conn) as cursor:
        cursor.execute(statement.encode(), (moments, region), prepare=False, binary=False)
        result = cursor.pgresult
        assert result is not None
        columns = range(result.nfields)
        values = result.get_value
        return [tuple(None if (value := values(row, column)) is None else value.decode()
                      for column in columns)
                for row in range(result.ntuples)]
