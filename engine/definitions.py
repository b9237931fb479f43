"""Definitions as the catalog has them, made into cameras and tables; every mistake is named with its option or column.

The same code serves a release and the check at CREATE SERVER and CREATE FOREIGN TABLE, so that what one accepts the other does.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any, Protocol

from privid.errors import ExecutableInvalid, InvalidValue, SandboxFailed
from privid.model import SYSTEM_COLUMNS, Camera, Column, Executable, Footage, Grid, Mask, Regions, Table
from privid.quantities import parse_duration, parse_number, parse_timestamp, show_duration
from privid.sandbox.lane import MIN_SLOT
from privid.sandbox.runtime import DEFAULT_RUNTIME, EMPTY_RUNTIME, RUNTIMES, find_runtime
from privid.video.shapes import mask_pixels, share_pixels

from .domains import check_sizes, with_options
from .rows import row_width
from .wire import Malformed

__all__ = ["MAX_CHUNK_BYTES", "MAX_DEFAULT_BYTES", "MAX_ROWS", "SceneFinder", "Sources", "make_camera", "make_table"]

#: One chunk's rows travel in one message and are held in memory by engine and backend. A program that prints empty rows gets
#: defaults, so the size of a full block of defaults is bounded too, padded or not.
MAX_ROWS = 100_000
MAX_DEFAULT_BYTES = 8 * 1024**2
#: A few decoded chunks wait in memory at a time.
MAX_CHUNK_BYTES = 2 * 1024**3
#: A slot is reserved whole, whatever the program does; a day-long one would block a lane for a typing mistake.
MIN_TIMEOUT, MAX_TIMEOUT = Fraction(str(MIN_SLOT)), Fraction(3600)
MAX_TEXT_DEFAULT = 1024

#: of a table
MAX_COLUMNS = 100
_QUANTUM_BOUNDS = (Fraction(1, 1000), Fraction(10))


class SceneFinder(Protocol):
    """Finds what owners offer, by camera and name."""

    def mask(self, camera: str, name: str) -> Mask: ...

    def regions(self, camera: str, name: str) -> Regions: ...


class Sources:
    """What definitions refer to outside the catalog."""

    def __init__(self, open_footage: Callable[[str, Fraction | None], Footage],
                 make_grid: Callable[..., Grid],
                 find_executable: Callable[[str, str], Executable], scenes: SceneFinder | None = None,
                 check_folder: Callable[[str, str, str], None] = lambda camera, owner, source: None) -> None:
        self.open_footage = open_footage
        self.make_grid = make_grid
        self.find_executable = find_executable
        self.scenes = scenes
        #: refuses a camera, by its name and owner, to show a source that lies in no folder of the owner
        self.check_folder = check_folder

    def at_once(self) -> Sources:
        """The same for one request, which looks at each video and each executable once: all its tables see the same."""
        return Sources(cache(self.open_footage), self.make_grid, cache(self.find_executable), self.scenes, self.check_folder)


def make_camera(server: dict[str, Any], sources: Sources, *, restoring: bool = False) -> Camera:
    """A foreign server's camera; opens its footage, where the owner may. A dump brings folders after cameras."""
    name, owner = _text(server, "name"), _text(server, "owner")
    options = _Options(server, f'server "{name}"')
    source = options.required("source")
    starts = parse_timestamp(options.required("starts"), "starts")
    rho = parse_duration(options.required("rho"), "rho")
    if rho < 0:
        raise InvalidValue(f'option "rho" must not be negative, but is {options.required("rho")}',
                           hint="Write the longest time that a protected event is visible, for example 30s.")
    k = _whole(options.required("k"), "k", 0, 1_000_000)
    epsilon = parse_number(options.required("epsilon"), "epsilon")
    if epsilon <= 0:
        raise InvalidValue(f'option "epsilon" must be positive, but is {options.required("epsilon")}',
                           hint="It is the budget of every frame, for example 1.")
    quantum = parse_duration(options.get("quantum", "100ms"), "quantum")
    if not _QUANTUM_BOUNDS[0] <= quantum <= _QUANTUM_BOUNDS[1]:
        raise InvalidValue(f'option "quantum" must be between 1ms and 10s, but is {options.get("quantum", "")}')
    visibility = options.get("visibility", "open")
    if visibility not in ("open", "own"):
        raise InvalidValue(f'invalid value for option "visibility": "{visibility}"',
                           hint="Write open, or own if an analyst is to see nothing of what others did.")
    fps = None
    if options.has("fps"):
        fps = parse_number(options.required("fps"), "fps")
        if not 0 < fps <= 1000:
            raise InvalidValue(f'option "fps" must be above 0 and at most 1000, but is {options.required("fps")}')
    if not restoring:
        sources.check_folder(name, owner, source)
    return Camera(name=name, owner=owner, starts=starts, rho=rho, k=k, epsilon=epsilon, quantum=quantum,
                  footage=sources.open_footage(source, fps), visibility=visibility)


def make_table(table: dict[str, Any], index: int, sources: Sources, *, missing: Callable[[str], None] | None = None,
               restoring: bool = False) -> Table:
    """A foreign table. `missing` is told of an executable that is not uploaded yet; without it that is an error. While a dump is being
    restored it is told of masks and regions too, since they come after the tables."""
    name, owner = _text(table, "name"), _text(table, "owner")
    options = _Options(table, f'foreign table "{name}"')
    timeout = parse_duration(options.required("timeout"), "timeout")
    if not MIN_TIMEOUT <= timeout <= MAX_TIMEOUT:
        raise InvalidValue(f'option "timeout" must be between {show_duration(MIN_TIMEOUT)} and 1h, but is {options.required("timeout")}',
                           hint="It is the time that a program may take for one chunk.")
    max_rows = _whole(options.required("max_rows"), "max_rows", 1, MAX_ROWS)
    pad = _boolean(options.get("pad", "off"), "pad")
    begin = parse_timestamp(options.required("begin"), "begin")
    end = parse_timestamp(options.required("end"), "end")
    chunk = parse_duration(options.required("chunk"), "chunk")
    stride = parse_duration(options.get("stride", "0s"), "stride")
    wanted = options.required("executable")
    columns = make_columns(table, name)
    width = sum(row_width(column, 0) for column in columns if column.printed)
    if width * max_rows > MAX_DEFAULT_BYTES:
        raise InvalidValue(f'option "max_rows" would allow {width * max_rows} bytes of default rows per chunk, '
                           f"but the limit is {MAX_DEFAULT_BYTES}", hint='Lower "max_rows", or shorten the defaults.')
    server = table.get("server")
    if not isinstance(server, dict):
        raise Malformed("table without a server")
    camera = make_camera(server, sources, restoring=restoring)
    mask, regions = _view(options, camera, sources, missing if restoring else None)
    grid = sources.make_grid(camera.starts, camera.footage, begin, end, chunk, stride)
    size = grid.size * camera.footage.width * camera.footage.height * 3
    if size > MAX_CHUNK_BYTES:
        fitting = MAX_CHUNK_BYTES // (camera.footage.width * camera.footage.height * 3)
        raise InvalidValue(f'option "chunk" makes chunks of {grid.size} frames, but at most {fitting} fit into memory',
                           hint="Choose a shorter chunk.")
    try:
        executable = sources.find_executable(owner, wanted)
    except ExecutableInvalid as error:
        if missing is None:
            raise
        missing(f"{error.message}; upload it before the first query")
        executable = Executable(wanted, "", b"")
    return Table(index=index, name=name, owner=owner, camera=camera, grid=grid, columns=columns, executable=executable,
                 timeout=timeout, max_rows=max_rows, pad=pad, runtime=_runtime(options, executable), warm=_warm(server),
                 mask=mask, regions=regions)


def _view(options: _Options, camera: Camera, sources: Sources,
          missing: Callable[[str], None] | None) -> tuple[Mask | None, Regions | None]:
    """What of the picture the table shows to its program."""
    scenes, size = sources.scenes, (camera.footage.width, camera.footage.height)
    if scenes is None:
        for name in ("mask", "regions"):
            if options.has(name):
                raise InvalidValue(f'option "{name}" is not supported here', hint="Masks and regions belong to a stack.")
        return None, None
    try:
        mask = scenes.mask(camera.name, options.required("mask")) if options.has("mask") else None
        regions = scenes.regions(camera.name, options.required("regions")) if options.has("regions") else None
    except InvalidValue as error:
        if missing is None:
            raise
        missing(error.message)
        return None, None
    if mask is not None:
        mask_pixels(mask, *size)  # refuses a bitmap of another size
    if regions is not None:
        regions = replace(regions, apart=not share_pixels(regions, *size))
    return mask, regions


def _runtime(options: _Options, executable: Executable) -> str:
    """The runtime that a table asks for, which must have been built."""
    name = options.get("runtime", DEFAULT_RUNTIME)
    if name not in RUNTIMES:
        raise InvalidValue(f'invalid value for option "runtime": "{name}"', hint=f"Runtimes are: {', '.join(RUNTIMES)}.")
    try:
        find_runtime(name)
    except SandboxFailed:
        raise InvalidValue(f'runtime "{name}" is not offered here',
                           hint=f"The operator can build it: python -m privid.sandbox.runtime {name}.") from None
    if name == EMPTY_RUNTIME and executable.head and not executable.head.startswith(b"\x7fELF"):
        raise ExecutableInvalid(f'executable "{executable.name}" needs an interpreter, but runtime "{name}" has none',
                                hint="Upload a compiled program, or use another runtime.")
    return name


def _warm(server: dict[str, Any]) -> bool:
    return _boolean(_Options(server, "").get("warm", "on"), "warm")


def make_columns(table: dict[str, Any], name: str) -> tuple[Column, ...]:
    """The declared columns, in attno order."""
    given = table.get("columns")
    if not isinstance(given, list):
        raise Malformed("table without columns")
    if len(given) > MAX_COLUMNS:
        raise InvalidValue(f'foreign table "{name}" has {len(given)} columns, but the limit is {MAX_COLUMNS}',
                           hint="Let the program write several values as one text, or make a table for each part of them.")
    columns = tuple(sorted((_column(column, name) for column in given), key=lambda column: column.attno))
    if len({column.attno for column in columns}) < len(columns):
        raise Malformed("columns with the same number")
    check_sizes(columns, name)
    return columns


def _column(given: Any, table: str) -> Column:
    column = _declared(given, table)
    return with_options(column, _Options({"options": given.get("options", {})}, "").all, table)


def _declared(given: Any, table: str) -> Column:
    """Its name, type and default."""
    if not isinstance(given, dict) or not isinstance(given.get("attno"), int):
        raise Malformed("column without a number")
    name, kind = _text(given, "name"), _text(given, "type")
    attno: int = given["attno"]
    filled = SYSTEM_COLUMNS.get(name)
    if filled is not None:
        if kind != filled:
            raise InvalidValue(f'column "{name}" of foreign table "{table}" must have type {filled}, but has type {kind}',
                               hint="It is filled by the system. Declare it with that type, or give the program's column another name.")
        if name == "failed":
            return _failed(given, attno, table)
        return Column(name, attno, kind, kind, True, None)
    if kind not in ("text", "float8", "boolean", "enum"):
        raise InvalidValue(f'column "{name}" of foreign table "{table}" has type {kind}, which a program cannot fill',
                           hint="Use text, double precision, boolean or an enum type. Times can be computed from the column chunk.")
    labels: tuple[str, ...] | None = None
    if kind == "enum":
        if not isinstance(given.get("labels"), list) or not all(isinstance(label, str) for label in given["labels"]):
            raise Malformed("enum without labels")
        labels = tuple(given["labels"])
    type_name = given.get("type_name")
    return Column(name, attno, kind, type_name if isinstance(type_name, str) else kind, False,
                  _default(given, name, kind, labels, table), labels)


def _failed(given: dict[str, Any], attno: int, table: str) -> Column:
    """A default would say that a program fills it, which was possible once: whoever means that is told."""
    if given.get("default") is not None or given.get("default_error") is not None:
        raise InvalidValue(f'column "failed" of foreign table "{table}" cannot have a default',
                           detail="It is filled by the system: true for the rows of a chunk whose run failed, else false.",
                           hint="Drop the default, or give the program's column another name.")
    return Column("failed", attno, "boolean", "boolean", False, None, tells_failure=True)


def _default(given: dict[str, Any], name: str, kind: str, labels: tuple[str, ...] | None, table: str) -> str | float | bool:
    where = f'column "{name}" of foreign table "{table}"'
    example = {"float8": "DEFAULT 0", "boolean": "DEFAULT false"}.get(kind, "DEFAULT ''")
    if labels:
        example = "DEFAULT '" + labels[0].replace("'", "''") + "'"
    if given.get("default_error") is not None:
        raise InvalidValue(f"default of {where} is not a constant",
                           hint=f"The default is the value of a chunk whose program failed. Write a constant, for example {example}.")
    text = given.get("default")
    if not isinstance(text, str):
        raise InvalidValue(f"{where} has no default",
                           hint=f"The default is the value of a chunk whose program failed. Add one, for example {example}.")
    if kind == "boolean":
        return _boolean(text, name)
    if kind == "float8":
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise InvalidValue(f"default of {where} must be a finite number", hint=f"Write for example {example}.")
        return number
    if labels is not None and text not in labels:
        raise InvalidValue(f"default of {where} is not a label of its type")
    if len(text.encode()) > MAX_TEXT_DEFAULT:
        raise InvalidValue(f"default of {where} has {len(text.encode())} bytes, but the limit is {MAX_TEXT_DEFAULT}")
    return text


class _Options:
    """Options of a server or a table, by name."""

    def __init__(self, holder: dict[str, Any], where: str) -> None:
        options = holder.get("options")
        if not isinstance(options, dict) or not all(isinstance(value, str) for value in options.values()):
            raise Malformed("options are not text")
        self._options: dict[str, str] = options
        self._where = where

    @property
    def all(self) -> dict[str, str]:
        return self._options

    def has(self, name: str) -> bool:
        return name in self._options

    def get(self, name: str, default: str) -> str:
        return self._options.get(name, default)

    def required(self, name: str) -> str:
        try:
            return self._options[name]
        except KeyError:
            shown = '"end"' if name == "end" else name
            raise InvalidValue(f'option "{name}" of {self._where} is missing',
                               hint=f"Add it: OPTIONS ({shown} '...').") from None


def _text(holder: dict[str, Any], name: str) -> str:
    value = holder.get(name)
    if not isinstance(value, str):
        raise Malformed("a name is not text")
    return value


def _whole(text: str, option: str, low: int, high: int) -> int:
    if not re.fullmatch(r"\s*[0-9]{1,9}\s*", text) or not low <= int(text) <= high:
        raise InvalidValue(f'option "{option}" must be a whole number between {low} and {high}, but is "{text}"')
    return int(text)


def _boolean(text: str, name: str) -> bool:
    # PostgreSQL's own spellings, written out
    word = text.strip().lower()
    if word in ("on", "true", "yes", "1", "t", "y"):
        return True
    if word in ("off", "false", "no", "0", "f", "n"):
        return False
    raise InvalidValue(f'invalid value for "{name}": "{text}"', hint="Write on or off.")
