"""What the chunk cache keeps: cells of a public size, and which of them leave."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privid.engine import chunks
from privid.engine.chunks import ChunkCache
from privid.engine.kept import CELL_HEAD, Cell, Entry, segment_of, segments_of, write_cell
from privid.engine.programs import weigh
from privid.engine.rows import encode_columns
from privid.model import Column
from privid.sandbox.rows import parse_rows
from privid.sandbox.run import Limits
from tests.calculus import builders

#: columns of each kind, and values for them
COLUMNS = (Column("n", 1, "float8", "float8", False, 0.0), Column("w", 1, "text", "text", False, "none"),
           Column("b", 1, "boolean", "boolean", False, False), Column("e", 1, "enum", "e", False, "a", ("a", "b\u20ac" * 10)),
           Column("k", 1, "text", "text", False, "other", None, None, ("car", "other")),
           Column("s", 1, "float8", "float8", False, 1.0, None, (Fraction(0), Fraction(9))))
VALUES = st.one_of(st.floats(allow_nan=False), st.booleans(), st.none(), st.text(max_size=3000), st.just("\u20ac" * 5000), st.just("car"))


def keep(cache: ChunkCache, key: bytes, rows: int, body: bytes, role: str = "", quota: int | None = None) -> int:
    """As a job and the reader do; the address of its rows."""
    cells = cache.allocate(1, 100, role, quota)
    write(cache, cells[0], rows, body)
    cache.put(key, cells[0].address)
    cache.settle(cells)
    return cells[0].address


def write(cache: ChunkCache, cell: Cell, rows: int, body: bytes) -> None:
    file = cell.open(segments_of(cache._path))
    write_cell(file, cell.offset, cell.size, Entry(rows, body))
    os.close(file)


def allocated(path: Path) -> int:
    """Bytes of disk that the segments beside an index take."""
    return sum(file.stat().st_blocks * 512 for file in segments_of(path).iterdir())


def test_entries_survive_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "c" / "chunks.db"
    cache = ChunkCache(path)
    address = keep(cache, b"k", 2, b"body")
    cache.close()
    cache = ChunkCache(path)
    assert cache.addresses([b"k", b"other"]) == {b"k": address}
    assert cache.get(address) == (2, b"body", False)
    assert set(cache.addresses([b"k", b"other"])) == {b"k"}
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in (path, *segments_of(path).iterdir()))
    assert keep(cache, b"l", 1, b"") != address
    cache.close()


def test_a_damaged_index_is_started_afresh(tmp_path: Path) -> None:
    path = tmp_path / "chunks.db"
    cache = ChunkCache(path)
    keep(cache, b"k", 1, b"")
    cache.close()
    path.write_bytes(b"this is not a database" * 1000)
    cache = ChunkCache(path)
    assert not set(cache.addresses([b"k"])) and not allocated(path)
    assert cache.get(keep(cache, b"k", 0, b"")) == (0, b"", False)
    cache.close()


def test_what_a_crash_left_of_an_entry_is_cleared_away(tmp_path: Path) -> None:
    path = tmp_path / "chunks.db"
    cache = ChunkCache(path)
    keep(cache, b"both", 1, b"b")
    gone = keep(cache, b"index only", 1, b"a")
    cells = cache.allocate(1, 100)
    write(cache, cells[0], 1, b"rows only")
    cache.close()
    (segments_of(path) / str(segment_of(gone))).unlink()
    cache = ChunkCache(path)
    assert set(cache.addresses([b"both", b"index only"])) == {b"both"}
    assert len(list(segments_of(path).iterdir())) == 1
    cache.close()


def test_rows_of_which_a_power_failure_has_taken_some_are_cleared_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "chunks.db"
    cache = ChunkCache(path)
    keep(cache, b"whole", 1, b"rows")
    damaged = keep(cache, b"damaged", 1, b"rows")
    cache.close()
    with (segments_of(path) / str(segment_of(damaged))).open("r+b") as file:
        file.seek(CELL_HEAD)
        file.write(bytes(4))
    boot = tmp_path / "boot"
    boot.write_text("another")
    monkeypatch.setattr(chunks, "_BOOT", boot)
    cache = ChunkCache(path)
    assert set(cache.addresses([b"whole", b"damaged"])) == {b"whole"}
    cache.close()


def test_long_rows_are_written_piece_by_piece_and_there_once_all_are(tmp_path: Path) -> None:
    cache, body, seen = ChunkCache(tmp_path / "chunks.db"), bytes(range(256)) * 4096, list[object]()
    cells = cache.allocate(2, CELL_HEAD + len(body))
    file = cells[1].open(segments_of(tmp_path / "chunks.db"))
    write_cell(file, cells[1].offset, cells[1].size, Entry(7, body, True), lambda: seen.append(cache.get(cells[1].address)))
    assert len(seen) > 3 and seen == [None] * len(seen)
    assert cache.get(cells[1].address) == (7, body, True) and cache.get(cells[0].address) is None
    with pytest.raises(ValueError):
        write_cell(file, cells[1].offset, cells[1].size, Entry(7, body + b"!"))
    os.close(file)
    cache.close()


def test_the_disk_that_rows_take_is_allocated_before_and_the_same_whatever_they_are(tmp_path: Path) -> None:
    """Otherwise who fills the disk could make them fail, and who looks at what is free would know how many there are."""
    path = tmp_path / "chunks.db"
    cache = ChunkCache(path)
    cells = cache.allocate(1000, 50_000)
    before = allocated(path)
    assert before >= 50_000_000
    for number in range(0, 1000, 3):
        write(cache, cells[number], 1, b"x" * (49_000 if number % 2 else 1))
        cache.put(b"%d" % number, cells[number].address)
    assert allocated(path) == before
    cache.settle(cells)
    assert allocated(path) == before
    cache.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_who_fills_the_disk_after_the_charge_takes_no_row_away(small_disk: Callable[[int], Path]) -> None:
    disk = small_disk(40)
    cache = ChunkCache(disk / "chunks.db", limit=1 << 30)
    cells, body = cache.allocate(20, 1 << 20), os.urandom((1 << 20) - CELL_HEAD)
    full = disk / "full"
    with pytest.raises(OSError, match="No space"), full.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    for number in range(20):
        write(cache, cells[number], number, body)
    assert all(cache.get(cells[number].address) == (number, body, False) for number in range(20))
    for size in (1 << 20, 1):  # and where there is no space any more, nothing of an allocation stays
        with pytest.raises(OSError):
            for _ in range(10_000):
                cache.allocate(20, size)
    full.unlink()
    assert len(list(segments_of(disk / "chunks.db").iterdir())) == cache._db.execute("SELECT count(*) FROM segment").fetchone()[0]
    cache.put(b"k", cells[3].address)
    assert cache.known([b"k"]) == {b"k": cells[3].address}
    cache.close()


def test_the_least_recently_used_leave_first_by_their_public_weight(tmp_path: Path) -> None:
    cache = ChunkCache(tmp_path / "chunks.db", limit=300)
    for key in (b"a", b"b", b"c"):
        keep(cache, key, 1, b"")
    cache.known([b"a"])
    keep(cache, b"d", 1, b"")  # what it really holds is smaller: weight counts
    assert set(cache.addresses([b"a", b"b", b"c", b"d"])) == {b"a", b"c", b"d"}
    assert len(list(segments_of(tmp_path / "chunks.db").iterdir())) == 3
    cache.close()


def test_what_a_release_has_looked_up_stays_until_it_is_over(tmp_path: Path) -> None:
    cache = ChunkCache(tmp_path / "chunks.db", limit=200)
    keep(cache, b"a", 1, b"")
    pin = cache.pin()
    cache.known([b"a"])
    for key in (b"b", b"c", b"d"):
        keep(cache, key, 1, b"")
    assert set(cache.addresses([b"a", b"b", b"c", b"d"])) == {b"a", b"b", b"c", b"d"}
    cache.unpin(pin)
    assert set(cache.addresses([b"a", b"b", b"c", b"d"])) == {b"c", b"d"}
    cache.close()


def test_beyond_the_quota_of_a_role_its_own_leave_and_no_others(tmp_path: Path) -> None:
    cache = ChunkCache(tmp_path / "chunks.db", limit=1000)
    for key, role in ((b"a", "ana"), (b"b", "bob"), (b"c", "ana"), (b"d", "ana")):
        keep(cache, key, 1, b"", role, 200)
    assert set(cache.addresses([b"a", b"b", b"c", b"d"])) == {b"b", b"c", b"d"}
    assert (cache.held("ana"), cache.held("bob"), cache.held("eve")) == (200, 100, 0)
    cache.close()
    cache = ChunkCache(tmp_path / "chunks.db", limit=1000)
    assert (cache.held("ana"), cache.held("bob")) == (200, 100)
    cache.close()


def test_cells_that_a_job_still_fills_do_not_leave_and_those_that_it_never_filled_do(tmp_path: Path) -> None:
    cache = ChunkCache(tmp_path / "chunks.db", limit=100)
    filling, never = cache.allocate(2, 100), cache.allocate(3, 100)
    keep(cache, b"a", 1, b"")
    assert cache.addresses([b"a"]) == {}  # there is no room beside them
    write(cache, filling[1], 1, b"x")
    cache.put(b"k", filling[1].address)
    cache.settle(never)
    assert set(cache.addresses([b"k"])) == {b"k"}
    assert len(list(segments_of(tmp_path / "chunks.db").iterdir())) == 1
    cache.close()


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_no_output_takes_more_than_its_cell(data: st.DataObject) -> None:
    columns = tuple(replace(data.draw(st.sampled_from(COLUMNS)), name=f"c{n}") for n in range(data.draw(st.integers(1, 12))))
    table = replace(builders.table(), columns=columns, max_rows=data.draw(st.integers(1, 5)))
    lines = data.draw(st.lists(st.one_of(
        st.binary(max_size=50), st.just(b"{}"),
        st.dictionaries(st.sampled_from([c.name for c in columns]), VALUES).map(lambda row: json.dumps(row).encode()))))
    rows = parse_rows(b"\n".join(lines), columns, table.max_rows)
    assert CELL_HEAD + len(encode_columns(columns, rows)) <= weigh(table, Limits())
