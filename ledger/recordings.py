"""Which recording a camera shows: footage is known by content, so no new name for it has a new budget."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

from psycopg.rows import class_row
from psycopg.types.multirange import Multirange

from privid.errors import InvalidValue
from privid.model import Camera, Span, VideoFile

from .account import debit, merged, positions
from .amounts import as_numeric
from .pool import Connection, Pool
from .steps import Step, Use, difference, evenly, shares, uses_from_json

__all__ = ["Recording", "find_recording", "footage_digest"]


@dataclass(frozen=True)
class Recording:
    """A camera's place in the ledger: frame number of the camera + shift = frame number of the recording."""

    id: int
    k: int
    r_star: int
    shift: int

    def spans(self, spans: Sequence[Span]) -> list[Span]:
        """A camera's frames on the recording's timeline."""
        return [(lo + self.shift, hi + self.shift) for lo, hi in spans]


@dataclass(frozen=True)
class _Known:
    sha256: str
    recording: int
    first_frame: int
    frames: int


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
        found = _lookup(conn, camera, digest)
        if found is None:
            with conn.transaction():
                found = _register(conn, camera, digest)
    return found


def _facts(camera: Camera, digest: str) -> dict[str, object]:
    footage = camera.footage
    return {"camera": camera.name, "digest": digest, "frames": footage.frames, "fps_numerator": footage.fps.numerator,
            "fps_denominator": footage.fps.denominator, "width": footage.width, "height": footage.height, "starts": camera.starts,
            "rho": as_numeric(camera.rho, up=True), "k": camera.k, "epsilon": as_numeric(camera.epsilon, up=False), "r": camera.r}


_LOOKUP = """
    SELECT r.id, r.k, r.r_star, f.shift
    FROM privid.footage f JOIN privid.recordings r ON r.id = f.recording
    WHERE f.camera = %(camera)s AND f.digest = %(digest)s AND r.r_star >= %(r)s
      AND (f.frames, f.fps_numerator, f.fps_denominator, f.width, f.height, f.starts, f.rho, f.k, f.epsilon)
        = (%(frames)s, %(fps_numerator)s, %(fps_denominator)s, %(width)s, %(height)s, %(starts)s,
           %(rho)s::numeric, %(k)s, %(epsilon)s::numeric)
"""


def _lookup(conn: Connection, camera: Camera, digest: str) -> Recording | None:
    """What was registered before, when nothing of it has changed. A file's place never moves, so no lock is needed."""
    with conn.cursor(row_factory=class_row(Recording)) as cursor:
        return cursor.execute(_LOOKUP, _facts(camera, digest)).fetchone()


def _register(conn: Connection, camera: Camera, digest: str) -> Recording:
    conn.execute("LOCK TABLE privid.footage IN SHARE ROW EXCLUSIVE MODE")  # one registration at a time
    files = camera.footage.files
    _refuse_repeated(camera)
    with conn.cursor(row_factory=class_row(_Known)) as cursor:
        rows = cursor.execute("SELECT sha256, recording, first_frame, frames FROM privid.recording_files WHERE sha256 = ANY (%s)",
                              ([f.sha256 for f in files],)).fetchall()
    known = {row.sha256: row for row in rows}
    if known:
        recording, shift = _place(camera, known)
    else:
        # What protects no one (K = 0) is never charged; its unit only has to be some number.
        recording, shift = _one(conn, "INSERT INTO privid.recordings (k) VALUES (%s) RETURNING id", (max(camera.k, 1),)), 0
    new = [f for f in files if f.sha256 not in known]
    _refuse_taken(conn, camera, recording, shift, new)
    with conn.cursor() as writer:
        writer.executemany("INSERT INTO privid.recording_files (sha256, recording, first_frame, frames) VALUES (%s, %s, %s, %s)",
                           [(f.sha256, recording, f.first_frame + shift, f.frames) for f in new])
    conn.execute("""
        INSERT INTO privid.footage (camera, digest, recording, shift, frames, fps_numerator, fps_denominator, width, height, starts,
                                    rho, k, epsilon)
        VALUES (%(camera)s, %(digest)s, %(recording)s, %(shift)s, %(frames)s, %(fps_numerator)s, %(fps_denominator)s, %(width)s,
                %(height)s, %(starts)s, %(rho)s::numeric, %(k)s, %(epsilon)s::numeric)
        ON CONFLICT (camera) DO UPDATE SET digest = excluded.digest, recording = excluded.recording, shift = excluded.shift,
            frames = excluded.frames, fps_numerator = excluded.fps_numerator, fps_denominator = excluded.fps_denominator,
            width = excluded.width, height = excluded.height, starts = excluded.starts, rho = excluded.rho, k = excluded.k,
            epsilon = excluded.epsilon""", {**_facts(camera, digest), "recording": recording, "shift": shift})
    _lengthen(conn, recording, camera.r)
    found = _lookup(conn, camera, digest)
    assert found is not None
    return found


def _refuse_repeated(camera: Camera) -> None:
    """The same content at two places would be one event seen twice and charged once."""
    seen: dict[str, VideoFile] = {}
    for file in camera.footage.files:
        first = seen.setdefault(file.sha256, file)
        if first is not file:
            raise InvalidValue(f'source of camera "{camera.name}" holds the same footage twice',
                               detail=f'Files "{first.path}" and "{file.path}" have the same content.',
                               hint="Remove one of them from the source.")


def _place(camera: Camera, known: dict[str, _Known]) -> tuple[int, int]:
    """The one recording and shift that all known files agree on."""
    old = [(file, known[file.sha256]) for file in camera.footage.files if file.sha256 in known]
    first, there = old[0]
    shift = there.first_frame - first.first_frame
    for file, place in old:
        if place.recording != there.recording:
            raise InvalidValue(f'source of camera "{camera.name}" mixes footage of two recordings',
                               detail=f'File "{first.path}" belongs to recording {there.recording}, file "{file.path}" to recording '
                                      f"{place.recording}; each has a budget of its own.",
                               hint="Give each recording a camera of its own.")
        if place.frames != file.frames:
            raise InvalidValue(f'file "{file.path}" of camera "{camera.name}" has {file.frames} frames, but had {place.frames} when it '
                               "was first registered", hint="Use the same decoder and frame rate as then.")
        if place.first_frame - file.first_frame != shift:
            raise InvalidValue(f'files of camera "{camera.name}" do not lie as they did when they were first registered',
                               detail=f'From file "{first.path}" to file "{file.path}" there are {file.first_frame - first.first_frame} '
                                      f"frames, then there were {place.first_frame - there.first_frame}.",
                               hint="Keep the order of the files and leave none out between two others.")
    return there.recording, shift


def _refuse_taken(conn: Connection, camera: Camera, recording: int, shift: int, new: Sequence[VideoFile]) -> None:
    """Two contents at one place of a timeline would share a charge that only one of them caused."""
    lo, hi = [f.first_frame + shift for f in new], [f.first_frame + f.frames + shift for f in new]
    taken = conn.execute("""
        SELECT place.n FROM unnest(%s::int8[], %s::int8[]) WITH ORDINALITY place(lo, hi, n)
        JOIN privid.recording_files f ON f.recording = %s AND f.first_frame < place.hi AND f.first_frame + f.frames > place.lo
        ORDER BY place.n LIMIT 1""", (lo, hi, recording)).fetchone()
    if taken is not None:
        file = new[int(str(taken[0])) - 1]
        raise InvalidValue(f'file "{file.path}" of camera "{camera.name}" lies where the recording has other footage',
                           detail=f"Recording {recording} already has another file for frames {file.first_frame} to "
                                  f"{file.first_frame + file.frames - 1} of the camera.",
                           hint="New files can be added before or after those already registered, not in their place.")


def _lengthen(conn: Connection, recording: int, r: int) -> None:
    """Raises r_star, and debits earlier releases where the longer segments that meet what they read can begin."""
    r_star = _one(conn, "SELECT r_star FROM privid.recordings WHERE id = %s FOR UPDATE", (recording,))
    if r_star >= r:
        return
    # One row for all equal reads: their charges add up at the same places.
    past = conn.execute("""SELECT frames, shift, sum(charge)::text, uses FROM privid.release_charges
                           WHERE recording = %s AND charge > 0 GROUP BY frames, shift, uses""", (recording,)).fetchall()
    for frames, shift, charge, uses in cast("list[tuple[Multirange[int], int, str, list[dict[str, Any]] | None]]", past):
        read = merged((int(piece.lower or 0) + shift, int(piece.upper or 0) + shift) for piece in frames)
        old, new = (_steps(read, uses_from_json(uses or []), shift, length) for length in (r_star, r))
        amount = Fraction(charge)
        debit(conn, recording, [(lo, hi, as_numeric(amount * share, up=True)) for lo, hi, share in difference(new, old)])
    conn.execute("UPDATE privid.recordings SET r_star = %s WHERE id = %s", (r, recording))


def _steps(read: Sequence[Span], uses: Sequence[Use], shift: int, r_star: int) -> list[Step]:
    exact = shares(uses, shift, r_star) if uses else None
    return exact if exact is not None else evenly(positions(read, r_star))


def _one(conn: Connection, statement: str, values: tuple[object, ...]) -> int:
    row = conn.execute(statement.encode(), values).fetchone()
    assert row is not None and isinstance(row[0], int)
    return row[0]
