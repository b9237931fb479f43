"""Shares of a camera's budget: who may consume how much of it, and what has been consumed under each share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, LiteralString, cast

from psycopg.types.multirange import Multirange

from privid.errors import BudgetExhausted, PermissionDenied
from privid.model import Camera

from .account import Account, Debit, Stored, merged
from .amounts import in_camera_unit, show
from .costs import debits, limit, logged_steps
from .pool import Connection
from .recordings import Recording
from .steps import Step

__all__ = ["charge_share", "own_left", "share_left", "shows_all"]


#: the role that stands for all, in whose name nobody acts
_EVERYBODY = "public"

#: frames that were read, their shift, what was charged, and by which uses
_Charged = tuple[Multirange[int], int, str, list[dict[str, Any]] | None]


@dataclass(frozen=True)
class _Share:
    role: str
    epsilon: Fraction


# A share of the role's own counts alone; without one, those of the roles it is a member of, and then everybody's.
_SHARES = """
    WITH RECURSIVE member(oid, name) AS (
        SELECT r.oid, r.rolname::text FROM pg_roles r WHERE r.rolname::text = %(role)s
        UNION
        SELECT r.oid, r.rolname::text FROM member JOIN pg_auth_members m ON m.member = member.oid JOIN pg_roles r ON r.oid = m.roleid
    )
    SELECT g.role, g.epsilon,
           CASE WHEN g.epsilon IS NULL THEN NULL WHEN g.role = %(role)s THEN 0
                WHEN g.role IN (SELECT name FROM member) THEN 1 WHEN g.role = 'public' THEN 2 END AS rank
    FROM privid.share_grants g JOIN privid.promisers p ON (p.camera, p.owner, p.server_oid) = (g.camera, g.owner, g.server_oid)
    WHERE g.camera = %(camera)s
    ORDER BY rank, g.role
"""


def _shares(conn: Connection, camera: Camera, role: str) -> list[_Share] | None:
    """The shares under which the role may consume, in the order in which they are tried; None where nothing is shared out."""
    rows = conn.execute(_SHARES, {"role": role, "camera": camera.name}).fetchall()
    if not rows or role == camera.owner:
        return None
    found = [(_Share(name, Fraction(epsilon)), rank) for name, epsilon, rank in cast("list[tuple[str, Decimal, int | None]]", rows)
             if rank is not None]
    own = [share for share, rank in found if rank == 0]
    return own or [share for share, _ in found]


def shows_all(conn: Connection, camera: Camera, role: str | None) -> bool:
    """Whether the role may see what others consumed of the camera's account; without a role, somebody asks for everybody."""
    return role is None or conn.execute("SELECT privid.shows_all(%s, %s)", (camera.name, role)).fetchone() == (True,)


def own_left(conn: Connection, camera: Camera, recording: Recording, role: str, shared: Sequence[Step],
             epsilon: Fraction | None = None) -> Fraction:
    """The most epsilon that the policy, or another amount, leaves beside what the role itself was charged: what others were takes no
    part."""
    spent = _debits(_history(conn, _OWN, recording, role), recording)
    return _rest(camera, recording, Account.imagined(spent), camera.epsilon if epsilon is None else epsilon, shared)


def charge_share(conn: Connection, camera: Camera, recording: Recording, role: str, shared: Sequence[Step], charge: str,
                 epsilon: Fraction) -> str | None:
    """Debits the first share that can pay for it, and tells whose. The caller holds the recording's row lock."""
    usable = _shares(conn, camera, role)
    if usable is None:
        return None
    if not usable:
        raise _no_share(camera, role)
    wanted = debits(shared, Fraction(charge))
    for share in usable:
        account = Stored(conn, _account(conn, recording, share.role), wanted, table="share")
        most = account.peak(wanted)
        if most is not None and most.after <= limit(share.epsilon, camera, recording):
            account.debit(wanted)
            return share.role
    left, role_of_most = max((_left(conn, camera, recording, share, shared), share.role) for share in usable)
    hidden = role_of_most == _EVERYBODY and not shows_all(conn, camera, role)
    raise BudgetExhausted(
        f'share of role "{role_of_most}" in the budget of camera "{camera.name}" does not allow this release: epsilon {show(epsilon)} '
        f"requested{'' if hidden else f', {show(left)} remaining'}",
        hint="Lower privid.epsilon, read another window, or ask the camera's owner for more"
             f"{'' if hidden else '; the view privid.shares shows what is left'}.")


def share_left(conn: Connection, camera: Camera, recording: Recording, role: str, shared: Sequence[Step]) -> Fraction | None:
    """The most epsilon that the role's shares leave for such a release, as far as the role may see; None where nothing is shared out."""
    usable = _shares(conn, camera, role)
    if usable is None or not shared:
        return None
    hides = any(share.role == _EVERYBODY for share in usable) and not shows_all(conn, camera, role)
    return max((own_left(conn, camera, recording, role, shared, min(share.epsilon, camera.epsilon))
                if hides and share.role == _EVERYBODY else _left(conn, camera, recording, share, shared) for share in usable),
               default=Fraction(0))


def _left(conn: Connection, camera: Camera, recording: Recording, share: _Share, shared: Sequence[Step]) -> Fraction:
    number = _find(conn, recording, share.role)
    # an account that is only looked at need not come to be
    account = Stored(conn, number, debits(shared, Fraction(1)), table="share") if number else Account.imagined(
        _past(conn, recording, share.role))
    return _rest(camera, recording, account, share.epsilon, shared)


def _rest(camera: Camera, recording: Recording, account: Account, epsilon: Fraction, shared: Sequence[Step]) -> Fraction:
    most, wanted = limit(epsilon, camera, recording), debits(shared, Fraction(1))
    least = account.peak(wanted, most)
    assert least is not None
    return in_camera_unit(max((most - least.amount) / shared[least.debit][2], Fraction(0)), camera.k, recording.k)


def _find(conn: Connection, recording: Recording, role: str) -> int | None:
    row = conn.execute("SELECT id FROM privid.share_accounts WHERE recording = %s AND role = %s", (recording.id, role)).fetchone()
    return None if row is None else cast(int, row[0])


def _account(conn: Connection, recording: Recording, role: str) -> int:
    """The account of a share over a recording. A new one begins with what the role and its members have consumed before. The caller holds
    the recording's row lock."""
    found = _find(conn, recording, role)
    if found is not None:
        return found
    row = conn.execute("INSERT INTO privid.share_accounts (recording, role) VALUES (%s, %s) RETURNING id", (recording.id, role)).fetchone()
    account, past = cast("tuple[int]", row)[0], _past(conn, recording, role)
    Stored(conn, account, past, table="share").debit(past)
    return account


def _past(conn: Connection, recording: Recording, role: str) -> list[Debit]:
    """What the role and its members consumed of the recording before there was an account; these debits overlap."""
    return _debits(_history(conn, _PAST, recording, role), recording)


def _debits(history: Sequence[_Charged], recording: Recording) -> list[Debit]:
    past: list[Debit] = []
    for frames, shift, charge, uses in history:
        read = merged((int(piece.lower or 0) + shift, int(piece.upper or 0) + shift) for piece in frames)
        past += debits(logged_steps(read, uses, shift, recording.r_star), Fraction(charge))
    return past


_PAST = """
    WITH RECURSIVE under(oid, name) AS (
        SELECT r.oid, r.rolname::text FROM pg_roles r WHERE r.rolname::text = %(role)s
        UNION
        SELECT r.oid, r.rolname::text FROM under JOIN pg_auth_members m ON m.roleid = under.oid JOIN pg_roles r ON r.oid = m.member
    )
    SELECT c.frames, c.shift, sum(c.charge)::text, c.uses
    FROM privid.release_charges c JOIN privid.release_log l ON l.id = c.release
    WHERE c.recording = %(recording)s AND c.charge > 0 AND l.role <> c.owner
      AND (l.role = %(role)s OR coalesce(c.share, %(role)s) = %(role)s)
      AND (%(role)s = 'public' OR l.role IN (SELECT name FROM under))
    GROUP BY c.frames, c.shift, c.uses
"""


_OWN = """
    SELECT c.frames, c.shift, sum(c.charge)::text, c.uses
    FROM privid.release_charges c JOIN privid.release_log l ON l.id = c.release
    WHERE c.recording = %(recording)s AND c.charge > 0 AND l.role = %(role)s
    GROUP BY c.frames, c.shift, c.uses
"""


def _history(conn: Connection, statement: LiteralString, recording: Recording, role: str) -> list[_Charged]:
    return cast("list[_Charged]", conn.execute(statement, {"role": role, "recording": recording.id}).fetchall())


def _no_share(camera: Camera, role: str) -> PermissionDenied:
    return PermissionDenied(f'role "{role}" has no share of the budget of camera "{camera.name}"',
                            detail="The owner has shared the budget out, and neither the role nor one that it is a member of has a share.",
                            hint=f"Ask the owner for one: SELECT privid.grant_budget('{camera.name}', '{role}', epsilon).")
