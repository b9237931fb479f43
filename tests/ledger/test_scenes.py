"""Masks and regions in SQL: who offers them, what is refused, that they never change, and that history tells of them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import psycopg
import pytest
from psycopg import errors

from privid.engine.scenes import Scenes
from privid.errors import InvalidValue
from privid.model import Cells, Mask, Region, Regions
from tests.ledger.postgres import Database, camera

SHAPE = "((0,0),(64,0),(64,10.5),(0,10.5))"
SHAPES = '{"' + SHAPE + '"}'
CORNERS = ((0.0, 0.0), (64.0, 0.0), (64.0, 10.5), (0.0, 10.5))
HALVES = '{"west": "((0,0),(32,0),(32,48),(0,48))", "east": [[32,0],[64,0],[64,48],[32,48]]}'


def mask(database: Database, *, user: str = "olga", **arguments: Any) -> str:
    given = {"camera": "campus", "name": "benches", "rho": "0.2s", "shapes": SHAPES, **arguments}
    call = ", ".join(f"{name} => %s" for name in given)
    return str(database.rows(f"SELECT privid.create_mask({call})", *given.values(), user=user)[0][0])


def regions(database: Database, *, user: str = "olga", **arguments: Any) -> int:
    given = {"camera": "campus", "name": "halves", "regions": HALVES, **arguments}
    call = ", ".join(f"{name} => %s" for name in given)
    return int(database.rows(f"SELECT privid.create_regions({call})", *given.values(), user=user)[0][0])


@pytest.fixture
def campus(database: Database) -> Database:
    """A camera of olga that protects 0.4 s; the engine has seen its pictures, 64 x 48."""
    database.create_server(camera())
    database.ledger.register(camera())
    return database


def test_everybody_sees_what_an_owner_offers(campus: Database) -> None:
    mask(campus, pieces=3)
    assert regions(campus, boundary="soft", straddle=1) == 2
    for user in ("olga", "ana", "nobody"):
        assert campus.rows("SELECT camera, name, extract(epoch FROM rho)::float8, pieces, shapes::text, image FROM privid.masks",
                           user=user) == [
            ("campus", "benches", 0.2, 3, '{"' + SHAPE + '"}', None)]
        assert campus.rows("SELECT camera, name, region, shape::text, boundary, straddle FROM privid.regions", user=user) == [
            ("campus", "halves", "east", "((32,0),(64,0),(64,48),(32,48))", "soft", 1),
            ("campus", "halves", "west", "((0,0),(32,0),(32,48),(0,48))", "soft", 1)]


def test_everybody_sees_how_long_an_appearance_is_visible_in_all(campus: Database) -> None:
    mask(campus)
    mask(campus, name="more", pieces=3, visible="0.3s")
    mask(campus, name="most", pieces=3, visible="1h")  # says nothing, and is accepted
    regions(campus)
    regions(campus, name="stays", rho="0.1s", visible="0.25s", pieces=4)
    assert campus.rows("SELECT name, extract(epoch FROM visible)::float8 FROM privid.masks ORDER BY 1", user="nobody") == [
        ("benches", None), ("more", 0.3), ("most", 3600)]
    assert campus.rows("""SELECT DISTINCT name, extract(epoch FROM rho)::float8, pieces, extract(epoch FROM visible)::float8
                          FROM privid.regions ORDER BY 1""", user="nobody") == [("halves", None, None, None), ("stays", 0.1, 4, 0.25)]
    told = campus.rows("""SELECT details FROM privid.history
                          WHERE details ->> 'mask' = 'more' OR details ->> 'regions' = 'stays' ORDER BY id""")
    assert [(one["rho"], one["pieces"], one["visible"]) for (one,) in told] == [("0.2s", 3, "0.3s"), ("0.1s", 4, "0.25s")]


GRID = """privid.create_grid('campus', 'grid', columns => 4, rows => 3, cell_width => 16, cell_height => 16,
                             width => %s, height => 9, speed => %s)"""


def test_a_grid_is_offered_as_regions_that_are_its_cells(campus: Database) -> None:
    assert campus.rows(f"SELECT {GRID}", 5, "2.5", user="olga") == [(12,)]
    found = Scenes(campus.ledger).regions("campus", "grid")
    assert found.cells == Cells((16, 16), (5, 9), Fraction(5, 2)) and found.cells.extent(found.parts) == (4, 3)
    assert found.boundary == "soft" and found.parts[5] == Region("r002c002", ((16, 16), (32, 16), (32, 32), (16, 32)))
    assert campus.rows("SELECT DISTINCT cells FROM privid.regions", user="nobody") == [
        ({"cell": [16, 16], "size": [5, 9], "speed": "2.5"},)]
    assert campus.rows("SELECT who, details -> 'cells' ->> 'speed' FROM privid.history WHERE event = 'regions created'") == [
        ("olga", "2.5")]


@pytest.mark.parametrize(("width", "speed"), [(0, "1"), (None, "1"), (5, "-1"), (5, "NaN"), (5, None)])
def test_a_grid_without_sizes_and_a_speed_is_refused(campus: Database, width: int | None, speed: str | None) -> None:
    with pytest.raises(psycopg.Error, match="sizes and a speed in pixels") as refused:
        campus.rows(f"SELECT {GRID}", width, speed, user="olga")
    assert refused.value.sqlstate == "22023"
    with pytest.raises(psycopg.Error, match="permission denied"):
        campus.rows(f"SELECT {GRID}", 5, "1", user="ana")


@pytest.mark.parametrize(("arguments", "words"), [
    ({"cells": '{"cell": [1, 1], "size": [1, 1]}'}, "sizes and a speed"),
    ({"cells": '{"cell": [1, 1], "size": [1, 1], "speed": "1"}', "boundary": "hard"}, "soft boundary"),
    ({"visible": "1s"}, "but no rho"), ({"pieces": 2}, "but no rho"),
    ({"rho": "0.5s"}, 'rho of regions "halves" is 0.5s, but that of camera'),
    ({"rho": "0.2s", "visible": "0.1s"}, "the longest piece of it"), ({"rho": "0.2s", "pieces": 0}, "pieces"), ({"rho": "x"}, "rho")])
def test_a_promise_for_regions_that_cannot_be_meant_is_refused(campus: Database, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(psycopg.Error, match=words) as refused:
        regions(campus, **arguments)
    assert refused.value.sqlstate == "22023" and campus.rows("SELECT count(*) FROM privid.region_store") == [(0,)]


def test_without_a_word_on_its_length_a_mask_promises_what_the_camera_does(campus: Database) -> None:
    mask(campus, rho=None)
    assert campus.rows("SELECT extract(epoch FROM rho)::float8, pieces FROM privid.masks") == [(0.4, 1)]


def test_the_engine_reads_them_exactly(campus: Database) -> None:
    image = b"P4\n64 48\n" + bytes(range(256)) + bytes(128)
    mask(campus, rho="1/3 s", image=image)
    regions(campus, boundary="hard")
    mask(campus, name="visible", pieces=3, visible="1/3 s")
    regions(campus, name="stays", rho="0.1s", pieces=2, visible="1/7 s")
    scenes = Scenes(campus.ledger)
    seen, stays = scenes.mask("campus", "visible"), scenes.regions("campus", "stays")
    assert (seen.rho, seen.pieces, seen.visible) == (Fraction(1, 5), 3, Fraction(1, 3))
    assert (stays.rho, stays.pieces, stays.visible) == (Fraction(1, 10), 2, Fraction(1, 7))
    assert scenes.mask("campus", "benches") == Mask("benches", Fraction(1, 3), 1, (CORNERS,), image)
    assert scenes.regions("campus", "halves") == Regions("halves", "hard", 1, (
        Region("east", ((32, 0), (64, 0), (64, 48), (32, 48))), Region("west", ((0, 0), (32, 0), (32, 48), (0, 48)))))


def test_a_name_that_is_not_there_is_told_with_the_nearest(campus: Database) -> None:
    mask(campus)
    regions(campus)
    scenes = Scenes(campus.ledger)
    for look, name, words, hint in ((scenes.mask, "bences", 'mask "bences" of camera "campus" does not exist', '"benches"'),
                                    (scenes.mask, "sky", 'mask "sky"', "privid.masks"),
                                    (scenes.regions, "halfs", 'regions "halfs" of camera "campus" do not exist', '"halves"')):
        with pytest.raises(InvalidValue, match=words) as missing:
            look("campus", name)
        assert hint in (missing.value.hint or "")


@pytest.mark.parametrize("user", ["ana", "oscar", "nobody"])
def test_only_the_owner_of_the_camera_offers_and_withdraws(campus: Database, user: str) -> None:
    mask(campus)
    regions(campus)
    for attempt in (lambda: mask(campus, user=user, name="mine"), lambda: regions(campus, user=user, name="mine"),
                    lambda: campus.rows("SELECT privid.drop_mask('campus', 'benches')", user=user),
                    lambda: campus.rows("SELECT privid.drop_regions('campus', 'halves')", user=user),
                    lambda: campus.rows("UPDATE privid.mask_store SET pieces = 2", user=user),
                    lambda: campus.rows("DELETE FROM privid.region_store", user=user),
                    lambda: campus.rows("SELECT * FROM privid.mask_store", user=user)):
        with pytest.raises(errors.InsufficientPrivilege):
            attempt()


def test_an_owner_cannot_write_past_the_functions(campus: Database) -> None:
    mask(campus)
    for statement in ("UPDATE privid.mask_store SET rho = '0s'", "DELETE FROM privid.mask_store", "DELETE FROM privid.region_store",
                      "INSERT INTO privid.region_store (camera, name) VALUES ('campus', 'x')"):
        with pytest.raises(errors.InsufficientPrivilege):
            campus.rows(statement, user="olga")


def test_a_function_has_the_right_if_its_owner_does_whoever_calls_it(campus: Database) -> None:
    """As with privid.grant_budget and ALTER SERVER, and with any function that is SECURITY DEFINER."""
    campus.rows("GRANT CREATE ON SCHEMA public TO ana, olga")
    campus.rows("""CREATE FUNCTION public.lend() RETURNS text SECURITY DEFINER LANGUAGE sql
                   AS $$ SELECT privid.create_mask('campus', 'lent', '{"((0,0),(9,0),(9,9))"}', '0s') $$""", user="olga")
    campus.rows("""CREATE FUNCTION public.take() RETURNS void SECURITY DEFINER LANGUAGE sql
                   AS $$ SELECT privid.drop_mask('campus', 'lent') $$""", user="ana")
    try:
        with pytest.raises(errors.InsufficientPrivilege):
            campus.rows("SELECT public.take()", user="olga")
        campus.rows("SELECT public.lend()", user="ana")
        assert campus.rows("SELECT created_by FROM privid.mask_store WHERE name = 'lent'") == [("olga",)]
    finally:
        campus.rows("DROP FUNCTION public.lend(), public.take()")
        campus.rows("REVOKE CREATE ON SCHEMA public FROM ana, olga")


@pytest.mark.parametrize(("arguments", "sqlstate", "words"), [
    ({"camera": "nowhere"}, "42704", 'camera "nowhere" does not exist'),
    ({"rho": "0.5s"}, "22023", "rho of mask \"benches\" is 0.5s, but that of camera \"campus\" is 2/5s"),
    ({"rho": "-1s"}, "22023", 'invalid value for the rho of mask "benches": "-1s"'), ({"rho": "long"}, "22023", "rho"),
    ({"pieces": 0}, "22023", "pieces"), ({"pieces": None}, "22023", "pieces"),
    ({"visible": "a while"}, "22023", 'invalid value for the visible time of mask "benches": "a while"'),
    ({"visible": "-1s"}, "22023", "visible"),
    ({"visible": "0.1s"}, "22023", 'visible time of mask "benches" is 0.1s, but rho, the longest piece of it, is 0.2s'),
    ({"name": ""}, "22023", "name"), ({"name": "x" * 64}, "22023", "name"),
    ({"shapes": "{}"}, "22023", "covers nothing"), ({"shapes": None}, "22023", "covers nothing"),
    ({"shapes": '{"((0,0),(1,1))"}'}, "22023", "corners"), ({"shapes": '{"((0,0),(1,1),(Infinity,2))"}'}, "22023", "outside"),
    ({"shapes": '{"((0,0),(1,NaN),(3,2))"}'}, "22023", "outside"), ({"shapes": '{"((0,0),(1,1e9),(3,2))"}'}, "22023", "outside"),
    ({"shapes": "{NULL}"}, "22023", "corners"), ({"shapes": '{{"((0,0),(1,1),(3,2))"}}'}, "22023", "dimension"),
    ({"image": b"\x89PNG\r\n"}, "22023", "PBM"), ({"image": b"P4\n64 48\n" + bytes(383)}, "22023", "PBM"), ({"image": b""}, "22023", "PBM"),
    ({"image": b"P4\n8 1\n\0"}, "22023", 'has 8 x 1 pixels, but camera "campus" has 64 x 48')])
def test_a_mask_that_cannot_be_is_refused(campus: Database, arguments: dict[str, Any], sqlstate: str, words: str) -> None:
    with pytest.raises(psycopg.Error, match=words) as refused:
        mask(campus, **arguments)
    assert refused.value.sqlstate == sqlstate
    assert campus.rows("SELECT count(*) FROM privid.mask_store") == [(0,)]


@pytest.mark.parametrize(("arguments", "words"), [
    ({"regions": "{}"}, "object"), ({"regions": "[]"}, "object"), ({"regions": None}, "object"),
    ({"regions": '{"a": "((0,0),(1"}'}, "corners"),
    ({"regions": '{"a": 7}'}, "corners"), ({"regions": '{"a": [[1],[2],[3]]}'}, "corners"), ({"regions": '{"a": []}'}, "corners"),
    ({"regions": '{"": "((0,0),(1,1),(2,0))"}'}, "name"), ({"boundary": "firm"}, "boundary"), ({"boundary": None}, "boundary"),
    ({"straddle": 0}, "straddle"), ({"straddle": 3}, "straddle"), ({"straddle": 2, "boundary": "hard"}, "hard"), ({"name": ""}, "name")])
def test_regions_that_cannot_be_are_refused(campus: Database, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(errors.InvalidParameterValue, match=words):
        regions(campus, **arguments)


def test_without_a_word_on_straddling_an_event_may_show_in_all_regions(campus: Database) -> None:
    regions(campus)
    assert campus.rows("SELECT DISTINCT boundary, straddle FROM privid.regions") == [("soft", 2)]


def test_a_name_stands_for_one_content_for_ever(campus: Database) -> None:
    mask(campus)
    regions(campus)
    for again in (lambda: mask(campus, rho="0.1s"), lambda: regions(campus, boundary="hard")):
        with pytest.raises(errors.DuplicateObject, match="already exist"):
            again()
    campus.rows("SELECT privid.drop_mask('campus', 'benches'), privid.drop_regions('campus', 'halves')", user="olga")
    assert campus.rows("SELECT * FROM privid.masks") == campus.rows("SELECT * FROM privid.regions") == []
    for again in (lambda: mask(campus), lambda: regions(campus)):
        with pytest.raises(errors.DuplicateObject, match="withdrawn"):
            again()
    for look in (Scenes(campus.ledger).mask, Scenes(campus.ledger).regions):
        with pytest.raises(InvalidValue, match="withdrawn"):
            look("campus", "benches" if look.__name__ == "mask" else "halves")
    with pytest.raises(errors.UndefinedObject, match='mask "benches" of camera "campus" does not exist'):
        campus.rows("SELECT privid.drop_mask('campus', 'benches')", user="olga")


def test_history_tells_who_offered_and_withdrew_what(campus: Database) -> None:
    digest = mask(campus)
    regions(campus)
    campus.rows("SELECT privid.drop_mask('campus', 'benches'), privid.drop_regions('campus', 'halves')", user="olga")
    told = campus.rows("SELECT who, camera, event, details FROM privid.history WHERE event ~ 'mask|regions' ORDER BY id")
    assert [row[:3] for row in told] == [("olga", "campus", event) for event in (
        "mask created", "regions created", "mask withdrawn", "regions withdrawn")]
    assert told[0][3] == {"mask": "benches", "rho": "0.2s", "pieces": 1, "shapes": '{"' + SHAPE + '"}', "sha256": digest}
    assert campus.rows("SELECT * FROM privid.verify_history()") == []


def test_they_follow_a_camera_that_is_renamed_and_go_with_one_that_is_dropped(campus: Database) -> None:
    mask(campus)
    regions(campus)
    campus.rows("ALTER SERVER campus RENAME TO plaza", user="olga")
    assert campus.rows("SELECT camera, name FROM privid.masks UNION ALL SELECT DISTINCT camera, name FROM privid.regions") == [
        ("plaza", "benches"), ("plaza", "halves")]
    campus.rows("DROP SERVER plaza", user="olga")
    assert campus.rows("SELECT count(*) FROM privid.mask_store") == campus.rows("SELECT count(*) FROM privid.region_store") == [(0,)]
