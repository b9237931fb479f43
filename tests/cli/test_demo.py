"""The demonstration shows what it says, on a scene of twenty seconds."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.conftest import run_privid


def test_the_demonstration_shows_an_answer_its_truth_a_refusal_and_the_budget(reachable_directory: Path) -> None:
    data = reachable_directory / "demo"
    command = [sys.executable, "-m", "privid.cli.demo", "--data", str(data), "--seconds", "20"]
    try:
        first, again = (subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2))
    finally:
        run_privid("down", "--data", data)
    for shown in (first, again):
        assert "discrete Laplace noise of scale 4" in shown
        assert "ERROR:  raw rows of foreign table \"passers\" cannot be shown" in shown
        assert re.search(r"street .*\| +6\n", shown)
        counted = re.findall(r"2026-03-01 08:00:00\+00 \| +(-?\d+)", shown)
        drawn = re.search(r"as it was\s+drawn:\s+(\d+)\.", shown)
        assert len(counted) == 2 and drawn
        # the owner sees what was drawn, or one more or less: the program looks at pixels
        assert abs(int(counted[1]) - int(drawn[1])) <= 1
    assert "epsilon 4 was charged" in first
    assert "reused the answer of release 1, at no charge" in again
