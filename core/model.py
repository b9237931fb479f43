"""The nouns that the rooms share: footage, camera, chunk grid, table, plan."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

from .pieces import Pieces
from .quantities import to_pg_microseconds

__all__ = ["SYSTEM_COLUMNS", "Camera", "Cells", "Collect", "Collected", "Column", "Cost", "Evaluate", "Executable", "Footage", "Grid",
           "Key", "Mask", "Mechanism", "Output", "Plan", "Polygon", "PublicRows", "Quantile", "Region", "Regions", "Run", "SetWise", "Span",
           "Spread", "Table", "TableUse", "VideoFile", "union"]

#: half-open run of frames or chunks: first, one past the last
Span = tuple[int, int]
#: one group of a release: the text form of each group column, None for NULL
Key = tuple[str | None, ...]
#: neighbouring chunks that have the same values: the first, one past the last, the values
Run = tuple[int, int, Key]
#: more chunks that lie apart are not told apart: to say that more was read is always safe
_APART = 10_000
#: corners in pixels from the upper left corner of the picture
Polygon = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class VideoFile:
    """One file of a camera: where it is, what it is, and where its frames stand on the camera's timeline."""

    path: str  # relative to the video root
    sha256: str
    first_frame: int
    frames: int


@dataclass(frozen=True)
class Footage:
    """All files of a camera, end to end, at one constant frame rate."""

    files: tuple[VideoFile, ...]
    fps: Fraction
    width: int
    height: int

    @property
    def frames(self) -> int:
        return sum(f.frames for f in self.files)


@dataclass(frozen=True)
class Camera:
    """A foreign server: footage and the owner's policy."""

    name: str
    owner: str
    starts: datetime  # of frame 0
    rho: Fraction  # seconds
    k: int
    epsilon: Fraction
    quantum: Fraction  # seconds; answers leave at multiples of it after the last slot
    footage: Footage
    visibility: str = "open"  # or own: an analyst sees nothing of what others did

    @property
    def r(self) -> int:
        """Frames of the longest protected segment; 0 when nothing is protected. Rounded up: part of a frame shows in a whole one."""
        return 0 if self.k == 0 else math.ceil(self.rho * self.footage.fps)

    def moment(self, frame: int) -> datetime:
        """When a frame was filmed, to the microsecond."""
        return self.starts + timedelta(microseconds=round(frame * 1_000_000 / self.footage.fps))


@dataclass(frozen=True)
class Mask:
    """What is blacked out, and what the owner promises of the rest."""

    name: str
    rho: Fraction  # seconds: the longest that one visible piece of an appearance lasts
    pieces: int  # in which one appearance is visible at most
    shapes: tuple[Polygon, ...] = ()
    bitmap: bytes | None = field(default=None, repr=False)  # PBM (P4): black is blacked out
    visible: Fraction | None = None  # seconds that all pieces of an appearance last together; None: nothing is promised of it


@dataclass(frozen=True)
class Region:
    """A part of the picture with a name."""

    name: str
    shape: Polygon


@dataclass(frozen=True)
class Cells:
    """Cells of a regular grid, and what the owner promises of whatever is protected: its largest size and speed."""

    cell: tuple[int, int]  # width and height of a cell, in pixels
    size: tuple[int, int]  # columns and rows of pixels in which one event is visible within one frame, at most
    speed: Fraction  # pixels a second by which it moves at most, along either axis, visible or not

    def met(self, frames: int, fps: Fraction, columns: int, rows: int) -> int:
        """In how many cells of a grid one event is visible within so many frames, at most (proof: calculus/rules/regions.md).

        >>> [Cells((100, 100), (20, 40), Fraction(50)).met(frames, Fraction(10), 8, 3) for frames in (1, 11, 41)]
        [4, 4, 12]
        """
        moved = math.ceil(self.speed * (frames - 1) / fps)
        across, down = (-(-(size + moved + cell - 1) // cell) for size, cell in zip(self.size, self.cell, strict=True))
        return min(across, columns) * min(down, rows)

    def extent(self, parts: Sequence[Region]) -> tuple[int, int] | None:
        """Columns and rows in which regions lie, each in a cell of its own; None if some do not."""
        found = {cell for part in parts if (cell := self._cell(part.shape)) is not None}
        return (len({x for x, _ in found}), len({y for _, y in found})) if len(found) == len(parts) else None

    def _cell(self, shape: Polygon) -> tuple[int, int] | None:
        """The cell in which a shape lies."""
        places = []
        for axis, pitch in enumerate(self.cell):
            along = [corner[axis] for corner in shape]
            first = math.floor(min(along) / pitch)
            if max(along) > (first + 1) * pitch:
                return None
            places.append(first)
        return places[0], places[1]


@dataclass(frozen=True)
class Regions:
    """How pictures are cut, and what the owner promises of the borders."""

    name: str
    boundary: str  # hard: an event never leaves its region; soft: it may
    straddle: int  # the most regions in which one event is visible within one frame
    parts: tuple[Region, ...]
    apart: bool = True  # no pixel belongs to two of them: otherwise the owner's promises cannot be meant so
    #: as a mask's, of what is visible of one appearance in one region; None: nothing is promised of it
    rho: Fraction | None = None
    pieces: int = 1
    visible: Fraction | None = None
    #: they are cells of a grid, of which more is promised
    cells: Cells | None = None


@dataclass(frozen=True)
class Grid:
    """The chunks of a table: chunk j reads frames [first + j*step, first + j*step + size)."""

    first: int
    count: int
    size: int
    step: int

    def frames(self, chunk: int) -> Span:
        start = self.first + chunk * self.step
        return start, start + self.size

    def span_frames(self, chunks: Span) -> Span:
        """Frames from the first frame of the first chunk to the last of the last (chunks must not be empty)."""
        return self.frames(chunks[0])[0], self.frames(chunks[1] - 1)[1]


#: columns that the system fills where they are declared, with their types
SYSTEM_COLUMNS = {"chunk": "timestamptz", "region": "text", "failed": "boolean"}


@dataclass(frozen=True)
class Column:
    """A declared column. Three kinds: chunk and region are trusted: filled by the system, and public. The column failed is filled by the
    system too, but says how a run ended, which depends on the video: it is as private as what programs print. All others are printed."""

    name: str
    attno: int
    type: str  # timestamptz, text, float8, boolean, enum
    type_name: str  # as PostgreSQL spells it, schema-qualified for enums
    trusted: bool
    default: str | float | bool | None  # None only for columns that the system fills
    labels: tuple[str, ...] | None = None  # of an enum
    bounds: tuple[Fraction, Fraction] | None = None  # options low and high: a number is put between them, on the grid that range has
    keys: tuple[str, ...] | None = None  # option keys: a text is one of these
    tells_failure: bool = False  # filled by the system: whether the run of its chunk failed

    @property
    def printed(self) -> bool:
        """Filled by the program."""
        return not self.trusted and not self.tells_failure

    @property
    def domain(self) -> tuple[str | tuple[str, ...], ...]:
        """What its options leave of its type, in plain values: equal domains, equal values. Empty without options."""
        return (*map(str, self.bounds or ()), *([self.keys] if self.keys is not None else []))


@dataclass(frozen=True)
class Executable:
    """An analyst's file, by content, which is read where it is needed."""

    name: str
    sha256: str
    head: bytes = field(repr=False)  # what it begins with
    size: int = 0
    files: tuple[tuple[str, str], ...] = ()  # attached ones: name and SHA-256 of each; sha256 above then covers them too
    sizes: tuple[int, ...] = ()  # bytes of each
    own: str = ""  # the SHA-256 of the file alone, where there are others

    @property
    def digest(self) -> str:
        return self.own or self.sha256


@dataclass(frozen=True)
class Table:
    """A foreign table: SPLIT and PROCESS of one camera."""

    index: int  # its place in the request's "tables"
    name: str
    owner: str
    camera: Camera
    grid: Grid
    columns: tuple[Column, ...]  # in attno order, dropped ones left out
    executable: Executable
    timeout: Fraction  # seconds; the length of a slot
    max_rows: int
    pad: bool
    runtime: str = "python"  # what the program finds to import
    warm: bool = True  # the owner allows warm starts
    mask: Mask | None = None
    regions: Regions | None = None
    kept_for: str = ""  # the role whose runs are kept apart from those of others, where the camera's visibility is own

    @property
    def visible(self) -> Pieces:
        """What is visible of one appearance in the picture, or behind the mask."""
        whole, mask = self.camera.r, self.mask
        if mask is None:
            return Pieces.whole(whole)
        return Pieces.of_seconds(mask.rho, mask.pieces, mask.visible, self.camera.footage.fps, whole)

    @property
    def visible_in_region(self) -> Pieces | None:
        """What is visible of one appearance in one region, where the owner promises something of it."""
        cut, whole = self.regions, self.camera.r
        if cut is None or cut.rho is None:
            return None
        return Pieces.of_seconds(cut.rho, cut.pieces, cut.visible, self.camera.footage.fps, whole)

    @property
    def r(self) -> int:
        """Frames of the longest visible piece of an appearance, which is no longer; 0 when nothing protected is visible."""
        own = self.visible_in_region
        return self.visible.r if own is None or own.r else 0

    @property
    def pieces(self) -> int:
        """In how many pieces one appearance is visible."""
        return 1 if self.mask is None else self.mask.pieces

    @property
    def region_names(self) -> tuple[str, ...]:
        """What the trusted column region says; a table without regions has one, the whole picture, without a name."""
        return ("",) if self.regions is None else tuple(part.name for part in self.regions.parts)

    def chunk_microseconds(self, chunk: int) -> int:
        """The trusted column chunk: PostgreSQL's microseconds of the chunk's first frame."""
        return to_pg_microseconds(self.camera.moment(self.grid.frames(chunk)[0]))

    @property
    def untrusted(self) -> tuple[Column, ...]:
        """The columns that the program fills."""
        return tuple(c for c in self.columns if c.printed)


class Evaluate(Protocol):
    """Evaluates SQL expressions over the trusted columns of some chunks, by PostgreSQL itself: one row of text values per chunk. In an
    expression the columns are "chunk" and "region"."""

    def __call__(self, expressions: Sequence[str], table: Table, span: Span, region: str = "", /) -> list[Key]: ...


@runtime_checkable
class SetWise(Evaluate, Protocol):
    """An evaluator that tells of many chunks at once, without a row for each of them. Spans are disjoint and ascend."""

    solved: dict[Any, Any]  # what has been found out for this request, to be looked up again

    def at(self, expressions: Sequence[str], table: Table, chunks: Sequence[int], region: str = "", /) -> list[Key]:
        """The values at some chunks, in the order given."""

    def runs(self, expressions: Sequence[str], table: Table, spans: Sequence[Span], region: str = "", /) -> Iterator[Run]:
        """Every chunk of the spans, neighbours of equal values together; PostgreSQL evaluates each."""

    def together(self) -> AbstractContextManager[None]:
        """What is asked in the block is asked in one go: quicker. After an error nothing more can be asked in it."""

    def steady(self, table: Table, spans: Sequence[Span], zones: Collection[str | None], /) -> list[Span] | None:
        """The spans, cut so that within each the local time of these zones (None: the session's) is the moment shifted by a constant. None
        where that is not known."""


class PublicRows(Protocol):
    """Looks at rows that came with a statement, by PostgreSQL itself: text values, of columns with a type's name and an enum's labels."""

    def is_unique(self, columns: Sequence[tuple[str, Sequence[str] | None]], rows: Sequence[Key], places: Sequence[int]) -> bool:
        """Whether no two rows are equal in all of these columns (by place, from 0)."""

    def matching(self, columns: Sequence[tuple[str, Sequence[str] | None]], rows: Sequence[Key], condition: str) -> list[Key]:
        """The rows for which an expression over columns c1, c2, ... is true, in their order."""


@dataclass(frozen=True)
class TableUse:
    """Which chunks of a table a release runs, and in which regions each."""

    table: Table
    chunks: tuple[Span, ...]  # disjoint, ascending
    #: for each of the table's regions the chunks that run in it, of which `chunks` is the union; None: all of them in every region
    regions: tuple[tuple[Span, ...], ...] | None = None

    @classmethod
    def of(cls, table: Table, regions: Sequence[tuple[Span, ...]]) -> TableUse:
        """From the chunks of each region."""
        chunks = union(span for spans in regions for span in spans)
        return cls(table, chunks, None if all(spans == chunks for spans in regions) else tuple(regions))

    @property
    def by_region(self) -> tuple[tuple[Span, ...], ...]:
        """The chunks that run in each of the table's regions."""
        return self.regions if self.regions is not None else (self.chunks,) * len(self.table.region_names)

    @property
    def count(self) -> int:
        """Runs: a chunk counts once for each region in which it runs."""
        return sum(hi - lo for spans in self.by_region for lo, hi in spans)

    @property
    def shown(self) -> int:
        """Regions in which anything runs."""
        return sum(1 for spans in self.by_region if spans)

    def runs(self) -> list[tuple[int, int]]:
        """Chunk and region of each run, in order of time."""
        if len(self.by_region) == 1:
            return [(chunk, 0) for span in self.chunks for chunk in range(*span)]
        return sorted((chunk, region) for region, spans in enumerate(self.by_region) for span in spans for chunk in range(*span))

    def frame_spans(self) -> list[Span]:
        """Frames read, merged. Of very many chunks that lie apart, with the frames between those that follow each other."""
        spans: list[Span] = []
        grid = self.table.grid
        whole = grid.step <= grid.size or sum(hi - lo for lo, hi in self.chunks) > _APART
        for lo, hi in self.chunks:
            pieces = [grid.span_frames((lo, hi))] if whole else [grid.frames(j) for j in range(lo, hi)]
            for start, stop in pieces:
                if spans and start <= spans[-1][1]:
                    spans[-1] = (spans[-1][0], max(spans[-1][1], stop))
                else:
                    spans.append((start, stop))
        return spans


def union(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Runs that may overlap, as disjoint ascending ones."""
    merged: list[Span] = []
    for lo, hi in sorted(spans):
        if merged and lo <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], hi))
        else:
            merged.append((lo, hi))
    return tuple(merged)


class Collect(StrEnum):
    """What of an aggregate the inner query collects: the aggregate itself, or one of the numbers of which it is made."""

    VALUE = "value"
    SUM = "sum"
    COUNT = "count"
    SQUARES = "squares"
    BINS = "bins"  # how many values lie in each bin, as one number


@dataclass(frozen=True)
class Collected:
    """A column that the inner query collects for an aggregate (docs/protocol.md, `columns`)."""

    agg: int
    what: Collect = Collect.VALUE
    low: str | None = None  # with high: the argument is put through range(argument, low, high) first
    high: str | None = None
    #: of bins: where each but the first begins, and the decimal digits that the number of each has in the sum
    edges: tuple[str, ...] = ()
    digits: int = 0

    def as_message(self) -> dict[str, Any]:
        bounds = {} if self.low is None else {"low": self.low, "high": self.high}
        bins = {"edges": list(self.edges), "digits": self.digits} if self.what is Collect.BINS else {}
        return {"agg": self.agg, "as": self.what, **bounds, **bins}


@dataclass(frozen=True)
class Cost:
    """What a release costs one camera (calculus 7.5)."""

    camera: str
    sensitivity: Fraction  # what one of its segments may change, over all outputs in units of their noise: K times this is the loss
    epsilon: Fraction  # what its own segments lose, and so what it is debited: K times what they can change, over the noise scale


class Mechanism(StrEnum):
    """What is done to a value before it leaves."""

    EXACT = "exact"  # nothing: no segment can change it
    LAPLACE = "discrete Laplace"
    AVERAGE = "noisy average"
    VARIANCE = "noisy variance"
    PERMUTE = "permute and flip"
    QUANTILE = "permute and flip by rank"


class Spread(StrEnum):
    """Which measure of spread: of the sample or of the population, squared or its root."""

    VAR_POP = "var_pop"
    VAR_SAMP = "var_samp"
    STDDEV_POP = "stddev_pop"
    STDDEV_SAMP = "stddev_samp"

    @property
    def root(self) -> bool:
        return self in (Spread.STDDEV_POP, Spread.STDDEV_SAMP)

    @property
    def sample(self) -> bool:
        return self in (Spread.VAR_SAMP, Spread.STDDEV_SAMP)


@dataclass(frozen=True)
class Quantile:
    """Which quantile, and the public values of which one is its answer, as the column's type prints them."""

    fraction: Fraction
    candidates: tuple[str, ...]
    #: decimal digits that the number of values of each candidate has in what is collected
    digits: int


@dataclass(frozen=True)
class Output:
    """One released aggregate: what it may change by, and the noise that hides it."""

    label: str  # count(*), sum(v)
    type: str  # PostgreSQL's type of the column
    step: Fraction  # the grid on which value and noise live; 1 for counts
    sensitivity: Fraction  # of one segment, L1 over all keys
    scale: Fraction  # Laplace scale K * sensitivity / epsilon share; 0 = exact
    epsilon: Fraction  # its share of the release's epsilon
    error95: Fraction  # |noise| stays within this with probability 95 %
    mechanism: Mechanism = Mechanism.LAPLACE
    #: of no rows it is 0, and not NULL
    counts: bool = True
    #: some segment can change the rows that it is made of
    protected: bool = True
    #: places in the plan's columns: the value; or count and sum, or count, sum and squares. Empty: the output's own place
    collects: tuple[int, ...] = ()
    #: noise scales of what is collected, in that order, for an average or a variance
    scales: tuple[Fraction, ...] = ()
    #: the range of the argument of an average or a variance
    low: Fraction | None = None
    high: Fraction | None = None
    spread: Spread | None = None
    quantile: Quantile | None = None
    #: the value for each key of the plan, where it is public: nothing is collected for it
    public: tuple[str | None, ...] | None = None

    @property
    def parts(self) -> tuple[Fraction, ...]:
        """The noise scale of each number that is collected for it."""
        return () if self.public is not None else self.scales or (self.scale,)


@dataclass(frozen=True)
class Plan:
    """What the calculus found out about one release."""

    uses: tuple[TableUse, ...]
    outputs: tuple[Output, ...]  # one per aggregate
    keys: tuple[Key, ...]  # every group of the answer, in order; ((),) without GROUP BY
    epsilon: Fraction  # no camera loses more by it; 0 when nothing is protected
    mechanism: str  # "discrete Laplace" or "exact"
    canonical: str  # the release without names and positions that do not matter: equal text, equal release
    derivation: dict[str, Any]  # operator tree for EXPLAIN: {"rule", "bound", "inputs": [...]}
    hints: tuple[str, ...] = ()
    #: what the inner query collects, after the group columns; empty: each aggregate itself
    columns: tuple[Collected, ...] = ()
    #: argmax: the group columns in which candidates differ; the answer has the winner of each cell
    argmax: tuple[int, ...] | None = None
    #: by camera: what it is charged; one that is not here is charged `epsilon`
    costs: tuple[Cost, ...] = ()
    #: what a segment changes is in proportion to the chunks it meets (calculus §7.1, the exact rule); False is always safe
    linear: bool = False
    #: the aggregates have rows even if no chunk is read
    of_nothing: bool = False

    @property
    def computes(self) -> bool:
        """Whether anything must be computed for the answer."""
        return any(output.parts for output in self.outputs) and (self.of_nothing or any(use.count for use in self.uses))

    @property
    def protected(self) -> bool:
        """Whether something protected is visible in what is read."""
        return any(use.table.r for use in self.uses)

    @property
    def settled(self) -> bool:
        """Whether numbers are shown without noise although something is protected. No segment changes them: they are what they are whatever
        the video shows, and are computed from what is public."""
        return self.computes and self.protected and not all(all(output.parts) for output in self.outputs)

    @property
    def reads(self) -> bool:
        """Whether the answer depends on rows at all: otherwise nothing is read, and nothing charged."""
        return self.computes and (not self.protected or any(any(output.parts) for output in self.outputs))
