"""The chunk cache."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import pytest

from privid.engine.chunks import ChunkCache, series_of
from privid.engine.kept import Entry, Keeper, Kept, rows_file
from privid.model import Camera, Column, Executable, Footage, Grid, Mask, Region, Regions, Table, VideoFile

FOOTAGE = Footage((VideoFile("a.mp4", "aa", 0, 100), VideoFile("b.mp4", "bb", 100, 100)), Fraction(10), 64, 48)
BOX = ((0.0, 0.0), (8.0, 0.0), (8.0, 8.0), (0.0, 8.0))
CAMERA = Camera("campus", "olga", datetime(2026, 3, 1, tzinfo=UTC), Fraction(1), 1, Fraction(1), Fraction(1, 10), FOOTAGE)
TABLE = Table(0, "people", "ana", CAMERA, Grid(0, 10, 20, 20),
              (Column("chunk", 1, "timestamptz", "timestamptz", True, None), Column("n", 2, "float8", "float8", False, 0.0)),
              Executable("count", "ee", b"x"), Fraction(1), 3, False)


def keys(table: Table, kind: str = "module", runtime: str = "python-1") -> list[bytes]:
    chunks = range(table.grid.count)
    series = series_of(table, kind, runtime)
    return [series.key(chunk, 0) for chunk in chunks]


def test_equal_definitions_have_equal_keys_and_each_chunk_its_own() -> None:
    assert keys(TABLE) == keys(replace(TABLE, name="other", owner="bob", index=3, pad=True))
    assert len(set(keys(TABLE))) == 10


@pytest.mark.parametrize("change", [
    {"executable": Executable("count", "ff", b"x")}, {"timeout": Fraction(2)}, {"max_rows": 4}, {"grid": Grid(1, 9, 20, 20)},
    {"columns": (replace(TABLE.columns[1], default=1.0),)}, {"columns": (replace(TABLE.columns[1], name="m"),)},
    {"columns": (replace(TABLE.columns[1], type="enum", labels=("a",), default="a"),)},
    {"camera": replace(CAMERA, name="plaza")}, {"camera": replace(CAMERA, starts=datetime(2027, 3, 1, tzinfo=UTC))},
    {"camera": replace(CAMERA, footage=replace(FOOTAGE, fps=Fraction(12)))},
    {"mask": Mask("m", Fraction(1), 1, (BOX,))}, {"regions": Regions("r", "soft", 1, (Region("a", BOX),))},
])
def test_whatever_the_program_could_see_makes_another_key(change: dict[str, object]) -> None:
    assert not set(keys(TABLE)) & set(keys(replace(TABLE, **change)))  # type: ignore[arg-type]
    assert not set(keys(TABLE)) & set(keys(TABLE, kind="program"))
    assert not set(keys(TABLE)) & set(keys(TABLE, runtime="python-2"))


def test_what_a_mask_or_region_shows_makes_the_key_and_not_its_policy_or_name() -> None:
    mask = Mask("m", Fraction(1), 1, (BOX,), b"P4\n8 1\n\0")
    masked = keys(replace(TABLE, mask=mask))
    assert masked == keys(replace(TABLE, mask=replace(mask, name="n", rho=Fraction(1, 2), pieces=4)))
    for change in ({"shapes": (BOX[:3],)}, {"shapes": ()}, {"bitmap": b"P4\n8 1\n\1"}, {"bitmap": None}):
        other = replace(mask, **change)
        assert not set(masked) & set(keys(replace(TABLE, mask=other)))
    regions = Regions("r", "soft", 1, (Region("a", BOX), Region("b", BOX), Region("a", BOX[:3])))
    cut = replace(TABLE, regions=regions)
    each = [series_of(cut, "module", "python-1").key(0, region) for region in range(3)]
    assert len(set(each)) == 3
    named = replace(cut, regions=replace(regions, name="s", boundary="hard"))
    assert each == [series_of(named, "module", "python-1").key(0, region) for region in range(3)]


def test_a_replaced_file_makes_other_keys_for_its_own_chunks_only() -> None:
    files = (FOOTAGE.files[0], replace(FOOTAGE.files[1], sha256="cc"))
    other = keys(replace(TABLE, camera=replace(CAMERA, footage=replace(FOOTAGE, files=files))))
    assert [a == b for a, b in zip(keys(TABLE), other, strict=True)] == [True] * 5 + [False] * 5


def test_a_chunk_that_spans_two_files_depends_on_both() -> None:
    table = replace(TABLE, grid=Grid(90, 1, 20, 20))
    for i in range(2):
        files = tuple(replace(f, sha256="cc") if at == i else f for at, f in enumerate(FOOTAGE.files))
        assert keys(table) != keys(replace(table, camera=replace(CAMERA, footage=replace(FOOTAGE, files=files))))


def keep(path: Path, key: bytes, rows: int, body: bytes) -> None:
    """As the reader does."""
    keeper = Keeper(rows_file(path))
    keeper.put(key, Entry(rows, body))
    keeper.close()


def test_entries_survive_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "c" / "chunks.db"
    cache = ChunkCache(path)
    keep(path, b"k", 2, b"body")
    cache.put(b"k", "ok", 10)
    cache.close()
    cache = ChunkCache(path)
    assert cache.get(b"k") == Entry(2, b"body")
    assert cache.get(b"other") is None
    assert cache.known([b"k", b"other"], touch=False) == {b"k"}
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in (path, rows_file(path)))
    cache.close()


@pytest.mark.parametrize("name", ["chunks.db", "rows.db"])
def test_a_damaged_file_is_started_afresh(tmp_path: Path, name: str) -> None:
    path = tmp_path / "chunks.db"
    cache = ChunkCache(path)
    keep(path, b"k", 1, b"")
    cache.put(b"k", "ok", 1)
    cache.close()
    (tmp_path / name).write_bytes(b"this is not a database" * 1000)
    cache = ChunkCache(path)
    assert cache.get(b"k") is None and not cache.known([b"k"], touch=False)
    keep(path, b"k", 0, b"")
    assert cache.get(b"k") == Entry(0, b"")
    cache.close()


def test_what_a_crash_left_of_an_entry_is_cleared_away(tmp_path: Path) -> None:
    path = tmp_path / "chunks.db"
    cache = ChunkCache(path)
    keep(path, b"rows only", 1, b"a")
    keep(path, b"both", 1, b"b")
    cache.put(b"both", "ok", 1)
    cache.put(b"index only", "ok", 1)
    cache.close()
    cache = ChunkCache(path)
    assert cache.known([b"rows only", b"both", b"index only"], touch=False) == {b"both"}
    assert cache.get(b"rows only") is None and cache.get(b"both") == Entry(1, b"b")
    cache.close()


def test_long_rows_lie_in_pieces_and_are_there_once_all_are(tmp_path: Path) -> None:
    path, body, seen = tmp_path / "rows.db", bytes(range(256)) * 4096, list[object]()
    keeper = Keeper(path)
    kept = Kept(path)
    keeper.put(b"k", Entry(7, body), lambda: seen.append(kept.get(b"k")))
    assert len(seen) > 3 and seen == [None] * (len(seen) - 1) + [Entry(7, body)]
    keeper.put(b"k", Entry(1, b"short"))
    assert kept.get(b"k") == Entry(1, b"short")
    keeper.drop([b"k", b"other"])
    assert kept.get(b"k") is None
    kept.close()
    keeper.close()


def test_whoever_asks_the_cache_does_not_wait_for_rows_that_are_being_written(tmp_path: Path) -> None:
    """Otherwise how long others wait would tell how much a program printed."""
    path = tmp_path / "chunks.db"
    cache = ChunkCache(path)
    keeper = Keeper(rows_file(path))
    keeper._db.execute("BEGIN IMMEDIATE")  # in the middle of it
    begun = time.monotonic()
    cache.put(b"other", "ok", 1)
    cache.known([b"other"], touch=True)
    cache.unpin(cache.pin())
    assert time.monotonic() - begun < 1
    keeper.close()
    cache.close()


def test_the_least_recently_used_leave_first_by_their_public_weight(tmp_path: Path) -> None:
    cache = ChunkCache(tmp_path / "chunks.db", limit=30)
    for key in (b"a", b"b", b"c"):
        cache.put(key, "ok", 10)
    cache.known([b"a"], touch=True)
    cache.put(b"d", "ok", 10)  # what it really holds is smaller: weight counts
    assert cache.known([b"a", b"b", b"c", b"d"], touch=False) == {b"a", b"c", b"d"}
    assert cache.gone(5) == [b"b"] and cache.gone(5) == []  # whose rows can be dropped
    cache.close()


def test_rows_that_came_back_are_not_dropped(tmp_path: Path) -> None:
    cache = ChunkCache(tmp_path / "chunks.db", limit=10)
    for key in (b"a", b"b", b"a"):
        cache.put(key, "ok", 10)
    assert cache.gone(5) == [b"b"]
    cache.close()


def test_what_a_release_has_looked_up_stays_until_it_is_over(tmp_path: Path) -> None:
    cache = ChunkCache(tmp_path / "chunks.db", limit=20)
    cache.put(b"a", "ok", 10)
    pin = cache.pin()
    cache.known([b"a"], touch=True)
    for key in (b"b", b"c", b"d"):
        cache.put(key, "ok", 10)
    assert cache.known([b"a", b"b", b"c", b"d"], touch=False) == {b"a", b"b", b"c", b"d"}
    cache.unpin(pin)
    assert cache.known([b"a", b"b", b"c", b"d"], touch=False) == {b"c", b"d"}
    cache.close()


# Quotas of roles


@pytest.mark.parametrize("early", [(), (b"x",), (b"x", b"y")])
def test_what_leaves_for_a_role_does_not_depend_on_which_of_its_runs_under_way_are_kept_already(
        tmp_path: Path, early: Sequence[bytes]) -> None:
    """When they are depends on what was printed. Counted twice, or not at all, they would make more or less room."""
    cache = ChunkCache(tmp_path / "chunks.db")
    for key in (b"a", b"b", b"c"):
        cache.put(key, "ok", 10, "ana")
    cache.put(b"other", "ok", 1000, "ben")
    for key in early:
        cache.put(key, "ok", 10, "ana")
    assert cache.make_room("ana", 30, {b"x": 10, b"y": 10}) == 30
    assert cache.known([b"a", b"b", b"c", b"x", b"y", b"other"], touch=False) == {b"c", b"other", *early}
    cache.close()


def test_for_a_role_leaves_what_it_used_longest_ago_but_nothing_that_is_pinned(tmp_path: Path) -> None:
    cache = ChunkCache(tmp_path / "chunks.db")
    for key in (b"a", b"b", b"c"):
        cache.put(key, "ok", 10, "ana")
    cache.known([b"a"], touch=True)
    assert cache.make_room("ana", 25, {}) == 20
    assert cache.known([b"a", b"b", b"c"], touch=False) == {b"a", b"c"}
    with cache.pinned():
        cache.known([b"a", b"c"], touch=True)
        assert cache.make_room("ana", 0, {}) == 20
        assert cache.known([b"a", b"c"], touch=False) == {b"a", b"c"}
    assert cache.make_room("ana", 0, {b"new": 7}) == 7
    assert cache.known([b"a", b"c"], touch=False) == set()
    cache.close()


def test_what_roles_have_is_known_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "chunks.db"
    cache = ChunkCache(path)
    for key, role in ((b"a", "ana"), (b"b", "ben"), (b"c", "ana"), (b"c", "ana")):
        keep(path, key, 1, b"")
        cache.put(key, "ok", 10, role)
    cache.close()
    cache = ChunkCache(path)
    assert [cache.make_room(role, 1000, {}) for role in ("ana", "ben", "eve")] == [20, 10, 0]
    cache.close()
