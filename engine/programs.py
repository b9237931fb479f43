"""Analysts' programs: what kind they are, what they are told about a chunk, and what their output becomes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from privid.model import Table
from privid.places import Places
from privid.sandbox.chunk import write_chunk_json
from privid.sandbox.executable import Flaw, Kind, is_module, look
from privid.sandbox.rows import MAX_TEXT
from privid.sandbox.run import Limits, Outcome, RunResult
from privid.sandbox.runtime import Runtime
from privid.video.cutout import cutout

from .definitions import MAX_DEFAULT_BYTES
from .kept import CELL_HEAD, Cell
from .reading import Readings
from .rows import encoded_size, row_width

__all__ = ["OUTCOMES", "UNDECODED", "Programs", "describe", "weigh"]

#: A run that ended well, of whose output no row could be made
UNREADABLE = "unreadable"
#: A run whose chunk was not there in time: whatever became of it is no row
UNDECODED = "undecoded"
#: How a run can end, as the owner's counters name it; a cancelled run is none.
OUTCOMES = (*(outcome.value for outcome in Outcome if outcome is not Outcome.CANCELLED), UNREADABLE, UNDECODED)
#: Files of which it is remembered by content what they are, or why they are nothing; looking at a module means parsing it.
_REMEMBERED = 1000
#: One is looked at at a time, for each may take some hundred megabytes, and ten seconds; roles take turns.
_PATIENCE = 60.0


class Programs:
    """One runtime for all programs."""

    def __init__(self, runtime: Runtime, limits: Limits, readings: Readings, content: Callable[[Table], bytes]) -> None:
        self._readings = readings
        self.runtime_id = f"{runtime.name}-{runtime.digest}"
        self._limits = limits
        self.content = content
        self._looking = Places(1, 1, "engine is busy with the programs of others", _PATIENCE)
        self._lock = threading.Lock()
        self._known: dict[str, Kind | Flaw] = {}  # what was asked for last comes last

    def kind(self, table: Table) -> Kind:
        """Of a table's program; refuses a file that is none."""
        found = self._recall(table.executable.digest)
        if found is None:
            with self._looking.take():
                found = self._recall(table.executable.digest) or self._look(table)
        if isinstance(found, Flaw):
            raise found.told(table.executable.name)
        return found

    def _look(self, table: Table) -> Kind | Flaw:
        file = table.executable
        found = look(file.head, file.size, lambda: self.content(table))
        if isinstance(found, Kind) or found.lasting:
            with self._lock:
                self._known[file.digest] = found
                if len(self._known) > _REMEMBERED:
                    del self._known[next(iter(self._known))]
        return found

    def _recall(self, digest: str) -> Kind | Flaw | None:
        with self._lock:
            found = self._known.pop(digest, None)
            if found is not None:
                self._known[digest] = found
            return found

    def starts_warm(self, table: Table) -> bool:
        """Whether its program, which was looked at before, could be started warm: only a module can."""
        return is_module(table.executable.head)

    def read_output(self, cell: Cell, table: Table, result: RunResult) -> str:
        """Have the rows of a run kept; whatever went wrong in the program is one row of defaults. How it ended, for the owner."""
        failed = self._readings.read(cell, table, result.printed)
        return UNREADABLE if failed and result.outcome is Outcome.OK else result.outcome.value

    def weight(self, table: Table) -> int:
        return weigh(table, self._limits)


def describe(table: Table, chunk: int, region: int, folder: Path) -> None:
    """Write what a program is told about its chunk."""
    camera, seen = table.camera, cutout(table, region)
    place = None if table.regions is None else {"left": seen.left, "top": seen.top}
    write_chunk_json(folder, start=camera.moment(table.grid.frames(chunk)[0]), fps=camera.footage.fps, camera=camera.name,
                     region=table.region_names[region], width=seen.width, height=seen.height, frames=table.grid.size, metadata=place)


def weigh(table: Table, limits: Limits) -> int:
    """The most bytes that a chunk's rows can take, as they are kept: a function of the definition, not of the output.

    Output that is not UTF-8 grows threefold, because each bad byte becomes a replacement character.
    """
    widest = table.max_rows * sum(row_width(column, 4 * MAX_TEXT) for column in table.untrusted)
    return CELL_HEAD + encoded_size(table.untrusted, min(widest, 3 * limits.stdout + MAX_DEFAULT_BYTES))
