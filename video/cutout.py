"""What a table shows its programs of a picture: masked pixels are black, and of a region only its own pixels are there."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from privid.model import Mask, Regions, Table

from .shapes import Pixels, mask_pixels, region_pixels

__all__ = ["Cutout", "cutout", "is_whole"]


def is_whole(table: Table) -> bool:
    """Whether its programs see the pictures as they are."""
    return table.mask is None and table.regions is None


@dataclass(frozen=True, eq=False)
class Cutout:
    """A box of the picture, and the pixels in it that are black."""

    top: int
    left: int
    black: Pixels

    @property
    def height(self) -> int:
        return int(self.black.shape[0])

    @property
    def width(self) -> int:
        return int(self.black.shape[1])

    def write(self, source: Path, target: Path) -> None:
        """A new file of frames from one that is left as it is. Frame by frame: the time it takes depends on sizes alone."""
        whole = np.load(source, mmap_mode="r", allow_pickle=False)
        seen = np.repeat(np.where(self.black, 0, 255).astype(np.uint8)[:, :, np.newaxis], 3, axis=2)
        left = np.empty_like(seen)
        with target.open("wb") as file:  # made beforehand, empty (see reserve.py)
            shape = (whole.shape[0], self.height, self.width, 3)
            np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": shape})
            for picture in whole:
                box = picture[self.top:self.top + self.height, self.left:self.left + self.width]
                np.bitwise_and(box, seen, out=left)
                file.write(left.data)
            os.fchmod(file.fileno(), 0o644)


def cutout(table: Table, region: int) -> Cutout:
    """The cut of one of a table's regions, or of the whole picture for a table without regions."""
    footage = table.camera.footage
    return _cut(table.mask, table.regions, region, footage.width, footage.height)


@lru_cache(maxsize=128)
def _cut(mask: Mask | None, regions: Regions | None, region: int, width: int, height: int) -> Cutout:
    black = np.zeros((height, width), dtype=np.bool_) if mask is None else mask_pixels(mask, width, height)
    if regions is None:
        return Cutout(0, 0, black)
    own = region_pixels(regions, region, width, height)
    rows, columns = np.flatnonzero(own.any(axis=1)), np.flatnonzero(own.any(axis=0))
    top, bottom, left, right = int(rows[0]), int(rows[-1]) + 1, int(columns[0]), int(columns[-1]) + 1
    return Cutout(top, left, (black | ~own)[top:bottom, left:right])
