"""What relations cost: nanoseconds of scans, sorts, hash tables, joins, planning and the answer.

Everything is for the rows that a program could write at worst: all it may, as wide as they may be,
in the worst order.
"""

from __future__ import annotations

from collections.abc import Sequence

from privid.model import Table

from .calls import compare, equal, hashed
from .premises import Room
from .sizes import Size

__all__ = [
    "arranging",
    "grouping",
    "hash_space",
    "joining",
    "limiting",
    "loading",
    "making",
    "output",
    "pairing",
    "planning",
    "printed",
    "printing",
    "scanning",
    "set_aside_space",
    "side_space",
    "sort_space",
    "sorting",
    "split_space",
    "splitting",
]

#: a byte that is written to a file and read again
_SPILLED = 2
#: bytes of a tuple in a sort or a hash table, beside its values; of a number that is sorted alone
_TUPLE, _NUMBER = 48, 24
#: bytes of an entry of a hash table, beside its tuple
_ENTRY = 64
#: bytes that a join has for a file of each side, and nanoseconds to make, read and remove both
_FILES, _OPENED = 24_000, 300_000
#: files that are merged at once when sort_memory is small
_FAN = 6
#: PostgreSQL's quicksort on the worst order found compares n * n / 12.5 pairs
_WORST = 12


def scanning(table: Table, runs: int, widths: Sequence[Size]) -> int:
    """Blocks from the engine's cache over the socket, then tuples; all columns travel."""
    row = 40
    for column, size in zip(table.columns, widths, strict=True):
        row += 10
        if column.labels is not None:  # looked for one after the other
            longest = max((len(label.encode()) for label in column.labels), default=0)
            row += 25 + 8 * len(column.labels) + 3 * longest
        elif column.type == "text":
            row += 25 + (1 if column.trusted else 3) * size.bytes
    filling = 4_000 * len(table.columns) + table.max_rows * row // 4 if table.pad else 0
    return runs * (12_000 + table.max_rows * row + filling)


def making(objects: int, columns: int, labels: int) -> int:
    """Tables and enums, with all their columns and labels."""
    return 1_000_000 * objects + 20_000 * columns + 12_000 * labels


def loading(rows: int, columns: int, bytes_: int) -> int:
    """Public rows by COPY."""
    return rows * (2_000 + 500 * columns) + 10 * bytes_


def output(rows: int, widths: Sequence[Size]) -> int:
    """The answer as text, and the engine's reading of it."""
    bytes_ = sum(max(size.bytes, 32) + size.digits for size in widths)
    return rows * (1_500 + 600 * len(widths) + 8 * bytes_)


def planning(nodes: int, items: int) -> int:
    """Parsing and planning of expressions and lists. Conditions are compared with each other."""
    return 300_000 + 8_000 * nodes + 2 * nodes * nodes + 2_500 * items


def arranging(relations: int) -> int:
    """Planning of a level. Up to eight of its relations are tried in every order."""
    orders: int = 4_000 * 3 ** min(relations, 8)
    return 200_000 + orders + 4_000_000 * max(relations - 8, 0)


def sort_space(rows: int, width: int, room: Room) -> tuple[int, int]:
    """Bytes of memory and of files that a sort takes."""
    needed = rows * (_TUPLE + width)
    return min(needed, room.sort_memory), 2 * needed if needed > room.sort_memory else 0


def hash_space(rows: int, entries: int, width: int, room: Room) -> tuple[int, int]:
    """Bytes of memory and of files that a hash table takes; rows that do not fit are put aside."""
    needed = entries * (_TUPLE + width + _ENTRY)
    if needed <= room.hash_memory:
        return needed, 0
    return room.hash_memory, 2 * rows * (_TUPLE + width)


def side_space(rows: int, width: int) -> int:
    """Bytes of the hash table of a join: all rows of a side are in memory (premises.py). They lie in
    blocks, of which a row that does not fit any more leaves up to a fifth."""
    return rows * (_TUPLE + width) * 5 // 4


def split_space(bytes_: int, batches: int) -> tuple[int, int]:
    """Bytes of memory and of files that a join takes where PostgreSQL splits both of its sides, of so
    many bytes in all, because it expects more rows than there can be."""
    return batches * _FILES, 2 * bytes_ + batches * _FILES


def splitting(bytes_: int, batches: int, room: Room) -> int:
    """Writing and reading both sides; for each part the hash table is made empty."""
    return 2 * _SPILLED * bytes_ + batches * (_OPENED + room.hash_memory // 20)


def _log2(n: int) -> int:
    return max(n - 1, 1).bit_length()


def sorting(rows: int, keys: Sequence[Size], width: int, room: Room) -> int:
    """Runs of what fits into memory, each in the worst order, and their merging."""
    if rows < 2:
        return 500
    one = _comparing(keys, room)
    # rows that are short fit in larger numbers: the worst is at one end or the other
    bare = _TUPLE if len(keys) > 1 or keys[0].chars or keys[0].digits or width > 8 else _NUMBER
    least = [Size(0, min(key.chars, 1), min(key.digits, 1)) for key in keys]
    short = room.sort_memory * _comparing(least, room) // bare
    long = room.sort_memory * one // (_TUPLE + width)
    ordering = (
        min(rows * rows * one // _WORST, rows * max(short, long) // _WORST)
        + rows * one * 3 * _log2(rows) // 2
    )
    runs = -(-rows * (_TUPLE + width) // room.sort_memory)
    passes = 0
    while runs > 1:
        runs, passes = -(-runs // _FAN), passes + 1
    return 1_000 + ordering + rows * (150 + width // 5) + passes * rows * (200 + _SPILLED * width)


def _comparing(keys: Sequence[Size], room: Room) -> int:
    """Two tuples. Numbers of fixed size are compared where they lie; to get at a column of both, all
    those before it are walked past."""
    return (
        sum(
            (25 + 10 * place if place else 0)
            + (compare(key, key, room) if key.chars or key.digits else 8)
            for place, key in enumerate(keys)
        )
        or 8
    )


def printed(size: Size) -> Size:
    """A value as text that is compared byte by byte, in no collation."""
    return Size(max(size.bytes, size.digits + 8, 48), 0, 1)


def printing(size: Size) -> int:
    """Making that text."""
    return 1_500 + 4 * size.bytes + 10 * size.digits


def limiting(rows: int, kept: int, keys: Sequence[Size], width: int, room: Room) -> int:
    """The first rows of an order: a heap of them, if they fit into memory twice, else a sort."""
    if 2 * kept * (_TUPLE + width) > room.sort_memory:
        return sorting(rows, keys, width, room)
    one = _comparing(keys, room)
    few = min(rows, 2 * kept)
    return (
        1_000
        + rows * (150 + width // 5 + 2 * one * (1 + _log2(kept + 1)))
        + few * few * one // _WORST
    )


def _colliding(rows: int, entries: int, keys: Sequence[Size], room: Room) -> int:
    """Comparisons with entries of the same hash. Without a secret key every value may have the hash
    of every other. With one, values cannot be chosen, but which of them are equal can, and
    PostgreSQL adds up (by exclusive or) the hashes of several keys, each turned by one bit more:
    the hash h of n equal ones becomes p(x) h modulo x^32 + 1 = (1 + x)^32, where p has a degree
    below n, and so at most n - 1 factors 1 + x. Each of these halves the number of hashes."""
    hashes = 1 << max(0, 33 - len(keys)) if room.keyed else 1
    return rows * entries * 2 // hashes * (40 + sum(map(equal, keys)))


def grouping(
    rows: int, groups: int, keys: Sequence[Size], width: int, room: Room
) -> int:
    """A hash table of groups. `width`: bytes of a row that is put aside while there is no room."""
    cost = rows * (50 + sum(hashed(key) + equal(key) for key in keys)) + groups * (700 + width)
    needed = groups * (_TUPLE + width + _ENTRY)
    if needed > room.hash_memory:
        # into files by an estimate, from there by a count, and what the count has missed
        passes = 3 if room.keyed else 1 + needed // room.hash_memory
        cost += passes * rows * (400 + _SPILLED * width)
    return cost + _colliding(rows, groups, keys, room)


def set_aside_space(rows: int, width: int, room: Room) -> tuple[int, int]:
    """Bytes of memory and of files that rows take which a nested loop reads again and again."""
    needed = rows * (_TUPLE + width)
    return min(needed, room.sort_memory), needed if needed > room.sort_memory else 0


def pairing(left: int, right: int, width: int) -> int:
    """A nested loop: one side is set aside, and read again for each row of the other, from a file
    if it is large. What is evaluated on the pairs is not in it."""
    return left * right * (120 + width) + (left + right) * (300 + _SPILLED * width)


def joining(
    left: int,
    right: int,
    pairs: int,
    keys: Sequence[Size],
    widths: tuple[int, int],
    room: Room,
) -> int:
    """A hash join; without keys every pair is looked at."""
    if not keys:
        return pairing(left, right, sum(widths))
    cost = (left + right) * (300 + sum(map(hashed, keys))) + pairs * (80 + sum(map(equal, keys)))
    cost += left * widths[0] + right * widths[1]
    return cost + 2 * _colliding(left, right, keys, room)
