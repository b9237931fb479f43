"""Disk that a release needs is asked for before it is charged, as much as rows could take: a failure later would show what they are."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import cast

import pytest

from privid.errors import EngineUnavailable
from privid.room.allowance import Bound
from privid.room.room import Room
from privid.room.space import RESERVE

MIB = 1 << 20


def room(disk: int, memory: int = 1 << 40) -> Room:
    return cast("Room", SimpleNamespace(gauge=SimpleNamespace(free=lambda: (disk, memory))))


def test_rows_that_could_be_kept_must_fit_beside_what_computing_takes() -> None:
    enough = 300 * MIB + 2 * 64 * MIB + RESERVE
    Room.check_kept(room(enough), 300 * MIB, 50 * MIB)
    Room.check_kept(room(0), 0, 50 * MIB)  # nothing is kept anew
    with pytest.raises(EngineUnavailable, match="keeping the rows of this release could take 300 MB of disk"):
        Room.check_kept(room(enough - 1), 300 * MIB, 50 * MIB)


@pytest.mark.parametrize(("disk", "memory", "word"),
                         [(200 * MIB, 1 << 40, None), (190 * MIB, 1 << 40, "disk"), (1 << 40, 90 * MIB, "memory")])
def test_computing_needs_twice_what_it_can_take(disk: int, memory: int, word: str | None) -> None:
    if word is None:
        Room.check_space(room(disk, memory), 64 * MIB, 16 * MIB)
        return
    with pytest.raises(EngineUnavailable, match=f"MB of {word}, and less than twice that is free"):
        Room.check_space(room(disk, memory), 64 * MIB, 64 * MIB)


@pytest.mark.parametrize(("in_memory", "found"), [(True, (0, 64 * MIB + 150 * MIB)), (False, (1024 * MIB, 64 * MIB))])
def test_what_is_needed_counts_in_powers_of_four_and_files_in_memory_once(monkeypatch: pytest.MonkeyPatch, in_memory: bool,
                                                                           found: tuple[int, int]) -> None:
    monkeypatch.setattr("privid.room.room.files_in_memory", lambda: in_memory)
    assert Room.space(Bound(Fraction(1), 50 * MIB, 300 * MIB)) == found
