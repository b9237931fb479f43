"""Whatever dies, answers are paid for, the rest goes on, and nothing is left behind."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.guard import guarded
from tests.verify.room_kills import massacre


def test_every_answer_is_paid_for_and_nothing_is_left_whatever_is_killed_under_sixteen_sessions(
) -> None:
    directory = Path(tempfile.mkdtemp(prefix="privid-test-"))
    directory.chmod(0o755)
    down = [sys.executable, "-m", "privid.cli.main", "down", "--data", str(directory / "stack")]
    with guarded(directory, down):
        run = massacre(directory, kills=50, seed=1)
    assert run.kills.total() > 40, run.kills
    assert len(run.answers) > 150  # the kills wait for so many; how many more depends on the machine
