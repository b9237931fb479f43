"""The worst that a program can write: texts of one hash, numbers in the worst order for quicksort.

PostgreSQL's hash functions can be inverted and its quicksort leaves nothing to chance, so both are
made here as anybody could make them.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

__all__ = ["colliding_texts", "worst_order"]

Words = npt.NDArray[np.uint32]


def _rotated(x: Words, by: int) -> Words:
    return (x << np.uint32(by)) | (x >> np.uint32(32 - by))


def _mixed(a: Words, b: Words, c: Words) -> tuple[Words, Words, Words]:
    """mix() of PostgreSQL's hash_bytes, after Bob Jenkins."""
    for by in (4, 6, 8, 16, 19, 4):
        a = (a - c) ^ _rotated(c, by)
        c = c + b
        a, b, c = b, c, a  # the three take turns
    return a, b, c


@cache
def colliding_texts(number: int) -> tuple[str, ...]:
    """ASCII texts of 24 bytes that hashtext() finds alike.

    The first 12 bytes are any; the next 12 take the state that they leave to one and the same.
    """
    start = np.uint32((0x9E3779B9 + 24 + 3923095) & 0xFFFFFFFF)
    goal = [np.uint32(word) for word in (0x12345678, 0x23456789, 0x3456789A)]
    chance = np.random.default_rng(1)
    found: dict[str, None] = {}
    with np.errstate(over="ignore"):
        while len(found) < number:
            heads = chance.integers(0, 1 << 32, (1 << 20, 3), dtype=np.uint32) & np.uint32(
                0x7F7F7F7F
            ) | np.uint32(0x01010101)
            state = _mixed(*(start + heads[:, i] for i in range(3)))
            tails = np.stack([goal[i] - state[i] for i in range(3)], axis=1)
            # no byte beyond ASCII, and none that is zero
            fine = ((tails & np.uint32(0x80808080)) == 0).all(axis=1)
            bytes_ = np.concatenate([heads[fine], tails[fine]], axis=1).astype("<u4").view(np.uint8)
            found |= {bytes(row).decode(): None for row in bytes_ if row.all()}
    return tuple(found)[:number]


class _Adversary:
    """Answers comparisons so that every pivot is among the smallest, and decides the values as it
    goes (after McIlroy)."""

    def __init__(self, number: int) -> None:
        self.at = list(range(number))  # which value stands where
        self.value = [number] * number  # undecided values are the largest
        self.undecided, self.decided, self.candidate = number, 0, -1

    def compare(self, i: int, j: int) -> int:
        x, y = self.at[i], self.at[j]
        if self.value[x] == self.value[y] == self.undecided:
            # neighbours are compared to see whether all is in order already: it must not be
            chosen = x if x == self.candidate and j != i + 1 else y
            self.value[chosen] = self.decided
            self.decided += 1
        if self.value[x] == self.undecided:
            self.candidate = x
        elif self.value[y] == self.undecided:
            self.candidate = y
        return self.value[x] - self.value[y]

    def swap(self, i: int, j: int) -> None:
        self.at[i], self.at[j] = self.at[j], self.at[i]

    def median(self, a: int, b: int, c: int) -> int:
        if self.compare(a, b) < 0:
            return b if self.compare(b, c) < 0 else (c if self.compare(a, c) < 0 else a)
        return b if self.compare(b, c) > 0 else (a if self.compare(a, c) < 0 else c)

    def sort(self, low: int, n: int) -> None:
        """The steps of PostgreSQL's sort_template.h."""
        while True:
            if all(self.compare(i - 1, i) <= 0 for i in range(low + 1, low + n)):
                return
            if n < 7:
                for i in range(low + 1, low + n):
                    j = i
                    while j > low and self.compare(j - 1, j) > 0:
                        self.swap(j, j - 1)
                        j -= 1
                return
            middle, last = low + n // 2, low + n - 1
            if n > 7:
                left, right = low, last
                if n > 40:
                    d = n // 8
                    left = self.median(left, left + d, left + 2 * d)
                    middle = self.median(middle - d, middle, middle + d)
                    right = self.median(right - 2 * d, right - d, right)
                middle = self.median(left, middle, right)
            self.swap(low, middle)
            a = b = low + 1
            c = d = last
            while True:
                while b <= c and (r := self.compare(b, low)) <= 0:
                    if r == 0:
                        self.swap(a, b)
                        a += 1
                    b += 1
                while b <= c and (r := self.compare(c, low)) >= 0:
                    if r == 0:
                        self.swap(c, d)
                        d -= 1
                    c -= 1
                if b > c:
                    break
                self.swap(b, c)
                b, c = b + 1, c - 1
            end = low + n
            for i in range(min(a - low, b - a)):
                self.swap(low + i, b - min(a - low, b - a) + i)
            equal = min(d - c, end - d - 1)
            for i in range(equal):
                self.swap(b + i, end - equal + i)
            smaller, larger = b - a, d - c
            if smaller <= larger:
                if smaller > 1:
                    self.sort(low, smaller)
                low, n = end - larger, larger
            else:
                if larger > 1:
                    self.sort(end - larger, larger)
                n = smaller
            if n <= 1:
                return


@cache
def worst_order(number: int) -> tuple[int, ...]:
    """Whole numbers in an order in which PostgreSQL compares number * number / 12.5 pairs."""
    adversary = _Adversary(number)
    adversary.sort(0, number)
    return tuple(adversary.value)
