"""Room for decoded frames and programs is taken before the charge, and depends on public sizes alone."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from privid.engine.copies import FILES, PROGRAM
from privid.engine.frame_space import FrameSpace
from privid.errors import EngineUnavailable
from privid.model import Executable
from privid.video import Spares

MIB = 1 << 20


def executable(name: str = "small", size: int = 0) -> Executable:
    return Executable(name, name, b"", 0, (("weights", name),) if size else (), (size,) if size else ())


def test_what_has_its_place_leaves_less_for_others_and_a_role_has_half_at_most(tmp_path: Path) -> None:
    space, small = FrameSpace(100 * MIB, tmp_path), executable()
    with pytest.raises(EngineUnavailable, match="take 51 MB of memory, and 50 MB are left"):
        space.take("ana", 51 * MIB, small)
    first, second = space.take("ana", 40 * MIB, small), space.take("ben", 50 * MIB, small)
    with pytest.raises(EngineUnavailable, match="take 11 MB of memory, and 10 MB are left"):
        space.take("cleo", 11 * MIB, small)
    with pytest.raises(EngineUnavailable):
        space.take("ben", 1 * MIB, small)
    first.end()
    first.end()
    space.take("cleo", 11 * MIB, small)
    second.end()
    space.take("ben", 50 * MIB, small)


def test_a_program_and_its_files_are_counted_once_for_all_jobs_of_a_role_until_the_last_has_ended(tmp_path: Path) -> None:
    space, fat = FrameSpace(100 * MIB, tmp_path), executable("fat", 40 * MIB)
    held = [space.take("ana", MIB, fat) for _ in range(10)]
    with pytest.raises(EngineUnavailable, match="take 1 MB of memory, and 0 MB are left"):
        space.take("ana", MIB, fat)
    with pytest.raises(EngineUnavailable, match="take 40 MB of memory, and 0 MB are left"):
        space.take("ana", 0, executable("other", 40 * MIB))
    space.take("ben", 50 * MIB, executable()).end()  # a role's jobs take half, however many there are
    for one in held[1:]:
        one.end()
    assert space.take("ana", 9 * MIB, fat).copy is held[0].copy
    assert space.take("ben", MIB, fat).copy is not held[0].copy  # of another role: nothing that either could see is the other's
    assert space.advice(60 * MIB, [fat]) and not space.advice(10 * MIB, [fat, fat]) and space.advice(0, [fat, executable("b", 11 * MIB)])


def test_a_copy_is_written_once_and_leaves_no_page_behind_whoever_holds_its_files(tmp_path: Path) -> None:
    space, jobs, read = FrameSpace(100 * MIB, tmp_path), [tmp_path / name for name in ("one", "other")], list[str]()

    def content(sha256: str) -> bytes:
        read.append(sha256)
        return b"x" * MIB

    program = b"#!/bin/true"
    one = replace(executable("fat", MIB), head=program, size=len(program))
    held = [space.take("ana", 0, one) for _ in jobs]
    for job, its in zip(jobs, held, strict=True):
        job.mkdir()
        its.copy.install(one, program, content, job)
        assert [path.name for path in (job / FILES).rglob("*")] == ["weights"]
        assert (job / PROGRAM).stat().st_mode & 0o777 == 0o555 and (job / FILES / "weights").stat().st_mode & 0o777 == 0o444
    assert read == ["fat"]
    assert len({(job / PROGRAM).stat().st_ino for job in jobs}) == 1
    assert (jobs[0] / PROGRAM).stat().st_nlink == (jobs[0] / FILES / "weights").stat().st_nlink == 1  # a count of links would count jobs
    with (jobs[0] / FILES / "weights").open("rb") as pinned:
        held[0].end()
        assert os.fstat(pinned.fileno()).st_size == MIB
        held[1].end()
        assert os.fstat(pinned.fileno()).st_blocks == 0
    assert {path.name for path in tmp_path.iterdir()} == {"one", "other"}


def test_a_spare_decoder_is_there_at_once_and_one_that_has_died_is_passed_over() -> None:
    spares = Spares(2)
    try:
        while spares._ready.qsize() < 2:
            time.sleep(0.01)
        begun = time.monotonic()
        one = spares.take()
        assert time.monotonic() - begun < 0.1 and one.alive
        while spares._ready.qsize() < 2:
            time.sleep(0.01)
        dead = spares._ready.get_nowait()
        dead.cancel()
        spares._ready.put(dead)
        for _ in range(2):
            other = spares.take()
            assert other.alive
            other.close()
        one.close()
    finally:
        spares.close()
