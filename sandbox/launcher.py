"""Runs inside the sandbox: calls a module's process(chunk) and prints its rows as JSON lines.

Self-contained, for the sandbox holds nothing of the engine: only the standard library and numpy.
Usage: launcher.py CHUNK_DIRECTORY MODULE_FILE
"""

from __future__ import annotations

import importlib.util
import io
import json
import math
import mmap
import os
import sys
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["Chunk", "load_chunk", "main"]

FILES = Path("/app/files")


class Chunk:
    """One chunk of one camera, as process() sees it."""

    __slots__ = ("camera", "files", "fps", "frames", "height", "metadata", "region", "start", "width")

    def __init__(self, facts: dict[str, Any], frames: np.ndarray[Any, Any]) -> None:
        #: uint8, frames × height × width × 3 in the order blue, green, red; changing it changes this run's copy only
        self.frames = frames
        #: when the first frame was filmed
        self.start = datetime.fromisoformat(facts["start"])
        self.fps: float = facts["fps"]
        self.camera: str = facts["camera"]
        self.region: str = facts["region"]
        self.width: int = facts["width"]
        self.height: int = facts["height"]
        self.metadata: dict[str, Any] = facts["metadata"]
        #: the directory of the files attached to the executable
        self.files = FILES

    def __repr__(self) -> str:
        return f"<chunk of {self.camera} at {self.start.isoformat()}: {len(self.frames)} frames of {self.width}x{self.height}>"


def load_chunk(directory: Path) -> Chunk:
    """The chunk of a directory, its frames mapped privately: pages are read where they lie and copied only if written to."""
    facts = json.loads((directory / "chunk.json").read_bytes())
    shape = facts["frames"], facts["height"], facts["width"], 3
    size = math.prod(shape)
    with (directory / "frames.npy").open("rb") as file:
        pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    # what numpy writes before the pixels says the same as chunk.json, and takes as long to read as all the rest
    frames = np.frombuffer(pages, dtype=np.uint8, count=size, offset=len(pages) - size).reshape(shape)
    return Chunk(facts, frames)


def settle_environment() -> None:
    """The same order however the process was started, for programs that go through it."""
    settled = sorted(os.environ.items())
    os.environ.clear()
    os.environ.update(settled)


def load_process(file: Path) -> Any:
    """The module's process function; the module is importable as "executable" while it runs."""
    settle_environment()
    spec = importlib.util.spec_from_file_location("executable", file)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {file}")
    module = importlib.util.module_from_spec(spec)
    sys.modules["executable"] = module
    spec.loader.exec_module(module)
    return module.process


def write_rows(rows: Iterable[Any] | None, output: io.TextIOBase) -> None:
    """One JSON line per row; a single dict is a single row."""
    if rows is None:
        return
    many: Iterable[Any] = [rows] if isinstance(rows, dict) else rows
    for row in many:
        output.write(json.dumps(dict(row), default=plain, skipkeys=True) + "\n")


def plain(value: Any) -> Any:
    """Numpy's scalars and small arrays as Python's own; anything else as null, which the table turns into the default."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray) and value.size == 1:
        return value.reshape(-1)[0].item()
    return None


def work(process: Any, directory: Path) -> None:
    """Rows go to the real standard output; what the module prints goes to standard error, so that it cannot spoil them."""
    with os.fdopen(os.dup(1), "w", buffering=65536, encoding="ascii", newline="\n") as output:
        os.dup2(2, 1)
        chunk = load_chunk(directory)
        write_rows(process(chunk), output)
    sys.stdout.flush()
    sys.stderr.flush()


def main(arguments: list[str]) -> int:
    """One run, from import to the last row."""
    directory, file = map(Path, arguments)
    work(lambda chunk: load_process(file)(chunk), directory)
    # Threads and exit handlers that the module left behind do not hold up the end of the run.
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
