"""Where the runs of a table lie in the chunk cache, stretch by stretch, so that nothing has to be computed for each of them.

What a program is shown of a chunk that lies in one file follows from the table, the file and the chunk's place in it. So all such chunks of
a file are one series: a digest of what they share, and then the place. A chunk that lies in several files is a series of its own.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from privid.model import Span, Table, TableUse, VideoFile
from privid.quantities import to_pg_microseconds

if TYPE_CHECKING:
    from hashlib import _Hash

__all__ = ["Series", "Stretch", "Stretches", "parts_of"]

#: bytes of a series in a key; the rest is the place
_SERIES, _PLACE = 32, 8


def parts_of(key: bytes) -> tuple[bytes, int]:
    """The series and the place of a key."""
    return key[:_SERIES], int.from_bytes(key[_SERIES:], "big")


@dataclass(frozen=True)
class Stretch:
    """Neighbouring chunks of one region that belong to one series."""

    chunk: int  # the first of them
    count: int
    region: int
    series: bytes
    place: int  # of the first
    step: int  # from each place to the next

    def all_keys(self) -> Iterator[bytes]:
        """In the chunk cache, in order."""
        return (self.series + place.to_bytes(_PLACE, "big") for place in range(self.place, self.end, self.step))

    @property
    def end(self) -> int:
        """Beyond the last place."""
        return self.place + (self.count - 1) * self.step + 1

    def holds(self, place: int) -> bool:
        return self.place <= place < self.end and (place - self.place) % self.step == 0

    def as_identity(self) -> list[Any]:
        """Equal for the same chunks of the same footage, whatever table they are of: which step leads from one to itself is no matter."""
        return [self.series.hex(), self.place, self.step if self.count > 1 else 0, self.count]


class Stretches:
    """Which of the keys that others ask about lie in these."""

    def __init__(self, stretches: Iterable[Stretch]) -> None:
        self._by_series: dict[bytes, list[Stretch]] = {}
        for one in stretches:
            self._by_series.setdefault(one.series, []).append(one)

    def __contains__(self, key: bytes) -> bool:
        series, place = parts_of(key)
        return any(one.holds(place) for one in self._by_series.get(series, ()))


class Series:
    """Of one table; `shared` is the digest so far of all that its runs have in common, `views` what each region adds to it."""

    def __init__(self, table: Table, shared: _Hash, views: Sequence[list[Any]]) -> None:
        self._table, self._shared, self._views = table, shared, views
        self._begins = [file.first_frame for file in table.camera.footage.files]

    def stretches(self, use: TableUse) -> list[Stretch]:
        """Of all runs, region by region."""
        return [one for region, spans in enumerate(use.by_region) for span in spans for one in self._of(span, region)]

    def key(self, chunk: int, region: int) -> bytes:
        (one,) = self._of((chunk, chunk + 1), region)
        return next(one.all_keys())

    def _of(self, span: Span, region: int) -> Iterator[Stretch]:
        grid, files = self._table.grid, self._table.camera.footage.files
        chunk, end = span
        while chunk < end:
            first, stop = grid.frames(chunk)
            at = bisect_right(self._begins, first) - 1
            file = files[at]
            within = (file.first_frame + file.frames - grid.size - grid.first) // grid.step + 1  # the first that is not wholly in it
            if within > chunk:
                count, place = min(end, within) - chunk, first - file.first_frame
                yield Stretch(chunk, count, region, self._in_file(file, region), place, grid.step)
            else:
                count, series = 1, self._across(chunk, files[at:bisect_right(self._begins, stop - 1)], region)
                yield Stretch(chunk, count, region, series, 0, grid.step)
            chunk += count

    def _in_file(self, file: VideoFile, region: int) -> bytes:
        """Moments are those of the file's first frame and of the place, rounded to whole microseconds, ties to even: hence the parity."""
        camera = self._table.camera
        starts = to_pg_microseconds(camera.starts)
        begins = starts + Fraction(1_000_000 * file.first_frame) / camera.footage.fps
        return self._digest(["file", str(begins), starts % 2, file.sha256, *self._views[region]])

    def _across(self, chunk: int, files: Sequence[VideoFile], region: int) -> bytes:
        first, stop = self._table.grid.frames(chunk)
        seen = [[f.sha256, max(first - f.first_frame, 0), min(stop - f.first_frame, f.frames)] for f in files]
        return self._digest(["files", self._table.chunk_microseconds(chunk), seen, *self._views[region]])

    def _digest(self, rest: list[Any]) -> bytes:
        digest = self._shared.copy()
        digest.update(json.dumps(rest).encode())
        return digest.digest()
