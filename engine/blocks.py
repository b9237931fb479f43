"""Rows of a table as a scan reads them: the kept blocks of its runs, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from privid.model import Column, TableUse

from .kept import Entry
from .rows import Padding, encode_columns, header, pick

__all__ = ["Blocks"]

#: blocks are gathered into messages of about this size
_MESSAGE = 1024 * 1024


@dataclass(frozen=True)
class Blocks:
    """One table's runs. Nothing but plain values: it travels to another process."""

    columns: tuple[Column, ...]  # that the program fills
    regions: tuple[bytes, ...]  # by number
    max_rows: int
    pad: bool
    places: Sequence[int]  # the region of each run
    moments: Sequence[int]  # the trusted column chunk, in PostgreSQL's microseconds
    addresses: Sequence[int | None]  # of its rows in the chunk cache; None: nothing was printed
    picks: tuple[int, ...] | None = None  # which of the kept columns are the table's; None: all

    @classmethod
    def of(cls, use: TableUse, runs: Sequence[tuple[int, int]], moments: Sequence[int], addresses: Sequence[int | None],
           picks: tuple[int, ...] | None = None) -> Blocks:
        table = use.table
        return cls(table.untrusted, tuple(name.encode() for name in table.region_names), table.max_rows, table.pad,
                   [region for _, region in runs], moments, addresses, picks)

    def bodies(self, kept: Callable[[int], Entry]) -> Iterator[bytes]:
        """Bodies of B messages; `kept` gives the rows at an address, waiting for them if need be."""
        gathered: list[bytes] = []
        size = 0
        padding = Padding(self.columns, self.max_rows) if self.pad else None
        nothing = Entry(0, encode_columns(self.columns, []))
        for region, moment, address in zip(self.places, self.moments, self.addresses, strict=True):
            rows, body, failed = nothing if address is None else kept(address)
            if self.picks is not None and address is not None:
                body = pick(body, self.picks)
            if padding is not None and rows < self.max_rows:
                rows, body = self.max_rows, padding.fill(body, rows)
            if rows == 0:
                continue
            if size and size + len(body) > _MESSAGE:
                yield b"".join(gathered)
                gathered, size = [], 0
            head = header(rows, moment, self.regions[region], failed)
            gathered += (head, body)
            size += len(head) + len(body)
        if gathered:
            yield b"".join(gathered)
