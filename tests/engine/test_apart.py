"""What other users of the machine share with an engine is not what it depends on: memory, processes, where it was started."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from privid.sandbox.cgroups import find_hierarchy
from privid.video.process import Worker
from tests.engine.client import EngineProcess
from tests.engine.conftest import House

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user's engine has nothing of its own")


def test_the_engines_place_in_memory_is_a_file_system_that_nobody_else_fills_or_looks_at(house: House) -> None:
    inside, outside = house.engine.scratch(), house.engine.place() / house.engine.scratch().name
    assert inside.stat().st_dev != Path("/dev/shm").stat().st_dev
    assert (inside / "lane-0").is_dir()
    assert list(outside.iterdir()) == [] and outside.stat().st_dev == Path("/dev/shm").stat().st_dev


def test_the_devices_of_a_sandbox_are_not_those_that_everybody_can_watch(house: House) -> None:
    for root in (house.engine.scratch() / "lane-0").glob("root*"):
        for name in ("null", "zero", "urandom"):
            own, common = (root / "dev" / name).stat(), Path("/dev", name).stat()
            assert own.st_rdev == common.st_rdev and (own.st_dev, own.st_ino) != (common.st_dev, common.st_ino)
            return
    pytest.fail("no root of a lane")


def test_no_code_is_taken_from_the_directory_in_which_the_engine_is_started(house: House, tmp_path: Path) -> None:
    """The evaluator and the reader are Python too, and are started by name."""
    planted, told = tmp_path / "cwd" / "privid", tmp_path / "told"
    planted.mkdir(parents=True)
    (planted / "__init__.py").write_text(f"open({str(told)!r}, 'a').write('planted')\nraise SystemExit(1)\n")
    engine = EngineProcess(tmp_path, house.engine.videos, house.engine.conninfo)
    # as a console script does it, which does not look in the directory
    start = f"import os, sys; sys.path[:] = [p for p in sys.path if p]; os.chdir({str(planted.parent)!r}); sys.argv[0] = 'privid'; " \
            "from privid.engine.__main__ import main; sys.exit(main(sys.argv[1:]))"
    with engine.log_file.open("ab") as log:
        engine.process = subprocess.Popen([sys.executable, "-c", start, *engine.options], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                          cwd="/")
    try:
        end = time.monotonic() + 60
        while '"engine started"' not in engine.log_file.read_text():
            assert engine.process.poll() is None and time.monotonic() < end, engine.log_file.read_text()
            time.sleep(0.05)
        assert not told.exists()
    finally:
        engine.stop()


def test_a_decoder_is_of_a_user_whom_no_other_process_of_the_machine_has() -> None:
    worker = Worker()
    try:
        user = Path(f"/proc/{worker.pid}").stat().st_uid
        status = Path(f"/proc/{worker.pid}/status").read_text()
        uids = next(line for line in status.splitlines() if line.startswith("Uid:")).split()[1:]
        assert set(uids) == {uids[0]} and uids[0] not in ("0", "65534"), (user, uids)
    finally:
        worker.close()


def test_what_a_runs_group_uses_is_not_for_others_to_read(tmp_path: Path) -> None:
    hierarchy = find_hierarchy()
    assert hierarchy is not None
    group = hierarchy.create(f"{os.getpid()}-closed", memory=1 << 20, processes=1)
    try:
        assert [oct(directory.stat().st_mode & 0o077) for directory in group.directories] == ["0o0"] * len(group.directories)
    finally:
        assert group.remove(patience=1)
