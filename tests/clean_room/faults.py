"""Engines with one fault each, for searches to discover: python -m tests.clean_room.faults FAULT ARGUMENTS-OF-THE-ENGINE.

Each undoes one thing that the clean room is for. A search that does not find it could not find the next hole either.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import privid.calculus.twins as twins_module
import privid.engine.evaluation as evaluation_module
import privid.engine.evaluator as evaluator_module
import privid.engine.release as release_module
import privid.room.inner as inner_module
import privid.room.room as room_module
from privid.cli.daemon import Engine
from privid.cli.layout import Layout
from privid.cli.processes import wait_until
from privid.engine import __main__ as engine_module
from privid.engine.cancel import Cancel
from privid.engine.handles import Handle
from privid.engine.judge import Judged
from privid.errors import SandboxFailed
from privid.model import Key, Plan
from privid.udf import noise
from tests.conftest import REPOSITORY

__all__ = ["FAULTS", "LATE", "faulty_engine"]

#: seconds by which a room is late
LATE = 4.0


def _errors_passed_on() -> None:
    """The room evaluates PostgreSQL's own functions, and what it says when one raises reaches the client."""
    twins_module.TWINS.clear()
    evaluated = release_module.Desk._evaluated

    def passing(self: release_module.Desk, handle: Handle, judged: Judged, cancel: Cancel) -> tuple[list[Key], bool]:
        rows, computed = evaluated(self, handle, judged, cancel)
        if not computed:
            raise SandboxFailed("the inner query failed")
        return rows, computed

    release_module.Desk._evaluated = passing  # type: ignore[method-assign]


def _start_evaluator(fault: str) -> None:
    """This file, wherever it is started from."""
    os.environ["PYTHONPATH"] = str(REPOSITORY)
    evaluation_module.COMMAND[-1:] = ["tests.clean_room.faults", fault]


def _deadline_dropped() -> None:
    """An answer leaves as soon as it is computed, and nothing keeps the core until its deadline."""
    _start_evaluator("hasty evaluator")
    evaluated = release_module.Desk._evaluated

    def at_once(self: release_module.Desk, handle: Handle, judged: Judged, cancel: Cancel) -> tuple[list[Key], bool]:
        found = evaluated(self, handle, judged, cancel)
        handle.deadline = time.monotonic_ns()
        return found

    release_module.Desk._evaluated = at_once  # type: ignore[method-assign]
    evaluation_module.Evaluation.result = lambda self, begun: self.done.result()  # type: ignore[method-assign]


def _hasty_evaluator() -> None:
    """Rows are handed over as soon as they are there, and the lane is free."""
    evaluator_module._sleep_until = lambda moment: None
    setattr(evaluator_module, "spin", lambda session, until: None)  # noqa: B010 (it is not the module's own)


def _keys_unsorted() -> None:
    """Rows come in the order in which the inner query gave them, those of groups without rows last."""
    answer = noise.answer

    def unsorted(plan: Plan, rows: noise.Rows, settled: noise.Rows | None = None) -> tuple[list[list[str | None]], str]:
        found, notice = answer(plan, rows, settled)
        width = len(plan.keys[0]) if plan.keys else 0
        came = {tuple(row[:width]): place for place, row in enumerate(rows)}
        return sorted(found, key=lambda row: came.get(tuple(row[:width]), len(came))), notice

    noise.answer = unsorted


def _uniqueness_assumed() -> None:
    """No index looks at the rows."""
    room_module._PublicRows.is_unique = lambda self, columns, rows, places: True  # type: ignore[method-assign]


def _room_late() -> None:
    """The room takes some seconds more for everything: longer than any allowance of small tables."""
    _start_evaluator("late evaluator")


def _late_evaluator() -> None:
    run = inner_module.run

    def late(*arguments: Any) -> list[Key]:
        time.sleep(LATE)
        return run(*arguments)

    setattr(evaluator_module, "run", late)  # noqa: B010 (it is not the module's own)


FAULTS: Mapping[str, Callable[[], None]] = {
    "errors": _errors_passed_on,
    "deadline": _deadline_dropped,
    "order": _keys_unsorted,
    "uniqueness": _uniqueness_assumed,
    "late": _room_late,
}

#: processes that a fault starts in the place of the evaluator
_EVALUATORS: Mapping[str, Callable[[], None]] = {"hasty evaluator": _hasty_evaluator, "late evaluator": _late_evaluator}


@contextlib.contextmanager
def faulty_engine(layout: Layout, fault: str) -> Iterator[int]:
    """The stack's engine with this fault, by its number, as long as the block lasts; then the right one again."""
    engine = Engine(layout)
    command = engine.started_as()
    engine.stop()
    with engine.log.open("ab") as log:
        process = subprocess.Popen([command[0], "-m", "tests.clean_room.faults", fault, *command[3:]], stdin=subprocess.DEVNULL,
                                   stdout=log, stderr=subprocess.STDOUT)
    try:
        assert wait_until(lambda: process.poll() is not None or engine.answers() is not None, 60) and process.poll() is None
        yield process.pid
    finally:
        process.terminate()
        process.wait(30)
        subprocess.run([command[0], "-m", "privid.cli.main", "up", "--data", str(layout.data)], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    if sys.argv[1] in _EVALUATORS:
        _EVALUATORS[sys.argv.pop(1)]()
        evaluator_module.main()
    FAULTS[sys.argv[1]]()
    sys.exit(engine_module.main(sys.argv[2:]))
