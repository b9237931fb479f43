"""Options and columns: every mistake is named."""

from __future__ import annotations

import itertools
from datetime import datetime
from fractions import Fraction
from typing import Any, cast

import pytest

from privid.engine.definitions import Sources, make_camera, make_table
from privid.engine.judge import Judge, settings_of
from privid.engine.wire import Malformed
from privid.errors import ExecutableInvalid, InvalidValue, PrividError
from privid.model import Executable, Footage, Mask, Region, Regions, VideoFile
from privid.room.room import Room
from privid.video import make_grid

SERVER: dict[str, Any] = {"name": "campus", "owner": "olga", "options": {
    "source": "a.mp4", "starts": "2026-03-01 06:00+00", "rho": "49s", "k": "1", "epsilon": "1"}}
TABLE: dict[str, Any] = {"name": "people", "owner": "ana", "server": SERVER, "options": {
    "executable": "count", "begin": "2026-03-01 06:00+00", "end": "2026-03-01 06:00:10+00", "chunk": "1s", "timeout": "1s",
    "max_rows": "3"},
    "columns": [{"name": "kind", "attno": 4, "type": "enum", "type_name": "public.kind", "labels": ["a", "b"], "default": "b"},
                {"name": "chunk", "attno": 1, "type": "timestamptz", "default": None},
                {"name": "region", "attno": 2, "type": "text", "default": None},
                {"name": "n", "attno": 3, "type": "float8", "default": "1.5"},
                {"name": "seen", "attno": 6, "type": "boolean", "default": "f"}]}


def open_footage(source: str, fps: Fraction | None) -> Footage:
    return Footage((VideoFile(source, "aa", 0, 200),), fps or Fraction(10), 64, 48)


def find_executable(owner: str, name: str) -> Executable:
    if name != "count":
        raise ExecutableInvalid(f'executable "{name}" does not exist')
    return Executable(name, "ee", b"#!/bin/sh\n")


SOURCES = Sources(open_footage, make_grid, find_executable)


def changed(holder: dict[str, Any], **options: str | None) -> dict[str, Any]:
    merged = {**holder["options"], **options}
    return {**holder, "options": {name: value for name, value in merged.items() if value is not None}}


def with_column(**column: Any) -> dict[str, Any]:
    return {**TABLE, "columns": [*TABLE["columns"], {"name": "x", "attno": 9, **column}]}


def test_all_tables_of_a_request_see_a_video_at_one_moment() -> None:
    frames = itertools.count(200)

    def growing(source: str, fps: Fraction | None) -> Footage:
        return Footage((VideoFile(source, "aa", 0, next(frames)),), Fraction(10), 64, 48)

    judge = Judge(Sources(growing, make_grid, find_executable), cast(Room, None))
    request = {"role": "ana", "tables": [TABLE, changed(TABLE, chunk="2s")]}
    first, second = judge.tables(request)
    assert first.camera == second.camera
    assert judge.tables(request)[0].camera != first.camera, "the next request looks again"


@pytest.mark.parametrize("other", [{"DateStyle": "German, DMY"}, {"IntervalStyle": "sql_standard"}, {"DateStyle": None}])
def test_values_in_another_form_than_rules_rely_on_are_no_request(other: dict[str, str | None]) -> None:
    usual = {"TimeZone": "UTC", "DateStyle": "ISO, MDY", "IntervalStyle": "postgres"}
    assert settings_of({"settings": usual}) == usual
    with pytest.raises(Malformed):
        settings_of({"settings": {name: value for name, value in (usual | other).items() if value is not None}})


def test_a_definition_becomes_a_camera_and_a_table() -> None:
    table = make_table(TABLE, 2, SOURCES)
    assert (table.index, table.name, table.owner, table.max_rows, table.pad, table.timeout) == (2, "people", "ana", 3, False, 1)
    assert [(c.name, c.trusted, c.default) for c in table.columns] == [
        ("chunk", True, None), ("region", True, None), ("n", False, 1.5), ("kind", False, "b"), ("seen", False, False)]
    assert (table.grid.count, table.grid.size, table.grid.step) == (10, 10, 10)
    camera = table.camera
    assert (camera.rho, camera.k, camera.epsilon, camera.quantum, camera.r) == (49, 1, 1, Fraction(1, 10), 490)
    assert camera.starts == datetime.fromisoformat("2026-03-01 06:00+00:00")


@pytest.mark.parametrize("option", ["source", "starts", "rho", "k", "epsilon"])
def test_a_missing_server_option_is_named(option: str) -> None:
    with pytest.raises(InvalidValue, match=f'option "{option}" of server "campus" is missing') as error:
        make_camera(changed(SERVER, **{option: None}), SOURCES)
    assert error.value.hint


@pytest.mark.parametrize("option", ["executable", "begin", "end", "chunk", "timeout", "max_rows"])
def test_a_missing_table_option_is_named(option: str) -> None:
    with pytest.raises(InvalidValue, match=f'option "{option}" of foreign table "people" is missing'):
        make_table(changed(TABLE, **{option: None}), 0, SOURCES)


@pytest.mark.parametrize(("option", "value"), [
    ("starts", "yesterday"), ("rho", "-1s"), ("rho", "x"), ("k", "-1"), ("k", "1.5"), ("epsilon", "0"), ("epsilon", "-1"),
    ("epsilon", "NaN"), ("quantum", "0s"), ("quantum", "11s"), ("fps", "0"), ("fps", "-25"), ("fps", "1e9"),
    ("visibility", "none"), ("visibility", "OWN")])
def test_a_server_option_out_of_bounds_is_named(option: str, value: str) -> None:
    with pytest.raises(InvalidValue, match=option):
        make_camera(changed(SERVER, **{option: value}), SOURCES)


@pytest.mark.parametrize(("option", "value"), [
    ("timeout", "0s"), ("timeout", "1ms"), ("timeout", "2h"), ("max_rows", "0"), ("max_rows", "1000000"), ("max_rows", "x"),
    ("pad", "maybe"), ("begin", "now"), ("chunk", "5 bananas")])
def test_a_table_option_out_of_bounds_is_named(option: str, value: str) -> None:
    with pytest.raises(InvalidValue, match=option):
        make_table(changed(TABLE, **{option: value}), 0, SOURCES)


@pytest.mark.parametrize("option", ["mask", "regions"])
def test_masks_and_regions_are_refused_where_no_owner_offers_any(option: str) -> None:
    with pytest.raises(InvalidValue, match=option) as error:
        make_table(changed(TABLE, **{option: "x"}), 0, SOURCES)
    assert error.value.hint


class Offers:
    """A mask and regions of every name; regions called "over" overlap, and "off" has one outside of the picture."""

    def mask(self, camera: str, name: str) -> Mask:
        return Mask(name, Fraction(60), 2, (((0, 0), (8, 0), (8, 8)),), b"P4\n4 4\n" + bytes(4) if name == "small" else None)

    def regions(self, camera: str, name: str) -> Regions:
        left, right = {"over": (0, 33), "off": (0, 70)}.get(name, (0, 32))
        return Regions(name, "hard", 1, tuple(Region(part, ((x, 0), (32.5 if name == "over" else x + 32, 0), (x + 32, 48), (x, 48)))
                                              for part, x in (("a", left), ("b", right - 5 if name == "over" else right))))


def test_masks_and_regions_are_looked_up_and_checked_against_the_picture() -> None:
    sources = Sources(open_footage, make_grid, find_executable, Offers())
    table = make_table(changed(TABLE, mask="benches", regions="halves"), 0, sources)
    assert table.mask is not None and table.regions is not None and table.regions.apart
    assert (table.r, table.pieces, table.region_names) == (490, 2, ("a", "b"))  # no longer visible than without the mask
    assert not make_table(changed(TABLE, regions="over"), 0, sources).regions.apart  # type: ignore[union-attr]
    for options, words in (({"mask": "small"}, "4 x 4 pixels"), ({"regions": "off"}, 'region "b"')):
        with pytest.raises(InvalidValue, match=words):
            make_table(changed(TABLE, **options), 0, sources)


def test_a_window_outside_the_recording_is_refused() -> None:
    with pytest.raises(PrividError) as error:
        make_table(changed(TABLE, end="2027-03-01 06:00+00"), 0, SOURCES)
    assert error.value.sqlstate == "PV009"


def test_chunks_too_large_for_memory_are_refused() -> None:
    large = Sources(lambda source, fps: Footage((VideoFile(source, "aa", 0, 10**6),), Fraction(10), 3840, 2160), make_grid, find_executable)
    with pytest.raises(InvalidValue, match="at most 86 fit"):
        make_table(changed(TABLE, chunk="10s"), 0, large)


@pytest.mark.parametrize(("column", "says"), [
    ({"name": "chunk", "type": "text", "default": "x"}, "must have type timestamptz"),
    ({"name": "region", "type": "float8"}, "must have type text"),
    ({"type": "int4", "default": "0"}, "cannot fill"), ({"type": "float8", "default": None}, "no default"),
    ({"type": "float8", "default": "NaN"}, "finite"), ({"type": "float8", "default": "Infinity"}, "finite"),
    ({"type": "float8", "default": None, "default_error": "now()"}, "not a constant"), ({"type": "text", "default": "x" * 2000}, "limit"),
    ({"type": "enum", "labels": ["a"], "default": "z"}, "not a label")])
def test_a_column_that_cannot_be_filled_is_named(column: dict[str, Any], says: str) -> None:
    table = with_column(**column) if "name" not in column else {**TABLE, "columns": [{"attno": 1, **column}]}
    with pytest.raises(InvalidValue, match=says):
        make_table(table, 0, SOURCES)


def test_default_rows_that_would_fill_the_memory_are_refused() -> None:
    with pytest.raises(InvalidValue, match="max_rows"):
        make_table(changed(with_column(type="text", default="x" * 1000), max_rows="100000"), 0, SOURCES)


def test_a_missing_executable_is_an_error_for_a_query_and_a_notice_for_a_definition() -> None:
    with pytest.raises(ExecutableInvalid):
        make_table(changed(TABLE, executable="nothing"), 0, SOURCES)
    notices: list[str] = []
    make_table(changed(TABLE, executable="nothing"), 0, SOURCES, missing=notices.append)
    assert len(notices) == 1 and '"nothing"' in notices[0]
