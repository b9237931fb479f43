"""Ends what a test has started, however the test ends: a process of its own that waits until whoever asked for it is gone.

A finalizer does not run when pytest is killed, nor when pytest-xdist kills a worker. The guard's standard input is a pipe that nobody else
holds: it ends when its owner closes it or dies, by whatever. Then the guard runs a command and removes a directory.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

__all__ = ["guarded"]


@contextmanager
def guarded(directory: Path, command: Sequence[str | Path]) -> Iterator[None]:
    """When the block is left, or never left because the process is gone: runs the command, and removes the directory."""
    # a session of its own, so that Ctrl-C in a terminal ends the tests and not their guard
    guard = subprocess.Popen([sys.executable, "-I", __file__, directory, *command], stdin=subprocess.PIPE, start_new_session=True)
    assert guard.stdin is not None
    try:
        yield
    finally:
        guard.stdin.close()
        code = guard.wait()
    assert code == 0, f"what was to end with {directory} did not: {command} answered {code}"


def main(directory: str, *command: str) -> int:
    sys.stdin.read()
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        sys.stderr.write(done.stdout + done.stderr)
    shutil.rmtree(directory, ignore_errors=True)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
