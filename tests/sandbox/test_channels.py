"""Channels between programs: closed in every placement, and open as soon as their protection is taken away."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .channels import caches, counters, files, ipc, locks, processes
from .channels.channel import CHUNKS, TABLES, Channel
from .channels.stage import ANALYSTS, Stage
from .conftest import Trial

ALL: dict[str, Channel] = {channel.name: channel for family in (processes, locks, files, ipc, caches, counters) for channel in family.CHANNELS}


@pytest.fixture(scope="module")
def stage(make_trial: Callable[..., Trial]) -> Iterator[Stage]:
    disk = Path(tempfile.mkdtemp(prefix="privid-test-", dir="/var/tmp"))
    disk.chmod(0o755)
    found = Stage(make_trial(4), make_trial(5), disk)
    yield found
    found.forget()
    shutil.rmtree(disk)


@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize("placement", [CHUNKS, TABLES, ANALYSTS])
def test_no_channel_carries_a_bit(stage: Stage, placement: str, warm: bool) -> None:
    without, with_ = (stage.felt(placement, bit, ALL, warm=warm) for bit in (0, 1))
    assert set(without) == set(ALL)
    assert with_ == without


#: Protections that are taken away together, because each of them concerns other channels.
TOGETHER = (("filter",), ("filter", "ipc", "net", "session key ring", "tmp"),
            ("tmp", "descriptors", "read-only root", "files in RAM", "proc", "pid"))


def opened(stage: Stage, placement: str, wanted: set[str], *, warm: bool = False) -> set[str]:
    """Which of the wanted channels carry the bit; a busy machine may hide one, so that a second and a third look is taken."""
    found: set[str] = set()
    for _ in range(3):
        left = wanted - found
        without, with_ = (stage.felt(placement, bit, left, warm=warm) for bit in (0, 1))
        found |= {name for name in left if with_[name] != without[name]}
        if found == wanted:
            break
    return found


def shown(placement: str) -> dict[tuple[str, ...], set[str]]:
    """Channels by the protections that are taken away to show them open: the fewest that will do."""
    found: dict[tuple[str, ...], set[str]] = {group: set() for group in TOGETHER}
    for channel in ALL.values():
        if placement in channel.across and "verification" not in channel.opened_by:
            found[next(group for group in TOGETHER if set(channel.opened_by) <= set(group))].add(channel.name)
    return found


def test_every_channel_is_shown_open_somewhere() -> None:
    open_somewhere = set().union(*(names for placement in (CHUNKS, TABLES) for names in shown(placement).values()))
    # of the first, see test_siblings.py; the second would need two programs of which one is the parent of the other
    assert set(ALL) - open_somewhere == {"signal to a process group", "exit status and usage"}


@pytest.mark.parametrize("placement", [CHUNKS, TABLES])
@pytest.mark.parametrize("group", TOGETHER, ids=["filter", "filter-and-more", "others"])
def test_a_channel_is_open_without_its_protection(stage: Stage, group: tuple[str, ...], placement: str) -> None:
    wanted = shown(placement)[group]
    with stage.without(*group):
        assert opened(stage, placement, wanted) == wanted


def test_warm_channels_are_open_without_the_filter(stage: Stage) -> None:
    wanted = {name for name, channel in ALL.items() if channel.warm and channel.opened_by == ("filter",)}
    with stage.without("filter"):
        assert opened(stage, TABLES, wanted, warm=True) == wanted
