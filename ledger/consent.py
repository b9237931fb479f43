"""Whose an account is: its owner alone changes what it promises, and another role's cameras share it by the owner's consent only."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple, cast

from privid.errors import PermissionDenied
from privid.model import Camera, VideoFile

from .amounts import as_numeric
from .pool import Connection

__all__ = ["adopt", "permit", "refuse_crowd", "refuse_foreign_content", "refuse_stranger", "settle_gifts", "shares_account"]


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


def settle_gifts(conn: Connection, recording: int) -> None:
    """Writes down whose the account is since it was given away. Owners cannot: their transactions would hold its row. The cameras that
    its owner had over it go along, so that new content of what was given away still lies where the old one does."""
    conn.execute("""
        WITH given AS (DELETE FROM privid.account_gifts WHERE recording = %(recording)s),
             latest AS (SELECT owner, gift FROM privid.account_gift(%(recording)s)),
             cameras AS (UPDATE privid.footage f SET owner = latest.owner FROM latest, privid.recordings r
                         WHERE r.id = %(recording)s AND f.recording = r.id AND f.owner = r.owner AND latest.gift > r.gift)
        UPDATE privid.recordings r SET owner = latest.owner, gift = latest.gift FROM latest
        WHERE r.id = %(recording)s AND latest.gift > r.gift""", {"recording": recording})


def refuse_stranger(conn: Connection, camera: Camera, recording: int) -> None:
    """Refuses a camera whose owner may not share the account."""
    refuse_crowd(conn, camera)
    if not shares_account(conn, camera, recording):
        owner = conn.execute("SELECT privid.account_owner(%s)", (recording,)).fetchone()
        assert owner is not None
        raise PermissionDenied(f'footage of camera "{camera.name}" is in an account of role "{owner[0]}"',
                               detail="Files with this content, or earlier ones in their place, were first registered by that role.",
                               hint=f"Ask the role for consent, by its own camera: SELECT privid.consent(camera, '{camera.owner}').")


def refuse_crowd(conn: Connection, camera: Camera) -> None:
    """Refuses a camera of a role that all owners, or analysts, are members of: what would be its account would be everybody's."""
    if conn.execute("SELECT privid.is_crowd(%s)", (camera.owner,)).fetchone() == (True,):
        raise PermissionDenied(f'camera "{camera.name}" has no owner of its own: role "{camera.owner}" stands for many',
                               detail="Whoever is a member of a role owns its cameras and accounts.",
                               hint=f'Give it to a role of one owner: ALTER SERVER "{camera.name}" OWNER TO role.')


def refuse_foreign_content(conn: Connection, camera: Camera, recording: int, new: Sequence[VideoFile]) -> None:
    """Refuses to place new content into an account that is another role's, whatever that role agreed to, and whatever role the camera's
    owner is a member of: it would consume what the other may need for what it films next, and be at the other's mercy."""
    owner = conn.execute("SELECT privid.account_owner(%s)", (recording,)).fetchone()
    if new and owner != (camera.owner,):
        assert owner is not None
        raise PermissionDenied(f'footage of camera "{camera.name}" would be placed in the account of role "{owner[0]}", '
                               "which cameras of that role have not shown",
                               detail=f'File "{new[0].path}" is of other content, and the account is the other role\'s alone.',
                               hint="Leave the file out, or wait until a camera of that role shows it. If it is footage of your own, "
                                    "keep it apart from the other: under another path, and in a source without the other's files.")


def permit(conn: Connection, camera: Camera, recording: int, r: int, scenes: Sequence[str] = ()) -> None:
    """The same, and a camera by which another than the account's owner would change what the account promises: segments of `r` frames, when
    they are longer than any that it knows, a weaker policy than the owner's, frames that are counted as longer or shorter than the owner
    does, or `scenes`, the masks and regions that are read through, which promise more about people that are the owner's to protect."""
    refuse_stranger(conn, camera, recording)
    row = conn.execute("SELECT privid.account_owner(r.id), r.r_star, privid.owns_account(r.id, %s), r.fps_numerator, r.fps_denominator "
                       "FROM privid.recordings r WHERE r.id = %s", (camera.owner, recording)).fetchone()
    owner, r_star, owns, numerator, denominator = cast("tuple[str, int, bool, int | None, int | None]", row)
    if owns:
        return
    if scenes:
        raise PermissionDenied(f'{scenes[0]} of camera "{camera.name}" cannot be used over the account of role "{owner}"',
                               detail="What is visible there of people in another role's footage is not the camera's owner's to promise.",
                               hint="Use the camera without masks and regions, or a camera of that role, with what it offers.")
    if numerator is not None and denominator is not None and Fraction(numerator, denominator) != camera.footage.fps:
        raise PermissionDenied(f'camera "{camera.name}" has {float(camera.footage.fps):g} frames per second, but the account of role '
                               f'"{owner}" is kept for {numerator / denominator:g}', hint="Leave the option fps out, or set it so.")
    if r > r_star:
        raise PermissionDenied(f'rho of camera "{camera.name}" is longer than any of the account\'s owner, role "{owner}"',
                               detail=f"It has {r} frames, but the account is kept for {r_star}; more would be charged in hindsight.",
                               hint="Choose a shorter rho, or ask the owner of the account to raise that of its camera.")
    policy = _Policy(_kept(camera.rho, up=True), camera.k, _kept(camera.epsilon, up=False))
    if not any(policy.covers(other) for other in _policies(conn, recording)):
        raise PermissionDenied(f'camera "{camera.name}" promises less than those of the account\'s owner, role "{owner}"',
                               detail="Who shares an account protects what its owner does: rho at least as long, epsilon / k at most as "
                                      "large.", hint="Take rho, k and epsilon of the owner's camera, which the view privid.cameras shows.")


# A registration may be of a definition that was never committed, or of a camera that is gone: it counts where the catalog says the same.
_POLICIES = """
    SELECT f.rho, f.k, f.epsilon FROM privid.footage f
    JOIN pg_foreign_server s ON s.srvname::text = f.camera AND pg_get_userbyid(s.srvowner)::text = f.owner
    CROSS JOIN LATERAL (SELECT max(o.option_value) FILTER (WHERE o.option_name = 'rho') AS rho,
                               max(o.option_value) FILTER (WHERE o.option_name = 'k') AS k,
                               max(o.option_value) FILTER (WHERE o.option_name = 'epsilon') AS epsilon
                        FROM pg_options_to_table(s.srvoptions) o) now
    WHERE f.recording = %s AND privid.acts_for(f.owner, privid.account_owner(f.recording))
      AND abs(privid.read_seconds(now.rho) - f.rho) < 1e-20 AND privid.read_number(now.k) = f.k
      AND abs(privid.read_number(now.epsilon) - f.epsilon) < 1e-20
"""


def _policies(conn: Connection, recording: int) -> list[_Policy]:
    """Of the cameras that the owner has now over the account."""
    rows = conn.execute(_POLICIES, (recording,)).fetchall()
    return [_Policy(Fraction(rho), k, Fraction(epsilon)) for rho, k, epsilon in cast("list[tuple[Decimal, int, Decimal]]", rows)]


def _kept(value: Fraction, *, up: bool) -> Fraction:
    """A number as the ledger keeps it."""
    return Fraction(as_numeric(value, up=up))
