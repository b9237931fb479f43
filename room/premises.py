"""What the room's bounds rely on: its settings, its hash functions, its collation."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["Order", "Room"]


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
