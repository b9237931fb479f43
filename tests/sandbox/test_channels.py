"""Channels between programs: closed in every placement, and open as soon as their protection is taken away."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from privid.sandbox.executable import install
from privid.sandbox.lane import Program

from .channels import before, caches, counters, files, ipc, locks, processes
from .channels.channel import CHUNKS, TABLES, Channel
from .channels.stage import ANALYSTS, Stage
from .conftest import Trial

FAMILIES = (processes, locks, files, ipc, caches, counters, before)
ALL: dict[str, Channel] = {channel.name: channel for family in FAMILIES for channel in family.CHANNELS}


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
TOGETHER = (("filter",), ("filter", "ipc", "net", "session key ring", "tmp", "outputs"),
            ("tmp", "outputs", "descriptors", "read-only root", "files in RAM", "proc", "pid"))


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
    elsewhere = {"signal to a process group", "exit status and usage"}
    assert set(ALL) - open_somewhere == elsewhere | {channel.name for channel in before.CHANNELS}  # test_before_the_fork.py


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


def test_the_next_slot_would_tell_when_a_program_ended_if_it_did_not_wait_for_the_timetable(stage: Stage) -> None:
    trial, slot, ended = stage.lanes[0], 0.5, []
    for bit in (0, 1):
        path = trial.scratch / f"ends-{bit}"
        program = Program(path, install(f"#!/bin/sh\nsleep 0.{4 * bit}\n".encode(), "ends", path))
        result = trial.lane.run_soon(program, trial.chunk, slot)
        assert result.started + slot - 0.01 <= time.monotonic()  # the lane is not free before, whatever the bit
        ended.append(result.ended - result.started)
    assert ended[1] - ended[0] > 0.1


def test_every_channel_is_in_the_documents() -> None:
    table = (Path(__file__).parents[2] / "docs/sandbox.md").read_text().partition("## Channels\n")[2].partition("\n\nEach of these")[0]
    assert {line.split("|")[1].strip() for line in table.strip().splitlines()[2:]} == set(ALL)
