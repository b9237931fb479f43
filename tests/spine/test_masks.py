"""Masks and regions along the whole path: what owners publish, what programs see, what answers cost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np
import pytest

from .conftest import World

#: the largest and the smallest byte that the program sees, the picture's size and the region's name, as one row
SEEN = b'''#!/usr/bin/python3
import json, sys

facts = json.load(open(sys.argv[1] + "/chunk.json"))
file = open(sys.argv[1] + "/frames.npy", "rb").read()
pixels = file[10 + int.from_bytes(file[8:10], "little"):]
assert len(pixels) == facts["frames"] * facts["width"] * facts["height"] * 3
print(json.dumps({"most": max(pixels), "least": min(pixels), "area": facts["width"] * facts["height"], "named": facts["region"]}))
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
def scene(world: World) -> Iterator[World]:
    """Camera scene shows the quarters and protects nothing; camera guarded shows them and protects two seconds."""
    quarters(world.stack.videos / "scene.mp4")
    world.stack.camera("scene", "scene.mp4", rho="0s")
    world.stack.camera("guarded", "scene.mp4", rho="2s", epsilon="1000", quantum="20ms")
    world.stack.executable("seen", SEEN)
    boxes = ", ".join(f'"{name}": "{polygon(*box)}"' for name, box in BOXES.items())
    for camera in ("scene", "guarded"):
        world.rows(f"SELECT privid.create_mask('{camera}', 'no_bright', '0s', shapes => '{{\"{polygon(*BOXES['ul'])}\"}}')", user="owner")
        world.rows(f"SELECT privid.create_regions('{camera}', 'quarters', '{{{boxes}}}', 'hard')", user="owner")
    yield world


def make(world: World, name: str, camera: str, **options: str) -> None:
    world.stack.table(name, camera, "seen", columns=COLUMNS, end="2026-03-01 06:00:02+00", timeout="600ms", **options)


def test_what_a_mask_covers_never_reaches_a_program(scene: World) -> None:
    make(scene, "bare", "scene")
    make(scene, "masked", "scene", mask="no_bright")
    question = "SELECT count(*), sum(range(most, 0, 255)), sum(range(least, 0, 255)), sum(range(area, 0, 10000)) FROM {t}"
    assert scene.rows(question.format(t="bare")) == [(2, 2 * 200, 2 * 40, 2 * WIDTH * HEIGHT)]
    assert scene.rows(question.format(t="masked")) == [(2, 2 * 140, 0, 2 * WIDTH * HEIGHT)]


def test_a_region_shows_its_own_pixels_and_nothing_else(scene: World) -> None:
    make(scene, "by_quarter", "scene", regions="quarters")
    assert scene.rows("SELECT region, count(*), sum(range(most, 0, 255)), sum(range(least, 0, 255)), sum(range(area, 0, 10000)) "
                      "FROM by_quarter GROUP BY region ORDER BY region") == [
        (name, 2, 2 * level, 2 * level, 2 * 32 * 24) for name, level in sorted(zip(BOXES, QUARTERS, strict=True))]
    assert scene.rows("SELECT count(*) FROM by_quarter WHERE named = region") == [(8,)]
