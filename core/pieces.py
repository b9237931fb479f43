"""What an owner promises of one appearance: in how many pieces it is visible, how long each lasts, and all of them together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

__all__ = ["Pieces", "View", "most_met"]

#: about as many lengths of a piece are looked up, since each look may be at all chunks of a window; between them a bound is used
SAMPLES = 16


@dataclass(frozen=True)
class Pieces:
    """At most `count` runs of at most `r` frames, at most `total` frames in all."""

    r: int
    count: int
    total: int

    @classmethod
    def whole(cls, r: int) -> Pieces:
        """One run: what is known without a promise."""
        return cls(r, 1, r)

    @classmethod
    def promised(cls, r: int, count: int, total: int | None, within: int) -> Pieces:
        """A promise, with what follows from it: all pieces lie within an appearance of `within` frames, and no piece is longer than all.

        >>> Pieces.promised(24, 11, 26, 237), Pieces.promised(24, 11, None, 237), Pieces.promised(24, 2, 900, 10)
        (Pieces(r=24, count=11, total=26), Pieces(r=24, count=11, total=264), Pieces(r=10, count=2, total=10))
        """
        r = min(r, within) if total is None else min(r, within, total)
        return cls(r, count, count * r if total is None else min(total, within, count * r))

    @classmethod
    def of_seconds(cls, rho: Fraction, count: int, visible: Fraction | None, fps: Fraction, within: int) -> Pieces:
        """Rounded up: part of a frame shows in a whole one. A promise that is not one of whole frames has not been counted in frames; then
        every piece may show in part of a frame more.

        >>> [Pieces.of_seconds(Fraction(24), 11, Fraction(26), Fraction(fps), 9999).total for fps in ("0.1", "1", "10")]
        [13, 26, 260]
        """
        r, total = rho * fps, None if visible is None else visible * fps
        if total is not None and not r.denominator == total.denominator == 1:
            total = Fraction(ceil(total) + count - 1)
        return cls.promised(ceil(r), count, None if total is None else int(total), within)


@dataclass(frozen=True)
class View:
    """A bound of the runs in which one appearance is visible: `times` of them for every chunk that these pieces meet."""

    pieces: Pieces
    times: int


def most_met(pieces: Pieces, size: int, step: int, reach: Callable[[int], int], gain: int = 1) -> int:
    """The most that the pieces of one appearance meet of something in chunks of `size` frames every `step`, when a run of n frames meets
    at most `reach(n)` of it, and of each single chunk at most `gain` (proof: calculus/rules/mask.md).

    That is count · f(total / count), rounded down, where f is the least concave function from 0 that is nowhere below `reach`.

    >>> chunks = lambda n: -(-(n + 9) // 10)
    >>> [most_met(Pieces(24, 11, total), 10, 10, chunks) for total in (5, 26, 100, 264)]
    [5, 22, 29, 44]
    """
    r, count, total = pieces.r, pieces.count, pieces.total
    if r == 0:
        return 0
    if total == count * r:
        return count * reach(r)
    hull: list[tuple[int, int]] = [(0, 0)]
    for point in _points(r, size, step, reach, gain):
        while len(hull) > 1 and _is_below(hull[-1], hull[-2], point):
            hull.pop()
        hull.append(point)
    # the corners of f on both sides of total / count
    right = next((i for i, (frames, _) in enumerate(hull) if frames * count >= total), None)
    if right is None:
        found = count * hull[-1][1]
    else:
        (lo, low), (hi, high) = hull[max(right - 1, 0)], hull[right]
        found = count * low + (total - count * lo) * (high - low) // (hi - lo)
    return min(found, total * reach(1))


def _points(r: int, size: int, step: int, reach: Callable[[int], int], gain: int) -> list[tuple[int, int]]:
    """Frames, and the most that a run of so many meets: where it rises, or may rise."""
    least, most = -(-size // step), -(-(r + size - 1) // step)  # neighbouring chunks that one frame meets, and a piece of r frames

    def frames(chunks: int) -> int:
        """The shortest run that meets so many neighbours."""
        return max(1, (chunks - 1) * step - size + 2)

    def value(chunks: int) -> int:
        return reach(min(frames(chunks + 1) - 1, r))

    apart = max(1, -(-(most - least) // SAMPLES))
    # one more than a frame meets costs less than each further one, so that it is always looked up
    sampled = sorted({least, min(least + 1, most), *range(least, most, apart), most})
    before, known = least, value(least)
    found = [(1, known)]
    for chunks in sampled[1:]:
        here = min(max(value(chunks), known), known + gain * (chunks - before))
        # nothing is known in between but that each chunk adds at most `gain`
        full, rest = divmod(here - known, gain)
        if full:
            found.append((frames(before + full), known + gain * full))
        if rest:
            found.append((frames(before + full + 1), here))
        before, known = chunks, here
    return found


def _is_below(middle: tuple[int, int], left: tuple[int, int], right: tuple[int, int]) -> bool:
    """Whether a point does not lie above the line between two others."""
    return (middle[1] - left[1]) * (right[0] - left[0]) <= (right[1] - left[1]) * (middle[0] - left[0])
