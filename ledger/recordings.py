"""Which recording a camera shows: footage is known by content, so no new name for it has a new budget."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, LiteralString, cast

from psycopg.rows import class_row
from psycopg.types.json import Jsonb
from psycopg.types.multirange import Multirange

from privid.errors import InvalidValue, VersionMismatch
from privid.model import Camera, Span, VideoFile

from .account import Stored, merged
from .amounts import as_numeric
from .consent import adopt, permit, refuse_crowd, refuse_foreign_content, refuse_stranger, settle_gifts, shares_account
from .placing import Place, find_place, known_files, refuse_repeated, replaced
from .pool import Connection, Pool
from .steps import difference, logged_steps

__all__ = ["Recording", "find_recording", "footage_digest"]

#: how a recording's ledger is written. What a dump of an older version brings has an older format, and no ledger that can be read.
_FORMAT = 3


@dataclass(frozen=True)
class Recording:
    """A camera's place in the ledger: frame number of the camera + shift = frame number of the recording."""

    id: int
    k: int
    r_star: int
    shift: int
    format: int = _FORMAT
    owner: str | None = None

    def spans(self, spans: Sequence[Span]) -> list[Span]:
        """A camera's frames on the recording's timeline."""
        return [(lo + self.shift, hi + self.shift) for lo, hi in spans]


def footage_digest(camera: Camera) -> str:
    """Names the list of files and their places."""
    digest = hashlib.sha256()
    for file in camera.footage.files:
        digest.update(f"{file.sha256} {file.first_frame} {file.frames}\n".encode())
    return digest.hexdigest()


def find_recording(pool: Pool, camera: Camera) -> Recording:
    """The camera's recording, made or extended when its footage is new; afterwards r_star is at least the camera's r."""
    digest = footage_digest(camera)
    with pool.connection() as conn:
        found = _known(conn, camera, digest)
    if found is None:
        _note_unseen(pool)
        try:
            with pool.turns.take("footage"), pool.transaction() as conn:
                found = _register(conn, camera, digest)
        except InvalidValue as error:
            error.names_files = True
            raise
    if found.format != _FORMAT:
        raise VersionMismatch(f'ledger of camera "{camera.name}" was loaded from a dump of an older version of extension "privid"',
                              detail="The dump tells levels where this version expects jumps, so what was spent is not known.",
                              hint="Restore it with privid restore --extension-version 0.2.0, then run ALTER EXTENSION privid UPDATE.")
    return found


def _facts(camera: Camera, digest: str) -> dict[str, object]:
    footage = camera.footage
    return {"camera": camera.name, "owner": camera.owner, "digest": digest, "frames": footage.frames,
            "fps_numerator": footage.fps.numerator,
            "fps_denominator": footage.fps.denominator, "width": footage.width, "height": footage.height, "starts": camera.starts,
            "rho": as_numeric(camera.rho, up=True), "k": camera.k, "epsilon": as_numeric(camera.epsilon, up=False), "r": camera.r}


def _known(conn: Connection, camera: Camera, digest: str) -> Recording | None:
    """What was registered before, if the camera's owner still may share its account."""
    found = _lookup(conn, camera, digest)
    if found is not None and found.owner != camera.owner:
        if not shares_account(conn, camera, found.id):
            return None
        permit(conn, camera, found.id, camera.r)
    return found


def _note_unseen(pool: Pool) -> None:
    """What changed of cameras while nobody looked; where somebody is at work on it, he notes it himself."""
    with pool.snapshot(writes=True) as conn:
        conn.execute("SELECT privid.reconcile_cameras()")


_LOOKUP = """
    SELECT r.id, r.k, r.r_star, f.shift, r.format, privid.account_owner(r.id) AS owner
    FROM privid.footage f JOIN privid.recordings r ON r.id = f.recording
    WHERE f.camera = %(camera)s AND f.owner = %(owner)s AND f.digest = %(digest)s AND r.r_star >= %(r)s
      AND (f.frames, f.fps_numerator, f.fps_denominator, f.width, f.height, f.starts, f.rho, f.k, f.epsilon)
        = (%(frames)s, %(fps_numerator)s, %(fps_denominator)s, %(width)s, %(height)s, %(starts)s,
           %(rho)s::numeric, %(k)s, %(epsilon)s::numeric)
"""


def _lookup(conn: Connection, camera: Camera, digest: str) -> Recording | None:
    """What was registered before, when nothing of it has changed. A file's place never moves, so no lock is needed."""
    with conn.cursor(row_factory=class_row(Recording)) as cursor:
        return cursor.execute(_LOOKUP, _facts(camera, digest)).fetchone()


def _register(conn: Connection, camera: Camera, digest: str) -> Recording:
    # one registration at a time; who names the table in a statement that is refused has locks on it that this does not wait for
    conn.execute("LOCK TABLE privid.footage IN SHARE UPDATE EXCLUSIVE MODE")
    refuse_repeated(camera)
    refuse_crowd(conn, camera)
    known = known_files(conn, camera)
    for recording in sorted({file.recording for file in known.values()}):
        refuse_stranger(conn, camera, recording)  # before anything is said about where its files lie
    place = find_place(conn, camera, known)
    new = [f for f in camera.footage.files if f.sha256 not in known]
    event = "footage known"
    # Content that lies between two frames of what it replaces may show an event one frame further along.
    r = camera.r + (1 if place is not None and place.loose and camera.r else 0)
    if place is None:
        place, event = _new_recording(conn, camera), "footage registered"
    else:
        refuse_stranger(conn, camera, place.recording)
        adopt(conn, camera, place.recording)
        settle_gifts(conn, place.recording)
        refuse_foreign_content(conn, camera, place.recording, new)
        permit(conn, camera, place.recording, r)
    over = replaced(conn, place, new)
    if new and event == "footage known":
        event = "footage replaced" if over else "footage added"
    with conn.cursor() as writer:
        writer.executemany("INSERT INTO privid.recording_files (sha256, recording, first_frame, frames, path) VALUES (%s, %s, %s, %s, %s)",
                           [(f.sha256, place.recording, f.first_frame + place.shift, f.frames, f.path) for f in new])
    facts = {**_facts(camera, digest), "recording": place.recording, "shift": place.shift}
    conn.execute("""
        INSERT INTO privid.footage (camera, owner, digest, recording, shift, frames, fps_numerator, fps_denominator, width, height, starts,
                                    rho, k, epsilon)
        VALUES (%(camera)s, %(owner)s, %(digest)s, %(recording)s, %(shift)s, %(frames)s, %(fps_numerator)s, %(fps_denominator)s, %(width)s,
                %(height)s, %(starts)s, %(rho)s::numeric, %(k)s, %(epsilon)s::numeric)
        ON CONFLICT (camera) DO UPDATE SET owner = excluded.owner, digest = excluded.digest,
            recording = excluded.recording, shift = excluded.shift,
            frames = excluded.frames, fps_numerator = excluded.fps_numerator, fps_denominator = excluded.fps_denominator,
            width = excluded.width, height = excluded.height, starts = excluded.starts, rho = excluded.rho, k = excluded.k,
            epsilon = excluded.epsilon""", facts)
    _lengthen(conn, place.recording, r)
    _note(conn, camera, event, place, new, over)
    found = _lookup(conn, camera, digest)
    assert found is not None
    return found


def _new_recording(conn: Connection, camera: Camera) -> Place:
    # What protects no one (K = 0) is never charged; its unit only has to be some number.
    fps = camera.footage.fps
    values = (camera.owner, max(camera.k, 1), camera.starts, fps.numerator, fps.denominator, _FORMAT)
    statement = ("INSERT INTO privid.recordings (owner, k, starts, fps_numerator, fps_denominator, format) "
                 "VALUES (%s, %s, %s, %s, %s, %s) RETURNING id")
    return Place(_one(conn, statement, values), 0)


def _note(conn: Connection, camera: Camera, event: str, place: Place, new: Sequence[VideoFile], over: Sequence[str]) -> None:
    """What the engine applies from now on, in the history that nobody can rewrite."""
    details = {"owner": camera.owner,
               "recording": place.recording, "shift": place.shift, "frames": camera.footage.frames, "rho": str(camera.rho), "k": camera.k,
               "epsilon": str(camera.epsilon), "starts": camera.starts.isoformat(),
               "files": [{"path": f.path, "sha256": f.sha256} for f in new], "replaced": list(over)}
    conn.execute("SELECT privid.write_history('engine', 'engine', %s, %s, %s)", (camera.name, event, Jsonb(details)))


def _lengthen(conn: Connection, recording: int, r: int) -> None:
    """Raises r_star, and debits earlier releases where the longer segments that meet what they read can begin."""
    r_star = _one(conn, "SELECT r_star FROM privid.recordings WHERE id = %s FOR UPDATE", (recording,))
    if r_star >= r:
        return
    # One row for all equal reads: their charges add up at the same places.
    past = conn.execute("""
        SELECT c.frames, c.shift, sum(c.charge)::text, c.uses, a.id
        FROM privid.release_charges c LEFT JOIN privid.share_accounts a ON a.recording = c.recording AND a.role = c.share
        WHERE c.recording = %s AND c.charge > 0 GROUP BY c.frames, c.shift, c.uses, a.id""", (recording,)).fetchall()
    for frames, shift, charge, uses, share in cast("list[tuple[Multirange[int], int, str, list[dict[str, Any]] | None, int | None]]", past):
        read = merged((int(piece.lower or 0) + shift, int(piece.upper or 0) + shift) for piece in frames)
        old, new = (logged_steps(read, uses, shift, length) for length in (r_star, r))
        amount = Fraction(charge)
        more = [(lo, hi, as_numeric(amount * part, up=True)) for lo, hi, part in difference(new, old)]
        Stored(conn, recording, more).debit(more)
        if share is not None:
            Stored(conn, share, more, table="share").debit(more)
    conn.execute("UPDATE privid.recordings SET r_star = %s WHERE id = %s", (r, recording))


def _one(conn: Connection, statement: LiteralString, values: tuple[object, ...]) -> int:
    row = conn.execute(statement, values).fetchone()
    assert row is not None and isinstance(row[0], int)
    return row[0]
