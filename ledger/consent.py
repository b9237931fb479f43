"""Whose an account is: its owner alone changes what it promises, and another role's cameras share it by the owner's consent only."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple, cast

from privid.errors import PermissionDenied
from privid.model import Camera

from .amounts import as_numeric
from .pool import Connection

__all__ = ["adopt", "permit", "refuse_stranger", "shares_account"]


class _Policy(NamedTuple):
    """What a camera promises of one protected segment."""

    rho: Fraction
    k: int
    epsilon: Fraction

    def covers(self, other: _Policy) -> bool:
        """Whether it promises no less: no shorter segments, and no more that each of them loses."""
        if other.k == 0 or other.rho == 0:
            return True
        return self.k > 0 and self.rho >= other.rho and self.epsilon / self.k <= other.epsilon / other.k


def shares_account(conn: Connection, camera: Camera, recording: int) -> bool:
    """Whether the camera's owner owns the account, or has the consent of who does."""
    row = conn.execute("SELECT privid.uses_account(%s, %s)", (recording, camera.owner)).fetchone()
    return row == (True,)


def adopt(conn: Connection, camera: Camera, recording: int) -> None:
    """An account of an older version, of which nobody knows whose it is, becomes that of the camera's owner."""
    conn.execute("UPDATE privid.recordings SET owner = %s WHERE id = %s AND owner IS NULL", (camera.owner, recording))


def refuse_stranger(conn: Connection, camera: Camera, recording: int) -> None:
    """Refuses a camera whose owner may not share the account."""
    if not shares_account(conn, camera, recording):
        owner = conn.execute("SELECT owner FROM privid.recordings WHERE id = %s", (recording,)).fetchone()
        assert owner is not None
        raise PermissionDenied(f'footage of camera "{camera.name}" is in an account of role "{owner[0]}"',
                               detail="Files with this content, or earlier ones in their place, were first registered by that role.",
                               hint=f"Ask the role for consent, by its own camera: SELECT privid.consent(camera, '{camera.owner}').")


def permit(conn: Connection, camera: Camera, recording: int, r: int) -> None:
    """The same, and a camera by which another than the account's owner would change what the account promises: segments of `r` frames, when
    they are longer than any that it knows, or a weaker policy than the owner's."""
    refuse_stranger(conn, camera, recording)
    row = conn.execute("SELECT r.owner, r.r_star, privid.owns_account(r.id, %s) FROM privid.recordings r WHERE r.id = %s",
                       (camera.owner, recording)).fetchone()
    owner, r_star, owns = cast("tuple[str, int, bool]", row)
    if owns:
        return
    if r > r_star:
        raise PermissionDenied(f'rho of camera "{camera.name}" is longer than any of the account\'s owner, role "{owner}"',
                               detail=f"It has {r} frames, but the account is kept for {r_star}; more would be charged in hindsight.",
                               hint="Choose a shorter rho, or ask the owner of the account to raise that of its camera.")
    policy = _Policy(_kept(camera.rho, up=True), camera.k, _kept(camera.epsilon, up=False))
    if not any(policy.covers(other) for other in _policies(conn, recording)):
        raise PermissionDenied(f'camera "{camera.name}" promises less than those of the account\'s owner, role "{owner}"',
                               detail="Who shares an account protects what its owner does: rho at least as long, epsilon / k at most as "
                                      "large.", hint="Take rho, k and epsilon of the owner's camera, which the view privid.cameras shows.")


def _policies(conn: Connection, recording: int) -> list[_Policy]:
    """Of the owner's cameras over the account, as they were last registered."""
    rows = conn.execute("""
        SELECT f.rho, f.k, f.epsilon FROM privid.footage f JOIN privid.recordings r ON r.id = f.recording
        WHERE r.id = %s AND privid.acts_for(f.owner, r.owner)""", (recording,)).fetchall()
    return [_Policy(Fraction(rho), k, Fraction(epsilon)) for rho, k, epsilon in cast("list[tuple[Decimal, int, Decimal]]", rows)]


def _kept(value: Fraction, *, up: bool) -> Fraction:
    """A number as the ledger keeps it."""
    return Fraction(as_numeric(value, up=up))
