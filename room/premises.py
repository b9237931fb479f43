"""What the room's bounds rely on: its settings, its hash functions, its collation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

__all__ = ["MAX_FACTOR", "MAX_MEMORY", "Order", "Room"]

#: bytes of memory that a statement may need: one that could need more is refused
MAX_MEMORY = 4 << 30
#: how many times as much as a sort a hash table may have, at most (PostgreSQL's limit of hash_mem_multiplier)
MAX_FACTOR = 1000


class Order(Enum):
    """What puts texts in order in the room."""

    BYTES = "bytes"  # collation C, or C.UTF-8 of glibc 2.35 and later
    ICU = "icu"
    LIBC = "libc"  # any other locale of the C library


@dataclass(frozen=True)
class Room:
    """What the bounds rely on. The room must be so, or its description here must say otherwise.

    Beside what is said here: hash tables are used wherever PostgreSQL can (enable_sort,
    enable_incremental_sort, enable_mergejoin and enable_nestloop are off), in one process; where it
    cannot, the plan shows it (plans.py). x IN (…) is written as x = ANY (ARRAY[…]), and no
    expression is written more often than values.py says.
    """

    #: With LIBC there is no useful bound: glibc takes ten seconds to compare two texts of 1,024
    #: characters that the locale does not list.
    order: Order = Order.BYTES
    #: Hash functions have a secret key (keyed.sql). Otherwise a program can write values of one
    #: hash, and every hash table is a list.
    keyed: bool = True
    #: Bytes that are sorted at once (work_mem). A program can write them in an order for which
    #: PostgreSQL's quicksort takes quadratic time, so that less is quicker.
    sort_memory: int = 256 * 1024
    #: Bytes of a hash table (work_mem times hash_mem_multiplier).
    hash_memory: int = 128 * 1024 * 1024

    def holding(self, bytes_: int) -> Room:
        """With hash tables that may be so large. A join whose rows do not fit splits them into files, and
        again as long as a split moves a row: where one key is in most rows that ends when every other
        key has files of its own, which nothing bounds well. So its memory is what its rows can be at
        most, for which the bound of memory has room in any case. Where that is more than sorts allow,
        more is sorted at once."""
        if bytes_ <= self.hash_memory:
            return self
        needed = min(bytes_, MAX_MEMORY)
        sort_memory = max(self.sort_memory, -(-needed // (MAX_FACTOR << 10)) << 10)  # whole kilobytes
        return replace(self, sort_memory=sort_memory, hash_memory=-(-needed // sort_memory) * sort_memory)
