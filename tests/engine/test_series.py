"""Where runs lie in the chunk cache, without a look at each of them."""

from __future__ import annotations

import random
import sqlite3
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from privid.engine.chunks import ChunkCache, series_of
from privid.engine.series import Stretches, parts_of
from privid.model import Footage, Grid, Region, Regions, Table, TableUse, VideoFile

from .test_chunks import BOX, CAMERA, TABLE


def some_table(rng: random.Random, fps: Fraction = Fraction(10)) -> Table:
    """Files of any length, chunks of any size and step, sometimes regions."""
    files, at = [], 0
    for n in range(rng.randrange(1, 6)):
        frames = rng.choice((7, 20, 50, 111))
        files.append(VideoFile(f"{n}.mp4", f"{n}{n}", at, frames))
        at += frames
    size, step, first = rng.randrange(1, 15), rng.randrange(1, 20), rng.randrange(0, 4)
    count = max((at - first - size) // step + 1, 0)
    regions = Regions("r", "soft", 2, (Region("a", BOX), Region("b", BOX[:3]))) if rng.random() < 0.3 else None
    return replace(TABLE, camera=replace(CAMERA, footage=Footage(tuple(files), fps, 64, 48)), grid=Grid(first, count, size, step),
                   regions=regions)


def some_use(rng: random.Random, table: Table) -> TableUse:
    def spans() -> tuple[tuple[int, int], ...]:
        edges = sorted(rng.sample(range(table.grid.count + 1), 2 * min(rng.randrange(1, 4), (table.grid.count + 1) // 2)))
        return tuple(zip(edges[::2], edges[1::2], strict=True))
    return TableUse.of(table, [spans() for _ in table.region_names])


def test_stretches_have_the_key_of_every_run_once() -> None:
    rng = random.Random(5)
    for _ in range(300):
        use = some_use(rng, some_table(rng))
        series = series_of(use.table, "module", "python-1")
        stretches = series.stretches(use)
        found = {(one.chunk + n, one.region): key for one in stretches for n, key in enumerate(one.all_keys())}
        assert sum(one.count for one in stretches) == len(found)
        assert found == {run: series.key(*run) for run in use.runs()}
        assert len(set(found.values())) == len(found)
        among = Stretches(stretches)
        assert all(key in among for key in found.values())
        others = set(TableUse(use.table, ((0, use.table.grid.count),)).runs()) - set(found)
        assert not any(series.key(*run) in among for run in others)


def test_equal_runs_have_equal_keys_whatever_grid_they_are_of() -> None:
    """Also when a file has gone from before them, with the moment at which the camera starts moved."""
    rng = random.Random(6)
    seen = 0
    for _ in range(200):
        table = some_table(rng, Fraction(25))
        wide, narrow = series_of(table, "module", "x"), series_of(replace(table, grid=Grid(
            table.grid.first + table.grid.step, table.grid.count - 1, table.grid.size, 2 * table.grid.step)), "module", "x")
        for chunk in range(1, table.grid.count, 2):
            assert wide.key(chunk, 0) == narrow.key((chunk - 1) // 2, 0)
        gone, *rest = table.camera.footage.files
        moved = [replace(file, first_frame=file.first_frame - gone.frames) for file in rest]
        later = replace(table.camera, starts=table.camera.moment(gone.frames), footage=replace(table.camera.footage, files=tuple(moved)))
        first = -(-(gone.frames - table.grid.first) // table.grid.step)
        if not rest or first >= table.grid.count:
            continue
        left = replace(table, camera=later, grid=Grid(table.grid.frames(first)[0] - gone.frames, table.grid.count - first,
                                                       table.grid.size, table.grid.step))
        after = series_of(left, "module", "x")
        for chunk in range(first, table.grid.count):
            assert wide.key(chunk, 0) == after.key(chunk - first, 0)
            seen += 1
    assert seen > 100


def test_runs_that_differ_in_their_moment_have_other_keys_where_a_frame_is_no_whole_microsecond() -> None:
    ntsc = replace(TABLE, camera=replace(CAMERA, footage=Footage((VideoFile("a", "aa", 0, 500),), Fraction(30000, 1001), 64, 48)))
    keys = [series_of(replace(ntsc, grid=Grid(first, 1, 20, 20)), "module", "x").key(0, 0) for first in range(100)]
    assert len(set(keys)) == 100
    assert {parts_of(key)[0] for key in keys} == {parts_of(keys[0])[0]}


def test_what_is_kept_is_counted_as_it_is_looked_up(tmp_path: Path) -> None:
    rng = random.Random(7)
    cache = ChunkCache(tmp_path / "chunks.db")
    for _ in range(60):
        use = some_use(rng, some_table(rng))
        stretches = series_of(use.table, "module", "python-1").stretches(use)
        keys = [key for one in stretches for key in one.all_keys()]
        some = rng.sample(keys, len(keys) // 3)
        cells = cache.allocate(len(some), 1)
        for number, key in enumerate(some):
            cache.put(key, cells[number].address)
        assert cache.count(stretches) == len(set(cache.addresses(keys)))
    cache.close()


def test_the_identity_of_runs_is_theirs_and_not_their_tables() -> None:
    """A longer window of which the same chunks are chosen, or another grid with the same chunks: the same; fewer or others are not."""
    wide = series_of(TABLE, "module", "x").stretches(TableUse(TABLE, ((2, 7),)))
    late = replace(TABLE, grid=Grid(40, 8, 20, 20))
    assert [one.as_identity() for one in wide] == [one.as_identity() for one in series_of(late, "module", "x").stretches(
        TableUse(late, ((0, 5),)))]
    others = [((2, 6),), ((3, 7),), ((2, 3), (4, 7)), ((1, 6),)]
    told = [[one.as_identity() for one in series_of(TABLE, "module", "x").stretches(TableUse(TABLE, spans))] for spans in others]
    assert all(other != [one.as_identity() for one in wide] for other in told)


def test_an_older_layout_is_started_afresh(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "chunks.db") as old:
        old.execute("CREATE TABLE chunk (key BLOB PRIMARY KEY, rows INTEGER, outcome TEXT, weight INTEGER, used INTEGER, body BLOB)")
        old.execute("INSERT INTO chunk VALUES (x'00', 1, 'ok', 1, 1, x'')")
    cache = ChunkCache(tmp_path / "chunks.db")
    cache.put(b"k", cache.allocate(1, 1)[0].address)
    assert set(cache.addresses([b"\0", b"k"])) == {b"k"}
    cache.close()


def test_frames_of_a_million_chunks_that_lie_apart_are_claimed_as_one_span() -> None:
    """What is claimed holds all frames that are read, whatever it holds beside them."""
    apart = replace(TABLE, grid=Grid(5, 3_000_000, 2, 10))
    assert TableUse(apart, ((0, 3_000_000),)).frame_spans() == [(5, 29_999_997)]
    assert TableUse(apart, ((0, 1_000_000), (2_000_000, 2_000_001))).frame_spans() == [(5, 9_999_997), (20_000_005, 20_000_007)]
    assert TableUse(apart, ((0, 3), (7, 8))).frame_spans() == [(5, 7), (15, 17), (25, 27), (75, 77)]
