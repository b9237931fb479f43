"""Runs inside the sandbox: calls a module's process(chunk) and prints its rows as JSON lines.

Self-contained, for the sandbox holds nothing of the engine: only the standard library and numpy. Plain calls where there are comfortable
ones: after a warm start, each page of Python that is touched is copied, and for a chunk of one frame that is what takes the time.
Usage: launcher.py CHUNK_DIRECTORY MODULE_FILE
"""


from __future__ import annotations

import importlib.util
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
#: Characters of rows that are written together.
_BUFFER = 65536
_DECODER = json.JSONDecoder()


class Chunk:
    """One chunk of one camera, as process() sees it."""

    __slots__ = ("_start", "camera", "files", "fps", "frames", "height", "metadata", "region", "width")

    def __init__(self, facts: dict[str, Any], frames: np.ndarray[Any, Any]) -> None:
        #: uint8, frames × height × width × 3 in the order blue, green, red; changing it changes this run's copy only
        self.frames = frames
        self._start: str = facts["start"]
        self.fps: float = facts["fps"]
        self.camera: str = facts["camera"]
        self.region: str = facts["region"]
        self.width: int = facts["width"]
        self.height: int = facts["height"]
        self.metadata: dict[str, Any] = facts["metadata"]
        #: the directory of the files attached to the executable
        self.files = FILES

    @property
    def start(self) -> datetime:
        """When the first frame was filmed."""
        return datetime.fromisoformat(self._start)

    def __repr__(self) -> str:
        return f"<chunk of {self.camera} at {self.start.isoformat()}: {len(self.frames)} frames of {self.width}x{self.height}>"


def load_chunk(directory: Path | str) -> Chunk:
    """The chunk of a directory, its frames mapped privately: pages are read where they lie and copied only if written to."""
    fd = os.open(f"{directory}/chunk.json", os.O_RDONLY)
    facts = _DECODER.raw_decode(os.read(fd, 1 << 20).decode())[0]
    os.close(fd)
    shape = facts["frames"], facts["height"], facts["width"], 3
    fd = os.open(f"{directory}/frames.npy", os.O_RDONLY)
    pages = mmap.mmap(fd, 0, access=mmap.ACCESS_COPY)
    os.close(fd)
    # what numpy writes before the pixels says the same as chunk.json, and takes as long to read as all the rest
    return Chunk(facts, np.ndarray(shape, np.uint8, pages, len(pages) - math.prod(shape)))


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


class Output:
    """A descriptor for rows alone, which are written many at once."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._held: list[str] = []
        self._size = 0

    def write(self, line: str) -> None:
        self._held.append(line)
        self._size += len(line)
        if self._size >= _BUFFER:
            self.flush()

    def flush(self) -> None:
        data = memoryview("".join(self._held).encode("ascii"))
        self._held, self._size = [], 0
        while data:
            data = data[os.write(self._fd, data):]

    def close(self) -> None:
        self.flush()
        os.close(self._fd)


def write_rows(rows: Iterable[Any] | None, output: Output) -> None:
    """One JSON line per row; a single dict is a single row."""
    if rows is None:
        return
    many: Iterable[Any] = [rows] if isinstance(rows, dict) else rows
    for row in many:
        output.write(_ENCODER.encode(dict(row)) + "\n")


def plain(value: Any) -> Any:
    """Numpy's scalars and small arrays as Python's own; anything else as null, which the table turns into the default."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray) and value.size == 1:
        return value.reshape(-1)[0].item()
    return None


_ENCODER = json.JSONEncoder(default=plain, skipkeys=True)


def work(process: Any, directory: Path | str) -> None:
    """Rows go to the real standard output; what the module prints goes to standard error, so that it cannot spoil them."""
    output = Output(os.dup(1))
    os.dup2(2, 1)
    try:
        write_rows(process(load_chunk(directory)), output)
    finally:
        output.close()
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
