"""Keys of the chunk cache: whatever a program could see is in them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction

import pytest

from privid.engine.chunks import series_of
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
