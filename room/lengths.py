"""How long texts may become within an expression, and what calls hold of a row until it is done.

Time and stack of a call grow with its arguments, and what it returns stays in memory until the next row. Constants and public rows are
short (calculus/reader.py), and so is what is kept of a program's text; from there on a text grows by calls alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from privid.calculus.functions import FUNCTIONS, FunctionClass, names
from privid.calculus.tree import AnyOf, Call, position
from privid.errors import NoRule

from .sizes import Size

__all__ = ["MAX_MATCHED", "MAX_PATTERN", "MAX_RESULT", "PATTERNS", "check_sizes", "held"]

#: Bytes of any text that a call returns: letters that grow in another case do so by a factor each time; 1 MB is more than one step makes of
#: the longest argument, and a thousandth of what PostgreSQL can hold.
MAX_RESULT = 1 << 20
#: Bytes of a pattern. LIKE calls itself once for each part between two %, of two bytes at least; each call takes 64 bytes of the stack, of
#: which the room has 2 MB (settings.py, max_stack_depth). Nothing else that is listed calls itself on a row's values.
MAX_PATTERN = 8192
#: Bytes of a text that is matched: what || gives at most.
MAX_MATCHED = 1 << 15
#: by identity: functions that match a text with a pattern, its second argument
PATTERNS = frozenset(fn for fn, entry in FUNCTIONS.items() if entry.kind is FunctionClass.PATTERN)
#: an allocation beside what is in it; and how much more is allocated than is asked for, with what a call makes and leaves on its way
_ALLOCATED, _COPIES = 256, 4


def check_sizes(expr: Call | AnyOf, sizes: Sequence[Size], made: Size) -> None:
    """Refuses a call whose arguments or result could be too long."""
    if made.bytes > MAX_RESULT:
        raise _too_long(expr, f"result of {names(expr.fn)[1]}", made.bytes, MAX_RESULT)
    if expr.fn in PATTERNS:
        for what, size, most in (("text that is matched with a pattern", sizes[0], MAX_MATCHED), ("pattern", sizes[1], MAX_PATTERN)):
            if size.bytes > most:
                raise _too_long(expr, what, size.bytes, most)


def _too_long(expr: Call | AnyOf, what: str, bytes_: int, most: int) -> NoRule:
    return NoRule(f"{what} could have {bytes_} bytes, but at most {most} are computed with", position=position(expr.loc),
                  detail="The length is a bound, whatever a program writes; time and memory of a release grow with it.",
                  hint="Shorten the text first, for example left(plate, 1000).")


def held(sizes: Sequence[Size], made: Size) -> int:
    """Bytes that a call allocates and nobody frees before the next row: what it returns, and copies of its arguments."""
    return _ALLOCATED + _COPIES * sum(size.bytes + size.digits for size in (*sizes, made))
