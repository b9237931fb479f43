"""Numbers of the files of a job's chunks: given before the first is decoded."""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from privid.engine import reserve
from privid.sandbox.chunk import CHUNK_FILE, FRAMES_FILE

CHUNKS, MEANWHILE = 50, 20


def numbers(folder: Path, monkeypatch: pytest.MonkeyPatch, batch: int) -> list[int]:
    """Of the frames, when between two chunks much else is made in the same file system."""
    monkeypatch.setattr(reserve, "BATCH", batch)
    job = SimpleNamespace(folder=folder, table=SimpleNamespace(regions=None))
    slots: list[Any] = [SimpleNamespace(job=job, chunk=chunk) for chunk in range(CHUNKS)]
    found = []
    for slot in reserve.reserved(slots):
        frames = reserve.directory(slot)
        assert {path.name for path in frames.iterdir()} == {FRAMES_FILE, CHUNK_FILE}
        found.append((frames / FRAMES_FILE).stat().st_ino)
        for number in range(MEANWHILE):
            (folder / f"other-{slot.chunk}-{number}").touch()
    return found


def test_the_numbers_of_frames_do_not_count_what_is_made_while_others_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        found = numbers(Path(folder), monkeypatch, reserve.BATCH)
    assert found[-1] - found[0] < CHUNKS * MEANWHILE // 2  # others on this machine make files there, too, but not in this moment
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        found = numbers(Path(folder), monkeypatch, 1)
    assert found[-1] - found[0] > (CHUNKS - 1) * MEANWHILE
