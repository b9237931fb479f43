"""20,000 chunks through a warm lane: memory stays flat, and nothing is left: no descriptor, mount, group, process or file."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from privid.sandbox.executable import install
from privid.sandbox.lane import Outcome, Program
from tests.sandbox.conftest import trials, wait_until_gone

CHUNKS, SLOT = 20_000, 0.008
CONTENT = b"def process(chunk):\n    yield {'n': int(chunk.frames[0, 0, 0, 0])}\n"


def resident() -> int:
    """Kilobytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def counts() -> dict[str, int]:
    return {"descriptors": len(list(Path("/proc/self/fd").iterdir())), "mounts": len(Path("/proc/self/mountinfo").read_text().splitlines()),
            "groups": len(list(Path("/sys/fs/cgroup").glob(f"**/privid/{os.getpid()}-*")))}


def main(chunks: int = CHUNKS) -> None:
    sizes: list[int] = []
    good = 0
    with trials() as make:
        trial = make(0)
        before = counts()
        path = trial.scratch / "program"
        program = Program(path, install(CONTENT, "program", path))
        trial.lane.announce(program, chunks, SLOT + 0.005)
        begun = time.monotonic()
        for number in range(chunks):
            while not trial.lane.ready(program):
                time.sleep(0.002)
            begin = time.monotonic() + 0.005
            good += trial.lane.run(program, trial.chunk, begin, begin + SLOT).outcome is Outcome.OK
            if number % max(1, chunks // 20) == 0:
                sizes.append(resident())
        rate = chunks / (time.monotonic() - begun)
        trial.lane.dismiss(program)
        assert wait_until_gone(trial.lane, 30) == []
        time.sleep(1)
        after = counts()
    settled = sizes[len(sizes) // 10 + 1:]
    print(f"{chunks} chunks, {good} in time, {rate:.0f} per second; memory {min(settled)} to {max(settled)} kB")
    print(f"before {before}, after {after}")
    assert max(settled) <= 1.1 * min(settled)
    assert after == before


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else CHUNKS)
