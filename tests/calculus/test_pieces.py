"""Visible time: no set of visible frames meets more chunks than is claimed, by trying them all, and the paper's reading is caught at it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import groupby
from math import ceil
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privid.calculus.rules import mask
from privid.calculus.rules.base_table import reaching
from privid.model import Table
from privid.pieces import Pieces, most_met

from .builders import table

Bound = Callable[[Pieces, int, "Chunks"], int]


@dataclass(frozen=True)
class Chunks:
    """Chunks of `size` frames every `step`, of which only some are read: by number, or all."""

    size: int
    step: int
    chosen: frozenset[int] | None = None

    def met(self, frames: Iterable[int]) -> int:
        """By the definition: chunks that read one of the frames."""
        found = {j for frame in frames for j in range(-(-(frame - self.size + 1) // self.step), frame // self.step + 1)}
        return len(found if self.chosen is None else found & self.chosen)

    @cache  # noqa: B019 (few)
    def reach(self, r: int) -> int:
        """The most that any run of r frames meets, by trying its places."""
        if r == 0:
            return 0
        last = 0 if self.chosen is None else max(self.chosen)
        return max(self.met(range(q, q + r)) for q in range(-r - self.size, self.step * (last + 1) + self.size + 1))


def claimed(seen: Pieces, within: int, chunks: Chunks) -> int:
    return min(most_met(seen, chunks.size, chunks.step, chunks.reach), chunks.reach(within))


def as_published(seen: Pieces, within: int, chunks: Chunks) -> int:
    """The paper's reading: what is visible in all, as if it were one piece."""
    return chunks.reach(min(seen.total, within))


def without_ends(seen: Pieces, within: int, chunks: Chunks) -> int:
    """Each piece reads into one chunk at its end, of which somebody may forget all but the first."""
    return min(seen.count + chunks.reach(seen.total) - 1, chunks.reach(within))


def pieces_of(frames: Iterable[int]) -> Pieces:
    """The numbers of a set of visible frames, as an owner would measure them."""
    runs = [len(list(run)) for _, run in groupby(enumerate(sorted(frames)), lambda item: item[1] - item[0])]
    return Pieces(max(runs), len(runs), sum(runs))


def small_sets() -> Iterator[tuple[tuple[int, ...], Pieces, int]]:
    """Every set of visible frames within ten, the first of which is visible: with its numbers and its extent."""
    for bits in range(1, 1 << 10, 2):
        frames = tuple(i for i in range(10) if bits >> i & 1)
        yield frames, pieces_of(frames), frames[-1] + 1


def worst(frames: tuple[int, ...], chunks: Chunks) -> int:
    return max(chunks.met(f + place for f in frames) for place in range(chunks.step))


def search(bound: Bound, sizes: Iterable[int] = range(1, 8)) -> tuple[int, int, list[object]]:
    """Cases, those in which the bound is attained, and those that exceed it."""
    cases, attained, wrong, sets = 0, 0, list[object](), list(small_sets())
    for size in sizes:
        for step in range(max(1, size - 2), size + 4):
            chunks, most = Chunks(size, step), dict[tuple[Pieces, int], int]()
            for frames, seen, extent in sets:
                found = worst(frames, chunks)
                most[seen, extent] = max(found, most.get((seen, extent), 0))
            for (seen, extent), found in most.items():
                claim = bound(seen, extent, chunks)
                cases, attained = cases + 1, attained + (found == claim)
                if found > claim:
                    wrong.append((chunks, seen, extent, found, claim))
    return cases, attained, wrong


def chosen_cases(seed: int, number: int) -> Iterator[tuple[Chunks, tuple[int, ...]]]:
    """Random visible sets over random choices of chunks, longer than can all be tried."""
    rng = random.Random(seed)
    for _ in range(number):
        size = rng.randint(1, 9)
        step = max(1, size + rng.randint(-3, 4))
        density = rng.choice((0.2, 0.5, 0.8, 1.0))
        count = rng.randint(3, 30)
        chosen = frozenset(j for j in range(count) if rng.random() < density) or frozenset({0})
        frames, at = list[int](), rng.randint(-size, step * count)
        for _ in range(rng.randint(1, 7)):
            length = rng.choice((1, 1, 2, rng.randint(1, 12)))
            frames += range(at, at + length)
            at += length + rng.choice((1, step - 1, step, step + 1, size, rng.randint(1, 20)))
        yield Chunks(size, step, chosen), tuple(sorted(set(frames)))


def test_no_set_of_visible_frames_meets_more_chunks_than_is_claimed() -> None:
    cases, attained, wrong = search(claimed)
    assert not wrong, wrong[:3]
    assert cases > 2000 and attained > 0.6 * cases  # the search comes as far as the bound


@pytest.mark.parametrize("mutant", [as_published, without_ends])
def test_a_bound_with_a_mistake_is_caught_by_the_same_search(mutant: Bound) -> None:
    assert search(mutant, sizes=(2, 4))[2]


def test_no_larger_set_meets_more_of_chosen_chunks_than_is_claimed() -> None:
    reached = 0
    for chunks, frames in chosen_cases(11, 1500):
        seen, extent = pieces_of(frames), frames[-1] - frames[0] + 1
        found, claim = chunks.met(frames), claimed(seen, extent, chunks)
        assert found <= claim, (chunks, frames, found, claim)
        reached += found == claim
    assert reached > 100
    assert any(chunks.met(frames) > as_published(pieces_of(frames), frames[-1] - frames[0] + 1, chunks)
               for chunks, frames in chosen_cases(12, 300))


def by_splitting(seen: Pieces, reach: Callable[[int], int]) -> int:
    """The definition: the most over all ways to part the visible frames into pieces."""
    @cache
    def most(pieces: int, frames: int) -> int:
        if not pieces or not frames:
            return 0
        return max(reach(n) + most(pieces - 1, frames - n) for n in range(1, min(seen.r, frames) + 1))
    return most(seen.count, seen.total)


def test_the_bound_of_a_whole_window_is_the_most_over_all_splittings() -> None:
    rng = random.Random(3)
    for _ in range(400):
        size = rng.randint(1, 7)
        chunks = Chunks(size, max(1, size + rng.randint(-2, 3)))
        r, count = rng.randint(1, 40), rng.randint(1, 6)
        seen = Pieces.promised(r, count, rng.randint(r, r * count), 1000)
        assert most_met(seen, chunks.size, chunks.step, chunks.reach) == by_splitting(seen, chunks.reach), (seen, chunks)


def test_the_bound_of_chosen_chunks_is_no_less_than_over_all_splittings() -> None:
    rng = random.Random(4)
    for chunks, _ in chosen_cases(5, 120):
        r, count = rng.randint(1, 30), rng.randint(1, 4)
        seen = Pieces.promised(r, count, rng.randint(r, r * count), 1000)
        assert most_met(seen, chunks.size, chunks.step, chunks.reach) >= by_splitting(seen, chunks.reach), (seen, chunks)


def test_what_each_chunk_adds_may_be_more_than_one() -> None:
    """Cells of a chunk with several regions: the bound between looked-up lengths still holds."""
    rng, caught = random.Random(6), 0
    for _ in range(200):
        size, gain = rng.randint(1, 4), rng.randint(1, 4)
        step = max(1, size + rng.randint(-1, 2))
        rises = [rng.randint(0, gain) for _ in range(200)]

        def cells(r: int, size: int = size, step: int = step, rises: list[int] = rises) -> int:
            return sum(rises[:-(-(r + size - 1) // step)])

        seen = Pieces.promised(rng.randint(20, 90), rng.randint(1, 4), 95, 1000)
        least = min(by_splitting(seen, cells), seen.total * cells(1))
        assert most_met(seen, size, step, cells, gain) >= least
        caught += gain > 1 and most_met(seen, size, step, cells, 1) < least
    assert caught  # with a gain that is too small


# Edinburgh's Informatics Forum behind a mask that covers a fifth of it: stays of 237 s, pieces of 24 s, 11 of them, 26 s in all

EDINBURGH: dict[str, Any] = {"r": 2370, "mask_r": 240, "pieces": 11, "visible": 260, "chunks": 36_000}


def met(one: Table) -> int:
    return mask.met(one, reaching(one, ((0, one.grid.count),)))


def test_one_frame_chunks_are_met_for_as_long_as_somebody_is_visible() -> None:
    assert met(table(**EDINBURGH, size=1)) == 26 * 10
    assert met(table(r=237, mask_r=24, pieces=11, visible=26, fps=1, size=1, chunks=3600)) == 26
    assert met(table(**EDINBURGH | {"visible": None}, size=1)) == 2370  # as without the mask


@pytest.mark.parametrize(("size", "expected"), [(10, 11 * 2 + (260 - 22) // 10), (50, 11 * 2 + (260 - 22) // 50), (600, 5)])
def test_longer_chunks_are_met_by_each_piece_at_both_ends(size: int, expected: int) -> None:
    assert met(table(**EDINBURGH, size=size)) == expected


def test_a_real_person_there_meets_more_chunks_than_the_published_reading_claims() -> None:
    chunks = Chunks(60, 60)
    frames = [59, 60, *range(119, 141), 180, 181]  # 26 s in all, in three pieces within 237 s
    assert pieces_of(frames) == Pieces(22, 3, 26) and chunks.met(frames) == 4
    assert as_published(pieces_of(frames), 237, chunks) == 2
    assert claimed(pieces_of(frames), 237, chunks) >= 4


def test_many_chunks_and_pieces_are_bounded_quickly_from_few_looks() -> None:
    looks = list[int]()

    def reach(r: int) -> int:
        looks.append(r)
        return r

    assert most_met(Pieces(10**6, 1000, 2 * 10**6), 1, 1, reach) == 2 * 10**6
    assert len(looks) < 30


@given(st.integers(1, 200), st.fractions(Fraction(1, 50), 40), st.fractions(Fraction(0), 1))
def test_a_duration_covers_every_frame_that_it_is_a_part_of(frames: int, fps: Fraction, part: Fraction) -> None:
    """So many frames are seen for so many frame times at most, and a promise that is longer by less than a frame covers one more."""
    for rho in (Fraction(frames) / fps, (frames - 1 + max(part, Fraction(1, 1000))) / fps):
        assert Pieces.of_seconds(rho, 1, None, fps, 1000).r == frames


@given(st.fractions(Fraction(1, 50), 40), st.integers(1, 20), st.fractions(Fraction(1, 1000), 100))
def test_a_promise_of_visible_time_that_says_nothing_changes_nothing(fps: Fraction, count: int, rho: Fraction) -> None:
    assert Pieces.of_seconds(rho, count, count * rho, fps, 10**6) == Pieces.of_seconds(rho, count, None, fps, 10**6)


@given(st.fractions(Fraction(1, 50), 40), st.lists(st.fractions(Fraction(1, 1000), 100), min_size=1, max_size=8))
def test_pieces_that_are_no_whole_frames_show_in_no_more_than_are_promised(fps: Fraction, lasting: list[Fraction]) -> None:
    """A piece that lasts so long shows in so many frames at most, rounded up; unless all that is promised is whole frames."""
    promised = Pieces.of_seconds(max(lasting), len(lasting), sum(lasting, Fraction(0)), fps, 10**6)
    shown = [ceil(one * fps) for one in lasting]
    assert max(shown) <= promised.r
    assert sum(shown) <= promised.total or (max(lasting) * fps).denominator == (sum(lasting) * fps).denominator == 1
