"""The table for Python: Multicorn2's calls in, rows of a real sandbox over a real video out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from privid.errors import ExecutableInvalid, InvalidValue, VideoUnreadable, WindowInvalid
from privid.fdw import ChunkTable
from tests.conftest import LEVELS, write_video

STARTS = datetime(2026, 3, 1, 6, tzinfo=UTC)

#: prints a row per 100 of brightness, and for brightness 30 none and an exit code
PROGRAM = """
def process(chunk):
    level = int(chunk.frames[0, 0, 0, 0])
    if level == 30:
        raise SystemExit(3)
    for i in range(1 + level // 100):
        yield {"v": level, "label": chunk.camera, "odd": i % 2 == 1, "extra": 1}
"""


@dataclass(frozen=True)
class Definition:
    """As Multicorn2 describes a column."""

    type_name: str
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Qual:
    """As Multicorn2 describes a condition."""

    field_name: str
    operator: str | tuple[str, bool]
    value: Any


COLUMNS = {"chunk": Definition("timestamp with time zone"), "region": Definition("text"),
           "v": Definition("double precision", {"default": "-1"}), "label": Definition("text", {"default": "none"}),
           "odd": Definition("boolean", {"default": "false"})}


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    place = tmp_path_factory.mktemp("wrapper")
    write_video(place / "videos" / "levels.mp4", LEVELS)
    (place / "programs").mkdir()
    (place / "programs" / "levels.py").write_text(PROGRAM)
    return {"videos": str(place / "videos"), "executables": str(place / "programs"), "source": "levels.mp4", "camera": "mine",
            "starts": STARTS.isoformat(), "executable": "levels.py", "chunk": "1s", "timeout": "1s", "max_rows": "2"}


def second(number: int) -> datetime:
    return STARTS + timedelta(seconds=number)


def test_each_row_is_a_dict_with_the_declared_columns_and_defaults_where_the_program_failed(options: dict[str, str]) -> None:
    table = ChunkTable(options, COLUMNS)
    quals = [Qual("chunk", (">=", True), [second(2)]), Qual("chunk", "<", second(4))]
    assert list(table.execute(quals, COLUMNS)) == [
        {"chunk": second(2), "region": "", "v": 20.0, "label": "mine", "odd": False},
        {"chunk": second(3), "region": "", "v": -1.0, "label": "none", "odd": False}]


def test_only_the_chunks_that_the_conditions_leave_are_run_and_only_the_columns_asked_for_are_given(options: dict[str, str]) -> None:
    table = ChunkTable(options, COLUMNS)
    quals = [Qual("chunk", ("=", True), [second(1), second(12)]), Qual("v", "=", 7.0), Qual("chunk", "~~", "2026%")]
    assert table.get_rel_size(quals, ["v"])[0] == 2 * 2
    assert list(table.execute(quals, ["v", "odd"])) == [{"v": 10.0, "odd": False}, {"v": 120.0, "odd": False}, {"v": 120.0, "odd": True}]


def test_a_padded_table_has_max_rows_rows_in_every_chunk_and_a_policy_changes_nothing(options: dict[str, str]) -> None:
    policy = {"rho": "30s", "k": "2", "epsilon": "1", "quantum": "1s", "wrapper": "privid.fdw.ChunkTable"}
    table = ChunkTable({**options, **policy, "pad": "on"}, COLUMNS)
    assert [row["v"] for row in table.execute([Qual("chunk", "=", second(2))], ["v"])] == [20.0, -1.0]


def test_size_and_explanation_follow_the_conditions_and_run_nothing(options: dict[str, str]) -> None:
    table = ChunkTable(options, COLUMNS)
    assert table.get_rel_size([], ["v", "label"]) == (40, 40)
    assert table.get_rel_size([Qual("chunk", ("<>", False), [second(0), second(1)])], ["v"]) == (36, 8)
    lines = table.explain([Qual("chunk", "<", second(5))], ["v"], verbose=True)
    assert lines == ["Runs module levels.py over 5 of 20 chunks, 5500 ms", "Shows raw rows, outside any policy",
                     "Chunks of 10 frames every 10, at most 2 rows each", "Files: levels.mp4"]


def test_a_scan_that_is_given_up_leaves_nothing_behind(options: dict[str, str]) -> None:
    before = set(Path("/dev/shm").glob("privid-table-*"))
    scan = ChunkTable({**options, "timeout": "300ms"}, COLUMNS).runs()
    next(scan)
    assert set(Path("/dev/shm").glob("privid-table-*")) - before
    scan.close()  # type: ignore[attr-defined]
    assert set(Path("/dev/shm").glob("privid-table-*")) <= before


@pytest.mark.parametrize(("change", "error", "reason"), [
    ({"chunks": "1s"}, InvalidValue, 'invalid option "chunks"'),
    ({"mask": "trees"}, InvalidValue, 'option "mask"'),
    ({"videos": "/nowhere"}, VideoUnreadable, "does not exist"),
    ({"source": "../levels.mp4"}, VideoUnreadable, "levels.mp4"),
    ({"executable": "none.py"}, ExecutableInvalid, "could not read"),
    ({"executable": "../videos/levels.mp4"}, ExecutableInvalid, "outside"),
    ({"chunk": "950.5ms"}, WindowInvalid, "whole number of frames"),
    ({"timeout": "soon"}, InvalidValue, "timeout")])
def test_what_a_stack_refuses_is_refused_here_too(options: dict[str, str], change: dict[str, str], error: type[Exception],
                                                  reason: str) -> None:
    with pytest.raises(error, match=reason):
        ChunkTable({**options, **change}, COLUMNS)


def test_a_column_without_a_default_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(InvalidValue, match="has no default"):
        ChunkTable(options, {"v": Definition("double precision")})


def test_attached_files_are_found_by_the_program_warm_and_cold(options: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "offset.py").write_text("def process(chunk):\n    yield {'v': float((chunk.files / 'offset.txt').read_text()) + "
                                        "int(chunk.frames[0, 0, 0, 0])}\n")
    (tmp_path / "offset.txt").write_text("1000")
    changed = {**options, "executables": str(tmp_path), "executable": "offset.py", "files": "offset.txt"}
    for warm in ("on", "off"):
        table = ChunkTable({**changed, "warm": warm}, COLUMNS)
        assert [row["v"] for row in table.execute([Qual("chunk", "<", second(2))], ["v"])] == [1000.0, 1010.0], warm
    with pytest.raises(ExecutableInvalid, match="outside"):
        ChunkTable({**changed, "files": "../levels.py"}, COLUMNS)


def test_a_runtime_that_does_not_exist_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(InvalidValue, match="runtime"):
        ChunkTable({**options, "runtime": "perl"}, COLUMNS)
