"""Rows in their binary form."""

from __future__ import annotations

import struct

from hypothesis import given, settings
from hypothesis import strategies as st

from privid.engine.rows import Padding, decode_columns, encode_columns, header, row_width
from privid.model import Column

NUMBER = Column("n", 1, "float8", "float8", False, 1.5)
WORD = Column("w", 2, "text", "text", False, "naïve")
FLAG = Column("f", 3, "boolean", "boolean", False, True)
KIND = Column("k", 4, "enum", "public.kind", False, "b", ("a", "b", "größe"))
COLUMNS = (NUMBER, WORD, FLAG, KIND)

ROWS = st.lists(st.tuples(st.floats(allow_nan=False), st.text(st.characters(exclude_categories=["Cs"]), max_size=20), st.booleans(),
                          st.sampled_from(KIND.labels or ())), max_size=30)


@given(ROWS)
@settings(max_examples=100, deadline=None)
def test_rows_survive_encoding(rows: list[tuple[float, str, bool, str]]) -> None:
    assert decode_columns(COLUMNS, encode_columns(COLUMNS, rows), len(rows)) == rows


@given(ROWS)
@settings(max_examples=50, deadline=None)
def test_padding_appends_default_rows_and_keeps_the_others(rows: list[tuple[float, str, bool, str]]) -> None:
    padded = Padding(COLUMNS, 30).fill(encode_columns(COLUMNS, rows), len(rows))
    assert decode_columns(COLUMNS, padded, 30) == rows + [(1.5, "naïve", True, "b")] * (30 - len(rows))


def test_the_layout_is_the_one_the_protocol_document_gives() -> None:
    body = encode_columns((NUMBER, WORD, FLAG), [(2.0, "é", False), (3.0, "ab", True)])
    assert body == (struct.pack("<I2d", 16, 2.0, 3.0) + struct.pack("<I2I", 12, 2, 2) + "éab".encode() + struct.pack("<I", 2) + b"\0\1")
    assert header(2, -5, "ä".encode()) == struct.pack("<Iq?H", 2, -5, False, 2) + "ä".encode()


def test_a_table_without_untrusted_columns_has_rows_all_the_same() -> None:
    assert encode_columns((), [(), ()]) == b""
    assert decode_columns((), b"", 2) == [(), ()]


def test_the_width_of_a_row_is_never_exceeded() -> None:
    rows = [(1.0, "😀" * 1024, True, "größe")]
    assert len(encode_columns(COLUMNS, rows)) <= sum(row_width(column, 4096) for column in COLUMNS) + 4 * len(COLUMNS)
