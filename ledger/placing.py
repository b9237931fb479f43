"""Where on which timeline a camera's files lie: by their content, or by their time in the place of what they replace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from typing import cast

from psycopg.rows import class_row

from privid.errors import InvalidValue
from privid.model import Camera, VideoFile

from .pool import Connection

__all__ = ["Known", "Place", "find_place", "known_files", "refuse_repeated", "replaced"]


@dataclass(frozen=True)
class Known:
    """A file that was registered before."""

    sha256: str
    recording: int
    first_frame: int
    frames: int


@dataclass(frozen=True)
class Place:
    """Frame number of the camera + shift = frame number of the recording; `loose` when that is true only to within a frame."""

    recording: int
    shift: int
    loose: bool = False


def known_files(conn: Connection, camera: Camera) -> dict[str, Known]:
    """The camera's files that some camera had before, by content."""
    with conn.cursor(row_factory=class_row(Known)) as cursor:
        rows = cursor.execute("SELECT sha256, recording, first_frame, frames FROM privid.recording_files WHERE sha256 = ANY (%s)",
                              ([f.sha256 for f in camera.footage.files],)).fetchall()
    return {row.sha256: row for row in rows}


def find_place(conn: Connection, camera: Camera, known: dict[str, Known]) -> Place | None:
    """The camera's place; None when its footage is of a time and place that no recording has."""
    return _by_content(camera, known) if known else _by_time(conn, camera)


def refuse_repeated(camera: Camera) -> None:
    """The same content at two places would be one event seen twice and charged once."""
    seen: dict[str, VideoFile] = {}
    for file in camera.footage.files:
        first = seen.setdefault(file.sha256, file)
        if first is not file:
            raise InvalidValue(f'source of camera "{camera.name}" holds the same footage twice',
                               detail=f'Files "{first.path}" and "{file.path}" have the same content.',
                               hint="Remove one of them from the source.")


def _by_content(camera: Camera, known: dict[str, Known]) -> Place:
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
    return Place(there.recording, shift)


# A name proves nothing: a camera of that name was this one if its owner had it, in an account that is the owner's. Of one that was given
# away, and that the engine has not written down yet (settle_gifts), the row still says who had it before.
_NEAR = """
    SELECT r.id, r.starts, r.fps_numerator, r.fps_denominator, own.camera IS NOT NULL, privid.account_owner(r.id),
           (SELECT min(f.first_frame) FROM privid.recording_files f WHERE f.recording = r.id),
           (SELECT max(f.first_frame + f.frames) FROM privid.recording_files f WHERE f.recording = r.id)
    FROM privid.recordings r LEFT JOIN privid.footage own
      ON own.recording = r.id AND own.camera = %(camera)s AND coalesce(privid.account_owner(r.id), %(owner)s) = %(owner)s
         AND coalesce(own.owner, %(owner)s) IN (%(owner)s, r.owner)
    WHERE r.starts IS NOT NULL
      AND (own.camera IS NOT NULL OR r.id IN (SELECT f.recording FROM privid.recording_files f WHERE f.path = ANY (%(paths)s)))
    ORDER BY own.camera IS NULL, r.id DESC
"""


def _by_time(conn: Connection, camera: Camera) -> Place | None:
    """New content of a camera that had other content before, or under a path that had: it lies where its time says. That a camera of
    another owner once had this name says nothing; what lies under a path of another's account is refused by whoever places it there."""
    rows = conn.execute(_NEAR, {"camera": camera.name, "owner": camera.owner, "paths": [f.path for f in camera.footage.files]}).fetchall()
    found = cast("list[tuple[int, datetime, int, int, bool, str | None, int, int]]", rows)
    for recording, starts, numerator, denominator, own, owner, first, stop in found:
        fps = Fraction(numerator, denominator)
        exact = Fraction((camera.starts - starts) // timedelta(microseconds=1), 1_000_000) * fps
        shift = exact.numerator // exact.denominator
        overlaps = shift < stop and shift + camera.footage.frames * fps / camera.footage.fps + 1 > first
        if overlaps and owner not in (None, camera.owner):
            return Place(recording, shift)  # of which nothing is said but whose it is
        if fps == camera.footage.fps and (own or overlaps):
            # starts are kept to the microsecond: so near to a whole number is one
            near = round(exact)
            return Place(recording, near) if abs(exact - near) * 1000 < 1 else Place(recording, shift, True)
        if overlaps:
            raise InvalidValue(f'footage of camera "{camera.name}" has {float(camera.footage.fps):g} frames per second, but what it '
                               f"replaces has {float(fps):g}",
                               detail=f"Recording {recording} covers the same time, and its budget counts in its own frames.",
                               hint="Encode the video at the old frame rate, or set the option starts if it was filmed at another time.")
    return None


def replaced(conn: Connection, place: Place, new: Sequence[VideoFile]) -> list[str]:
    """Those of the new files that lie where the recording has other content. They share its account: a charge counts for both."""
    rows = conn.execute("""
        SELECT DISTINCT place.n FROM unnest(%s::int8[], %s::int8[]) WITH ORDINALITY place(lo, hi, n)
        JOIN privid.recording_files f ON f.recording = %s AND f.first_frame < place.hi AND f.first_frame + f.frames > place.lo
        ORDER BY place.n""", ([f.first_frame + place.shift for f in new], [f.first_frame + f.frames + place.shift for f in new],
                              place.recording)).fetchall()
    return [new[cast(int, row[0]) - 1].path for row in rows]
