"""Polygons and bitmaps as sets of pixels.

A pixel belongs to a polygon if its middle does, by the even-odd rule. What lies exactly on an edge belongs to the side that a scan from the
left meets second, whichever polygon asks: two polygons that share an edge share no pixel and leave none out.
"""

from __future__ import annotations

import re
from functools import lru_cache
from math import ceil

import numpy as np
from numpy.typing import NDArray

from privid.errors import InvalidValue
from privid.model import Mask, Polygon, Regions

__all__ = ["Pixels", "inside", "mask_pixels", "read_bitmap", "region_pixels", "share_pixels"]

Pixels = NDArray[np.bool_]  # height x width


def inside(shape: Polygon, width: int, height: int) -> Pixels:
    """The pixels of a polygon."""
    found = np.zeros((height, width), dtype=np.bool_)
    right = min(max(ceil(max(x for x, _ in shape)), 0), width)  # beyond it every row has been crossed an even number of times
    for one, other in zip(shape, (*shape[1:], shape[0]), strict=True):
        # from the upper end down, so that both polygons of a common edge compute the same numbers
        (x0, y0), (x1, y1) = sorted((one, other), key=lambda corner: (corner[1], corner[0]))
        for row in range(max(ceil(y0 - 0.5), 0), min(ceil(y1 - 0.5), height)):
            crossing = x0 + (row + 0.5 - y0) * (x1 - x0) / (y1 - y0)
            found[row, min(max(ceil(crossing - 0.5), 0), right):right] ^= True
    return found


def read_bitmap(content: bytes) -> Pixels:
    """The black pixels of a PBM image of type P4."""
    head = re.match(rb"P4[ \n]([1-9][0-9]{0,5})[ \n]([1-9][0-9]{0,5})\n", content)
    width, height = (int(head[1]), int(head[2])) if head else (0, 0)
    if head is None or len(content) != head.end() + (width + 7) // 8 * height:
        raise InvalidValue("bitmap of a mask is not a PBM image of type P4 without comments")
    packed = np.frombuffer(content, dtype=np.uint8, offset=head.end()).reshape(height, (width + 7) // 8)
    return np.unpackbits(packed, axis=1)[:, :width].astype(np.bool_)


@lru_cache(maxsize=8)
def mask_pixels(mask: Mask, width: int, height: int) -> Pixels:
    """What a mask blacks out. The result is shared: it cannot be written to."""
    covered = np.zeros((height, width), dtype=np.bool_)
    if mask.bitmap is not None:
        bitmap = read_bitmap(mask.bitmap)
        if bitmap.shape != covered.shape:
            raise InvalidValue(f'bitmap of mask "{mask.name}" has {bitmap.shape[1]} x {bitmap.shape[0]} pixels, but the video has '
                               f"{width} x {height}", hint="The owner of the camera must make a mask of the video's size.")
        covered |= bitmap
    for shape in mask.shapes:
        covered |= inside(shape, width, height)
    covered.flags.writeable = False
    return covered


def region_pixels(regions: Regions, region: int, width: int, height: int) -> Pixels:
    """The pixels of one region."""
    part = regions.parts[region]
    found = inside(part.shape, width, height)
    if not found.any():
        raise InvalidValue(f'region "{part.name}" of regions "{regions.name}" has no pixel of the video, which has {width} x {height}',
                           hint="Corners are in pixels from the upper left corner.")
    return found


@lru_cache(maxsize=256)
def share_pixels(regions: Regions, width: int, height: int) -> bool:
    """Whether some pixel belongs to more than one region."""
    times = np.zeros((height, width), dtype=np.uint16)
    for region in range(len(regions.parts)):
        times += region_pixels(regions, region, width, height)
    return bool(times.max() > 1)
