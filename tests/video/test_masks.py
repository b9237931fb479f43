"""Masks and regions as pixels, and the frames that are left of a picture."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from privid.errors import InvalidValue
from privid.model import Mask, Polygon, Region, Regions, Table
from privid.video.cutout import cutout, is_whole
from privid.video.shapes import inside, mask_pixels, read_bitmap, region_pixels, share_pixels
from tests.calculus.builders import table

WIDTH, HEIGHT = 64, 48


def box(left: float, top: float, right: float, bottom: float) -> Polygon:
    return (left, top), (right, top), (right, bottom), (left, bottom)


def definition(shape: Polygon, x: float, y: float) -> bool:
    """Even-odd, one pixel's middle at a time: edges crossed by the ray to the left."""
    crossed = 0
    for (x0, y0), (x1, y1) in zip(shape, (*shape[1:], shape[0]), strict=True):
        if y0 > y1:
            x0, y0, x1, y1 = x1, y1, x0, y0
        if y0 <= y < y1 and x0 + (y - y0) * (x1 - x0) / (y1 - y0) <= x:
            crossed += 1
    return crossed % 2 == 1


def test_a_box_of_whole_pixels_is_those_pixels() -> None:
    found = inside(box(3, 5, 10, 7), WIDTH, HEIGHT)
    assert found.sum() == 14 and found[5:7, 3:10].all()


def test_a_pixel_belongs_to_a_polygon_if_its_middle_does() -> None:
    chosen = random.Random(5)
    for _ in range(40):
        shape = tuple((chosen.choice([chosen.uniform(-9, 73), float(chosen.randint(0, 64))]), chosen.uniform(-9, 57))
                      for _ in range(chosen.randint(3, 9)))
        found = inside(shape, WIDTH, HEIGHT)
        assert all(found[y, x] == definition(shape, x + 0.5, y + 0.5) for y in range(HEIGHT) for x in range(WIDTH)), shape


def test_regions_with_common_edges_share_no_pixel_and_leave_none_out() -> None:
    """A picture cut into triangles around a point in it, whose edges go through middles of pixels too."""
    chosen = random.Random(6)
    corners = [(0.0, 0.0), (64.0, 0.0), (64.0, 48.0), (0.0, 48.0)]
    for _ in range(40):
        middle = chosen.choice([(chosen.uniform(1, 63), chosen.uniform(1, 47)), (chosen.randint(1, 63) + 0.5, chosen.randint(1, 46) + 0.5)])
        parts = tuple(Region(str(i), tuple(chosen.sample([one, other, middle], 3)))
                      for i, (one, other) in enumerate(zip(corners, corners[1:] + corners[:1], strict=True)))
        regions = Regions("cut", "soft", 1, parts)
        assert not share_pixels(regions, WIDTH, HEIGHT)
        assert sum(region_pixels(regions, i, WIDTH, HEIGHT).sum() for i in range(4)) == WIDTH * HEIGHT


def test_regions_that_overlap_are_seen_and_one_outside_of_the_picture_is_refused() -> None:
    left, right = Region("left", box(0, 0, 33, 48)), Region("right", box(32, 0, 64, 48))
    assert share_pixels(Regions("r", "hard", 1, (left, right)), WIDTH, HEIGHT)
    assert not share_pixels(Regions("r", "hard", 1, (left, Region("right", box(33, 0, 64, 48)))), WIDTH, HEIGHT)
    with pytest.raises(InvalidValue, match=r'region "far" .* has no pixel'):
        region_pixels(Regions("r", "hard", 1, (left, Region("far", box(64, 0, 99, 48)))), 1, WIDTH, HEIGHT)


def bitmap(pixels: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> bytes:
    return b"P4\n%d %d\n" % pixels.shape[::-1] + np.packbits(pixels, axis=1).tobytes()


def test_a_bitmap_and_polygons_together_cover_what_either_does() -> None:
    pixels = np.zeros((HEIGHT, WIDTH), dtype=np.bool_)
    pixels[40:, ::3] = True
    assert (read_bitmap(bitmap(pixels)) == pixels).all()
    found = mask_pixels(Mask("m", Fraction(1), 1, (box(0, 0, 10, 10), box(5, 5, 20, 20)), bitmap(pixels)), WIDTH, HEIGHT)
    pixels[:10, :10] = pixels[5:20, 5:20] = True
    assert (found == pixels).all()
    odd = np.ones((3, 13), dtype=np.bool_)
    assert (read_bitmap(bitmap(odd)) == odd).all()


@pytest.mark.parametrize("content", [b"", b"P4\n", b"P5\n64 48\n" + bytes(384), b"P4\n64 48\n" + bytes(383), b"P4\n0 48\n",
                                     b"P4\n64 48 " + bytes(384)])
def test_what_is_no_bitmap_is_refused(content: bytes) -> None:
    with pytest.raises(InvalidValue, match="not a PBM"):
        read_bitmap(content)


def test_a_bitmap_of_another_size_is_refused() -> None:
    with pytest.raises(InvalidValue, match="has 13 x 3 pixels, but the video has 64 x 48"):
        mask_pixels(Mask("m", Fraction(1), 1, (), bitmap(np.ones((3, 13), dtype=np.bool_))), WIDTH, HEIGHT)


def seen(one: Table, region: int, folder: Path) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    source, target = folder / "whole.npy", folder / f"{region}.npy"
    cutout(one, region).write(source, target)
    found: np.ndarray[tuple[int, ...], np.dtype[np.uint8]] = np.load(target)
    return found


def test_programs_see_black_where_the_mask_is_and_only_their_region(tmp_path: Path) -> None:
    whole = np.random.default_rng(3).integers(1, 256, (4, HEIGHT, WIDTH, 3), dtype=np.uint8)
    np.save(tmp_path / "whole.npy", whole)
    plain = table()
    assert is_whole(plain)
    mask = Mask("m", Fraction(1), 1, (box(8, 8, 24, 16),))
    triangle, rest = ((16.0, 4.0), (40.0, 4.0), (16.0, 28.0)), box(40, 0, 64, 48)
    regions = Regions("r", "soft", 1, (Region("a", triangle), Region("b", rest)))
    both = replace(plain, mask=mask, regions=regions)
    assert not is_whole(both) and not is_whole(replace(plain, mask=mask))
    masked = seen(replace(plain, mask=mask), 0, tmp_path)
    assert masked.shape == whole.shape
    assert not masked[:, 8:16, 8:24].any()
    expected = whole.copy()
    expected[:, 8:16, 8:24] = 0
    assert (masked == expected).all()
    (tmp_path / "0.npy").unlink()
    expected[:, ~inside(triangle, WIDTH, HEIGHT)] = 0
    # the middles of pixels on the long side belong to what is right of it
    assert (seen(both, 0, tmp_path) == expected[:, 4:27, 16:39]).all()
    assert (seen(both, 1, tmp_path) == whole[:, :, 40:]).all()
    assert (np.load(tmp_path / "whole.npy") == whole).all()  # which other tables read
