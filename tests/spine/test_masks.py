"""Masks and regions along the whole path: what owners publish, what programs see, what answers cost."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import numpy as np
import psycopg
import pytest

from .conftest import World
from .world import plan_of

#: The largest and the smallest byte that the program sees, the picture's size and the region's name, as one row. Compiled, because it
#: starts in a moment, however busy the machine is.
SEEN = r'''
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char facts[65536], frames[1 << 24], path[4096];

static size_t load(const char *folder, const char *name, char *into, size_t size)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    return file ? fread(into, 1, size, file) : 0;
}

static long number(const char *name)
{
    return atol(strstr(facts, name) + strlen(name));
}

int main(int count, char **arguments)
{
    load(arguments[1], "chunk.json", facts, sizeof facts - 1);
    size_t size = load(arguments[1], "frames.npy", frames, sizeof frames);
    long width = number("\"width\": "), height = number("\"height\": "), most = 0, least = 255;
    size_t begin = 10 + (unsigned char) frames[8] + 256 * (unsigned char) frames[9];
    if (size - begin != (size_t) number("\"frames\": ") * width * height * 3)
        return 1;
    for (size_t i = begin; i < size; i++) {
        unsigned char value = frames[i];
        most = value > most ? value : most;
        least = value < least ? value : least;
    }
    char *named = strstr(facts, "\"region\": \"") + strlen("\"region\": \"");
    *strchr(named, '"') = 0;
    printf("{\"most\": %ld, \"least\": %ld, \"area\": %ld, \"named\": \"%s\"}\n", most, least, width * height, named);
    return 0;
}
'''
COLUMNS = ("chunk timestamptz, region text, most float8 DEFAULT -1, least float8 DEFAULT -1, area float8 DEFAULT -1, "
           "named text DEFAULT 'none'")
WIDTH, HEIGHT = 64, 48
#: brightness of the quarters of every picture: upper left, upper right, lower left, lower right
QUARTERS = (200, 40, 90, 140)
BOXES = {"ul": (0, 0, 32, 24), "ur": (32, 0, 64, 24), "ll": (0, 24, 32, 48), "lr": (32, 24, 64, 48)}


def polygon(left: int, top: int, right: int, bottom: int) -> str:
    return f"(({left},{top}),({right},{top}),({right},{bottom}),({left},{bottom}))"


def quarters(path: Path, seconds: int = 2) -> None:
    """Ten frames a second, all alike: four quarters of different brightness."""
    picture = np.zeros((HEIGHT, WIDTH, 3), dtype=np.uint8)
    for (left, top, right, bottom), level in zip(BOXES.values(), QUARTERS, strict=True):
        picture[top:bottom, left:right] = level
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264rgb", rate=10)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "rgb24"
        stream.options = {"qp": "0", "preset": "ultrafast"}
        for _ in range(10 * seconds):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode(None))


@pytest.fixture(scope="module")
def seen(world: World, tmp_path_factory: pytest.TempPathFactory) -> World:
    """With the program above uploaded."""
    folder = tmp_path_factory.mktemp("seen")
    (folder / "seen.c").write_text(SEEN)
    subprocess.run(["gcc", "-O1", "-static", "-o", folder / "seen", folder / "seen.c"], check=True)
    world.stack.executable("seen", (folder / "seen").read_bytes())
    return world


@pytest.fixture(scope="module")
def scene(seen: World) -> World:
    """Camera scene shows the quarters and protects nothing."""
    world = seen
    quarters(world.stack.videos / "scene.mp4")
    world.stack.camera("scene", "scene.mp4", rho="0s")
    boxes = ", ".join(f'"{name}": "{polygon(*box)}"' for name, box in BOXES.items())
    world.rows(f"SELECT privid.create_mask('scene', 'no_bright', rho => '0s', shapes => '{{\"{polygon(*BOXES['ul'])}\"}}')", user="owner")
    world.rows(f"SELECT privid.create_regions('scene', 'quarters', '{{{boxes}}}', 'hard')", user="owner")
    return world


def make(world: World, name: str, camera: str, **options: str) -> None:
    world.stack.table(name, camera, "seen", columns=COLUMNS, **{"end": "2026-03-01 06:00:02+00", "timeout": "400ms", **options})


def test_what_a_mask_covers_never_reaches_a_program(scene: World) -> None:
    make(scene, "bare", "scene")
    make(scene, "masked", "scene", mask="no_bright")
    question = "SELECT count(*), sum(range(most, 0, 255)), sum(range(least, 0, 255)), sum(range(area, 0, 10000)) FROM {t}"
    assert scene.rows(question.format(t="bare")) == [(2, 2 * 200, 2 * 40, 2 * WIDTH * HEIGHT)]
    assert scene.rows("SELECT region, count(*) FROM bare GROUP BY region") == [("", 2)]
    assert scene.rows(question.format(t="masked")) == [(2, 2 * 140, 0, 2 * WIDTH * HEIGHT)]


def test_a_region_shows_its_own_pixels_and_nothing_else(scene: World) -> None:
    make(scene, "by_quarter", "scene", regions="quarters")
    assert scene.rows("SELECT region, count(*), sum(range(most, 0, 255)), sum(range(least, 0, 255)), sum(range(area, 0, 10000)) "
                      "FROM by_quarter GROUP BY region ORDER BY region") == [
        (name, 2, 2 * level, 2 * level, 2 * 32 * 24) for name, level in sorted(zip(BOXES, QUARTERS, strict=True))]
    assert scene.rows("SELECT count(*) FROM by_quarter WHERE named = region") == [(8,)]
    # the column is for those who want it, and the runs are the same
    scene.stack.table("by_quarter_too", "scene", "seen", columns=COLUMNS.replace("region text, ", ""), end="2026-03-01 06:00:02+00",
                      timeout="400ms", regions="quarters")
    assert explained(scene, "SELECT count(*) FROM by_quarter_too")["Slots"] == 0
    assert scene.rows("SELECT count(*), sum(range(most, 0, 255)) FROM by_quarter_too") == [(8, 2 * sum(QUARTERS))]


def test_a_dump_that_brings_its_masks_after_its_tables_can_be_restored(scene: World, unique: Callable[[str], str]) -> None:
    """As pg_restore does it: a superuser, with check_function_bodies off. Without it the same definition is refused."""
    name, told = unique("restored"), list[str]()
    definition = (f"CREATE FOREIGN TABLE analyst.{name} ({COLUMNS}) SERVER scene OPTIONS (executable 'seen', begin '2026-03-01 06:00+00', "
                  "\"end\" '2026-03-01 06:00:02+00', chunk '1s', timeout '400ms', max_rows '1', mask 'not_yet')")
    with scene.connect("privid") as connection:
        connection.add_notice_handler(lambda notice: told.append(notice.message_primary or ""))
        with pytest.raises(psycopg.Error, match='mask "not_yet" of camera "scene" does not exist'):
            connection.execute(definition.encode())
        connection.execute("SET check_function_bodies = off")
        connection.execute(definition.encode())
        connection.execute(f"DROP FOREIGN TABLE analyst.{name}".encode())
    assert 'mask "not_yet" of camera "scene" does not exist' in told


def explained(world: World, statement: str, **settings: str) -> dict[str, Any]:
    return plan_of(world.rows(f"EXPLAIN (FORMAT JSON) {statement}", **settings)[0][0])


def test_a_condition_on_the_region_narrows_what_runs(scene: World, unique: Callable[[str], str]) -> None:
    name = unique("narrow")
    make(scene, name, "scene", regions="quarters", timeout="901ms")
    assert [explained(scene, f"SELECT count(*) FROM {name} {where}")["Slots"] for where in (
        "", "WHERE region = 'ul'", "WHERE region IN ('ul', 'lr')", "WHERE region = 'ul' OR chunk = '2026-03-01 06:00:01+00'",
        "WHERE region = 'nowhere'")] == [8, 2, 4, 5, 0]
    asked = f"SELECT region, sum(range(most, 0, 255)) FROM {name} WHERE region = 'ul' GROUP BY region"
    assert scene.rows(asked) == [("ul", 2 * 200)]
    plan = explained(scene, f"SELECT count(*) FROM {name}")
    assert (plan["Slots"], plan["Chunks"]) == (6, 8)  # two runs are known
    scene.rows(f"GRANT USAGE ON SCHEMA analyst TO owner; GRANT SELECT ON {name} TO owner")
    with scene.connect("owner") as owner:
        owner.execute("SET privid.raw = on")
        rows = owner.execute(f"SELECT region, most FROM analyst.{name} ORDER BY 1, 2".encode()).fetchall()
    assert rows == sorted((region, float(level)) for region, level in zip(BOXES, QUARTERS, strict=True) for _ in range(2))


def test_an_unknown_mask_is_told_with_the_nearest_and_a_withdrawn_one_answers_no_more(scene: World, unique: Callable[[str], str]) -> None:
    name = unique("gone")
    with pytest.raises(psycopg.Error, match='mask "no_brigth" of camera "scene" does not exist') as unknown:
        make(scene, name, "scene", mask="no_brigth")
    assert unknown.value.diag.message_hint == 'Perhaps you meant "no_bright".'
    with pytest.raises(psycopg.Error, match='regions "quarter" of camera "scene" do not exist'):
        make(scene, name, "scene", regions="quarter")
    scene.rows(f"SELECT privid.create_mask('scene', '{name}', '{{\"{polygon(0, 0, 9, 9)}\"}}', '0s')", user="owner")
    make(scene, name, "scene", mask=name)
    assert explained(scene, f"SELECT count(*) FROM {name}")["Slots"] == 2
    scene.rows(f"SELECT privid.drop_mask('scene', '{name}')", user="owner")
    with pytest.raises(psycopg.Error, match="was withdrawn"):
        scene.rows(f"SELECT count(*) FROM {name}")


@pytest.fixture(scope="module")
def plaza(seen: World) -> World:
    """A camera of its own footage that protects half a second, with masks that leave less of it."""
    world = seen
    quarters(world.stack.videos / "plaza.mp4", seconds=3)
    world.stack.camera("plaza", "plaza.mp4", rho="500ms", epsilon="1", k="2", quantum="20ms")
    shape = f"'{{\"{polygon(*BOXES['ul'])}\"}}'"
    for name, rho, pieces, visible in (("short", "100ms", 1, "NULL"), ("torn", "100ms", 3, "NULL"), ("all", "0s", 1, "NULL"),
                                       ("shreds", "200ms", 3, "'300ms'")):
        world.rows(f"SELECT privid.create_mask('plaza', '{name}', {shape}, '{rho}', {pieces}, visible => {visible})", user="owner")
        world.stack.table(f"plaza_{name}", "plaza", "seen", columns=COLUMNS, end="2026-03-01 06:00:02+00", chunk="100ms",
                          timeout="400ms", mask=name)
    halves = f'{{"left": "{polygon(0, 0, 32, 48)}", "right": "{polygon(32, 0, 64, 48)}"}}'
    world.rows(f"SELECT privid.create_regions('plaza', 'halves', '{halves}', 'soft', 2)", user="owner")
    world.rows(f"SELECT privid.create_regions('plaza', 'stays', '{halves}', 'soft', 2, '100ms', 2)", user="owner")
    world.stack.table("plaza_stays", "plaza", "seen", columns=COLUMNS, end="2026-03-01 06:00:02+00", chunk="100ms", timeout="400ms",
                      regions="stays")
    world.rows("SELECT privid.create_grid('plaza', 'grid', 4, 2, 16, 24, width => 10, height => 10, speed => 10)", user="owner")
    world.stack.table("plaza_grid", "plaza", "seen", columns=COLUMNS, end="2026-03-01 06:00:02+00", chunk="200ms", timeout="400ms",
                      regions="grid")
    world.stack.table("plaza_whole", "plaza", "seen", columns=COLUMNS, end="2026-03-01 06:00:02+00", chunk="100ms", timeout="400ms")
    world.stack.table("plaza_halves", "plaza", "seen", columns=COLUMNS, end="2026-03-01 06:00:02+00", chunk="100ms", timeout="400ms",
                      regions="halves")
    return world


def test_explain_tells_what_masks_and_regions_do_to_the_noise(plaza: World) -> None:
    """Chunks of one frame, five frames protected, two appearances."""
    plans = {name: explained(plaza, f"SELECT count(*) FROM plaza_{name}", epsilon="0.5")
             for name in ("whole", "short", "torn", "all", "shreds", "halves", "stays")}
    assert {name: plan["Sensitivity"] for name, plan in plans.items()} == {
        "whole": 5, "short": 1, "torn": 3, "all": 0, "shreds": 3, "halves": 10, "stays": 4}
    assert {name: plan["Noise Scale"] for name, plan in plans.items()} == {
        "whole": 20, "short": 4, "torn": 12, "all": 0, "shreds": 12, "halves": 40, "stays": 16}
    grid = explained(plaza, "SELECT count(*) FROM plaza_grid", epsilon="0.5")
    assert grid["Sensitivity"] == 4 * 3  # cells of eight, in each of three chunks of two frames
    assert plans["all"]["Mechanism"] == "exact" and plans["all"]["Frames Charged"] == 0
    assert plans["short"]["Frames Charged"] == plans["whole"]["Frames Charged"] == 24  # the camera's own segments, whatever the mask
    told = " ".join(row[0] for row in plaza.rows("EXPLAIN SELECT count(*) FROM plaza_torn"))
    assert 'mask: "torn": an appearance is visible in at most 3 pieces of 1 frames' in told
    told = " ".join(row[0] for row in plaza.rows("EXPLAIN SELECT count(*) FROM plaza_shreds"))
    assert "in at most 3 pieces of 2 frames, 3 frames in all, which meet 3 chunks" in told
    told = " ".join(row[0] for row in plaza.rows("EXPLAIN SELECT count(*) FROM plaza_stays"))
    assert "in one region an appearance is visible in at most 2 pieces of 1 frames, which meet 2 chunks" in told


def test_masks_and_regions_of_one_camera_draw_on_one_budget(plaza: World) -> None:
    """A frame behind the mask, a frame half a second later without it: one appearance can hold both."""
    second = "chunk = '2026-03-01 06:00:{}+00'"
    plaza.rows(f"SELECT count(*) FROM plaza_short WHERE {second.format('01')}", epsilon="0.6")
    near = f"SELECT count(*) FROM plaza_whole WHERE {second.format('01.4')}"
    with pytest.raises(psycopg.Error) as refused:
        plaza.rows(near, epsilon="0.6")
    assert refused.value.sqlstate == "PV003"
    assert explained(plaza, near, epsilon="0.6")["Budget Remaining"] == 0.4
    assert explained(plaza, f"SELECT count(*) FROM plaza_halves WHERE {second.format('00.6')}", epsilon="0.6")["Budget Remaining"] == 0.4
    assert explained(plaza, f"SELECT count(*) FROM plaza_whole WHERE {second.format('01.5')}", epsilon="0.6")["Budget Remaining"] == 1
    assert plaza.spent("plaza") == 0.6
    plaza.rows(f"SELECT count(*) FROM plaza_all WHERE {second.format('01')}", epsilon="0.6")  # nothing protected is left behind it
    assert plaza.spent("plaza") == 0.6


def test_a_mask_that_would_show_more_than_the_camera_protects_is_refused(plaza: World) -> None:
    with pytest.raises(psycopg.Error, match="rho of mask") as refused:
        plaza.rows(f"SELECT privid.create_mask('plaza', 'more', '{{\"{polygon(0, 0, 9, 9)}\"}}', '501ms')", user="owner")
    assert refused.value.sqlstate == "22023" and "500ms" in str(refused.value)
    with pytest.raises(psycopg.Error, match="permission denied"):
        plaza.rows(f"SELECT privid.create_mask('plaza', 'mine', '{{\"{polygon(0, 0, 9, 9)}\"}}', '0s')")
    assert plaza.rows("SELECT name, extract(epoch FROM rho)::float8, pieces FROM privid.masks WHERE camera = 'plaza' ORDER BY 1") == [
        ("all", 0, 1), ("short", 0.1, 1), ("shreds", 0.2, 3), ("torn", 0.1, 3)]
