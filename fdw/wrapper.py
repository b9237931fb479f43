"""A table of chunks for Python: the options of a camera and a table in, rows out, with no policy between.

It speaks the interface of Multicorn2's wrappers (execute, get_rel_size, explain and the hooks of a transaction), so that Multicorn2 can
host it, and `privid try` runs on it. It shows raw rows. It is therefore for an analyst's own video, or for a host that enforces a policy
of its own; in a stack the C library and the engine do this work, and nothing but releases leaves them.
"""

from __future__ import annotations

import errno
import hashlib
import operator
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from privid.engine.definitions import Sources, make_table
from privid.engine.programs import describe
from privid.errors import ExecutableInvalid, InvalidValue, VideoUnreadable
from privid.model import Executable, Footage
from privid.quantities import parse_number, parse_timestamp, show_duration
from privid.sandbox.executable import Kind, classify, install
from privid.sandbox.lane import SETUP, Lane, Program
from privid.sandbox.rows import Row, default_row, read_rows
from privid.sandbox.run import Outcome, RunResult
from privid.sandbox.runtime import find_runtime
from privid.video import Decoder, make_grid, open_footage
from privid.video.chunking import moment

__all__ = ["ChunkRun", "ChunkTable", "ColumnLike", "QualLike", "probe"]

#: no stack has as many lanes, so a table here shares an operating-system user with none of them
_LANE = 999
_SCRATCH = "/dev/shm"

#: bytes of an attached file
_LONGEST = 1 << 28
_SERVER = frozenset({"source", "starts", "fps", "warm"})
_TABLE = frozenset({"executable", "begin", "end", "chunk", "stride", "timeout", "max_rows", "pad", "runtime"})
_OWN = frozenset({"videos", "executables", "camera", "files"})
#: what a policy needs and raw rows do not; accepted so that a camera's options can be handed over as they are
_POLICY = frozenset({"rho", "k", "epsilon", "quantum"})

_TYPES = {"double precision": "float8", "bool": "boolean", "timestamp with time zone": "timestamptz"}
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


class ColumnLike(Protocol):
    """What is asked of Multicorn2's ColumnDefinition: the type's name, and an option "default" for each column that a program fills;
    low, high and keys as in a stack."""

    @property
    def type_name(self) -> str: ...

    @property
    def options(self) -> Mapping[str, str] | None: ...


class QualLike(Protocol):
    """What is asked of Multicorn2's Qual: column, operator (a pair of operator and "any of them" when the value is a list), value."""

    @property
    def field_name(self) -> str: ...

    @property
    def operator(self) -> str | tuple[str, bool]: ...

    @property
    def value(self) -> Any: ...


@dataclass(frozen=True)
class ChunkRun:
    """What a program did with one chunk: for debugging, and the stuff that rows are made of."""

    chunk: int
    begins: datetime
    result: RunResult
    why_cold: str | None = None  # None: it was started warm

    @property
    def well(self) -> bool:
        return self.result.outcome is Outcome.OK


class ChunkTable:
    """One table. Each scan has a sandbox of its own, which is gone when the scan is over or given up."""

    def __init__(self, options: Mapping[str, str], columns: Mapping[str, ColumnLike], footage: Footage | None = None) -> None:
        """`footage` is what `source` was found to be before, by probe()."""
        _check_names(options)
        self._root = Path(_needed(options, "videos"))
        self._programs = Path(_needed(options, "executables"))
        self._known: dict[tuple[str, Fraction | None], Footage] = {}
        if footage is not None:
            self._known[_needed(options, "source"), None] = footage
        names = [name.strip() for name in options.get("files", "").split(",")]
        self._attached = {Path(name).name: self._content(name, "file") for name in names if name}
        name = _needed(options, "executable")
        self._program = self._content(name, "executable")
        self.kind: Kind = classify(self._program, name)  # the quickest refusal first
        executable = Executable(name, hashlib.sha256(self._program).hexdigest(), self._program[:4], len(self._program))
        self.table = make_table(self._definition(options, columns), 0, Sources(self._open, make_grid, lambda *_: executable))

    # The interface of Multicorn2's wrappers

    def execute(self, quals: Sequence[QualLike], columns: Iterable[str], sortkeys: object = None) -> Iterator[dict[str, Any]]:
        """The rows of the chunks that the conditions on chunk leave, one dict per row; other conditions are the caller's to check."""
        wanted = set(columns)
        for run in self.runs(quals):
            rows, failed = self.rows(run)
            for row in rows:
                found = dict(zip((c.name for c in self.table.untrusted), row, strict=True))
                system = {"chunk": run.begins, "region": "", "failed": failed}
                yield {name: value for name, value in (system | found).items() if name in wanted}

    def get_rel_size(self, quals: Sequence[QualLike], columns: Iterable[str]) -> tuple[int, int]:
        """Most rows that a scan can give, and about how many bytes a row takes."""
        widths = {c.name: 32 if c.type == "text" and not c.trusted else 8 for c in self.table.columns}
        return self._count(quals) * self.table.max_rows, sum(widths.get(name, 8) for name in columns)

    def explain(self, quals: Sequence[QualLike], columns: Iterable[str], sortkeys: object = None, verbose: bool = False) -> list[str]:
        """What a scan would do."""
        table, count = self.table, self._count(quals)
        seconds = count * (table.timeout + Fraction(str(SETUP)))
        lines = [f"Runs {self.kind.value} {table.executable.name} over {count} of {table.grid.count} chunks, {show_duration(seconds)}",
                 "Shows raw rows, outside any policy"]
        if verbose:
            lines += [f"Chunks of {table.grid.size} frames every {table.grid.step}, at most {table.max_rows} rows each",
                      f"Files: {', '.join(file.path for file in table.camera.footage.files)}"]
        return lines

    def get_path_keys(self) -> list[tuple[tuple[str, ...], int]]:
        return [(("chunk",), self.table.max_rows)]

    def can_sort(self, sortkeys: object) -> list[object]:
        return []

    def begin(self, serializable: object) -> None:
        """A scan belongs to no transaction."""

    pre_commit = commit = rollback = end_scan = lambda self: None

    # Beneath it

    def runs(self, quals: Sequence[QualLike] = (), first: int | None = None, early: bool = False) -> Iterator[ChunkRun]:
        """Decode, sandbox, collect: chunk after chunk, each in a slot of the table's timeout, or with `early` of what its run needs."""
        table = self.table
        chunks = list(islice(self._chunks(quals), first))
        with tempfile.TemporaryDirectory(prefix="privid-table-", dir=_SCRATCH) as scratch_name:
            scratch = Path(scratch_name)
            runtime = find_runtime(table.runtime)
            with Lane(_LANE, runtime=runtime, scratch=scratch, measure=True) as lane, Decoder(self._root, table.camera.footage) as decoder:
                program = self._install(scratch)
                lane.announce(program, len(chunks))
                for chunk in chunks:
                    folder = scratch / f"chunk-{chunk}"
                    folder.mkdir(mode=0o755)
                    decoder.read(table.grid.frames(chunk)[0], table.grid.size, folder)
                    describe(table, chunk, 0, folder)
                    while not lane.ready(program):
                        time.sleep(0.005)
                    result = lane.run_soon(program, folder, float(table.timeout), early=early)
                    yield ChunkRun(chunk, self.begins(chunk), result, None if result.warm else lane.why_cold(program))
                    shutil.rmtree(folder)

    def _install(self, scratch: Path) -> Program:
        """The program and its attached files, where the lane can read them."""
        path, files = scratch / "program", scratch / "files"
        install(self._program, self.table.executable.name, path)
        if self._attached:
            files.mkdir(mode=0o755)
            for name, content in self._attached.items():
                (files / name).write_bytes(content)
                (files / name).chmod(0o444)
        return Program(path, self.kind, self.table.runtime, files if self._attached else None, self.table.warm)

    def rows(self, run: ChunkRun) -> tuple[list[Row], bool]:
        """The rows of a run as a table of a stack has them, and whether it failed: declared types, defaults for what went wrong, padded if
        asked for."""
        columns = self.table.untrusted
        rows, failed = read_rows(run.result.stdout, columns, self.table.max_rows) if run.well else ([default_row(columns)], True)
        return rows + [default_row(columns)] * (self.table.max_rows - len(rows)) if self.table.pad else rows, failed

    def begins(self, chunk: int) -> datetime:
        """When a chunk was filmed."""
        return self.table.camera.moment(self.table.grid.frames(chunk)[0])

    def _chunks(self, quals: Sequence[QualLike]) -> Iterator[int]:
        tests = [test for qual in quals if qual.field_name == "chunk" and (test := _test(qual)) is not None]
        return (chunk for chunk in range(self.table.grid.count) if all(test(self.begins(chunk)) for test in tests))

    def _count(self, quals: Sequence[QualLike]) -> int:
        return sum(1 for _ in self._chunks(quals))

    # Definitions

    def _definition(self, options: Mapping[str, str], columns: Mapping[str, ColumnLike]) -> dict[str, Any]:
        """As the C library would describe the table to the engine (docs/protocol.md), so that the same code reads both."""
        server = {name: options[name] for name in _SERVER if name in options} | {"rho": "0s", "k": "0", "epsilon": "1"}
        table = {name: options[name] for name in _TABLE if name in options}
        if not {"begin", "end"} <= table.keys():
            starts, stops = self._extent(options)
            table = {"begin": starts.isoformat(), "end": stops.isoformat()} | table
        return {"name": "table", "owner": "", "options": table,
                "server": {"name": options.get("camera", options.get("source", "")), "owner": "", "options": server},
                "columns": [_column(name, column, place) for place, (name, column) in enumerate(columns.items(), 1)]}

    def _extent(self, options: Mapping[str, str]) -> tuple[datetime, datetime]:
        """The whole recording is the window where none is given."""
        footage = self._open(_needed(options, "source"), parse_number(options["fps"], "fps") if "fps" in options else None)
        starts = parse_timestamp(_needed(options, "starts"), "starts")
        return starts, moment(starts, footage.fps, footage.frames)

    def _open(self, source: str, fps: Fraction | None) -> Footage:
        if (source, fps) not in self._known:
            self._known[source, fps] = probe(self._root, source, fps)
        return self._known[source, fps]

    def _content(self, name: str, kind: str) -> bytes:
        """A file below the directory of executables, and nowhere else."""
        file = (self._programs / name).resolve()
        if not file.is_relative_to(self._programs.resolve()):
            raise ExecutableInvalid(f'{kind} "{name}" is outside the directory of executables')
        try:
            return _read(file)
        except OSError as error:
            raise ExecutableInvalid(f'could not read {kind} "{name}": {error.strerror}',
                                    hint='It is a file below the directory that the option "executables" names.') from None


def _read(path: Path) -> bytes:
    """A file that has an end: no device, no pipe, and nothing that is longer than what can be uploaded."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC), "rb") as file:
        info = os.fstat(file.fileno())
        if not stat.S_ISREG(info.st_mode) or info.st_size > _LONGEST:
            raise OSError(errno.EINVAL, f"it is no regular file of at most {_LONGEST} bytes")
        return file.read(_LONGEST)


def probe(root: Path, source: str, fps: Fraction | None = None) -> Footage:
    """What the files of a source are."""
    if not root.is_dir():
        raise VideoUnreadable(f'video root "{root}" does not exist', hint='Set the option "videos" to a directory.')
    with tempfile.TemporaryDirectory(prefix="privid-probe-") as cache:
        return open_footage(root, source, fps, Path(cache))


def _check_names(options: Mapping[str, str]) -> None:
    """A typing error must not pass for an option that is left out."""
    allowed = _SERVER | _TABLE | _OWN | _POLICY | {"wrapper"}  # the last is how Multicorn2 itself is told of this class
    for name in options:
        if name in ("mask", "regions"):
            raise InvalidValue(f'option "{name}" is not supported here', hint="Masks and regions belong to a stack.")
        if name not in allowed:
            raise InvalidValue(f'invalid option "{name}"', hint=f"Options are: {', '.join(sorted(allowed - _POLICY - {'wrapper'}))}.")


def _needed(options: Mapping[str, str], name: str) -> str:
    try:
        return options[name]
    except KeyError:
        raise InvalidValue(f'option "{name}" is missing') from None


def _column(name: str, column: ColumnLike, place: int) -> dict[str, Any]:
    kind, options = _TYPES.get(column.type_name, column.type_name), dict(column.options or {})
    return {"name": name, "attno": place, "type": kind, "default": options.pop("default", None), "options": options}


def _test(qual: QualLike) -> Callable[[datetime], bool] | None:
    """A condition on a chunk's time, or None for one that only the caller can decide."""
    name, several = (qual.operator, None) if isinstance(qual.operator, str) else qual.operator
    compare = _COMPARISONS.get(name)
    values = [qual.value] if several is None else qual.value
    if compare is None or not isinstance(values, list | tuple) or not all(isinstance(v, datetime) and v.tzinfo for v in values):
        return None
    combine = any if several else all
    return lambda moment: combine(compare(moment, value) for value in values)
