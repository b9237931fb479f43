"""Time zones by name: each is a constant, and a statement has few.

PostgreSQL searches directories for a name that a session has not met before, reads the rules of the zone, and keeps them as long as the
session lives; and it takes any name that looks like rules ('XYZ+1:23') for a zone. So a name that a row could make would be work and memory
that follow from rows.
"""

from __future__ import annotations

from privid.errors import NoRule

from .functions import names
from .tree import Call, Const, Expr, bare, position

__all__ = ["MAX_ZONES", "check_zones", "zone_of"]

#: different names in a statement
MAX_ZONES = 50
_FIRST, _LAST = ("text,timestamptz", "text,timestamp"), "text,timestamptz,text"


def zone_of(expr: Expr) -> Expr | None:
    """The argument that names a zone, if a call has one."""
    if not isinstance(expr, Call):
        return None
    _, name, types = names(expr.fn)
    if name == "timezone" and ",".join(types) in _FIRST:
        return bare(expr.args[0])
    return bare(expr.args[2]) if name == "date_trunc" and ",".join(types) == _LAST else None


def check_zones(expr: Call, met: set[str | None]) -> None:
    """Refuses a call whose zone is no constant, or one too many; `met` has those of the statement so far."""
    zone = zone_of(expr)
    if zone is None:
        return
    if not isinstance(zone, Const):
        raise NoRule(f"{names(expr.fn)[1]} has no rule for a time zone that is not constant", position=position(expr.loc),
                     detail="A session reads the rules of a zone when it meets its name first: work that would follow from the rows.",
                     hint="Write each zone as a constant, for example CASE WHEN ... THEN chunk AT TIME ZONE 'Europe/Berlin' END.")
    met.add(zone.value)
    if len(met) > MAX_ZONES:
        raise NoRule(f"statement names more than {MAX_ZONES} time zones", position=position(expr.loc),
                     detail="The rules of each are read by every session that evaluates the statement.",
                     hint="Use fewer, or intervals: chunk AT TIME ZONE interval '1 hour'.")
