"""The ledger: a release is charged, durably, before anything is computed for it; nothing is ever given back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

from psycopg.types.json import Jsonb

from privid.errors import BudgetExhausted, ExecutableInvalid, InvalidValue, OutOfDate, VersionMismatch, WindowInvalid
from privid.model import Camera, Executable, Key, Span, Table

from .account import Account, Peak, Stored, merged
from .amounts import as_numeric, as_text, in_camera_unit, show
from .consent import permit
from .costs import brief_steps, debits, full_charge, limit, steps
from .mark import Mark
from .pool import Connection, Pool
from .recordings import Recording, find_recording
from .records import Claim, Quota, ReleaseRecord, StoredAnswer, outputs_as_json
from .sharing import charge_share, own_left, share_left, shows_all
from .steps import Step, Use, uses_as_json

__all__ = ["Ledger"]

#: of a file, which tell what kind it is
HEAD_BYTES = 256


class Ledger:
    """Safe to use from many threads. Every method raises EngineUnavailable while PostgreSQL cannot be reached."""

    def __init__(self, conninfo: str, size: int = 4, mark: Path | None = None) -> None:
        self.pool = Pool(conninfo, size)
        self.mark = Mark(mark)

    def close(self) -> None:
        self.pool.close()

    # Budget ----------------------------------------------------------------------------------------------------------

    def register(self, camera: Camera) -> int:
        """The number of the recording that the camera shows. Registers new footage and longer segments; refuses mixed footage."""
        return find_recording(self.pool, camera).id

    def is_given_away(self, camera: Camera) -> bool:
        """Whether the catalog, as others see it, has the camera under another owner: its account goes along once that is committed."""
        with self.pool.connection() as conn:
            row = conn.execute("SELECT pg_get_userbyid(srvowner)::text <> %s FROM pg_foreign_server WHERE srvname = %s",
                               (camera.owner, camera.name)).fetchone()
        return row == (True,)

    def strange(self, role: str, cameras: Mapping[str, str]) -> list[str]:
        """Those of the cameras, given with their owners, that are not a role's own."""
        with self.pool.connection() as conn:
            rows = conn.execute("SELECT c.name FROM unnest(%s::text[], %s::text[]) c(name, owner) WHERE NOT privid.acts_for(%s, c.owner)",
                                (list(cameras), list(cameras.values()), role)).fetchall()
        return [str(row[0]) for row in rows]

    def charged_frames(self, camera: Camera, spans: Sequence[Span], uses: Sequence[Use] = ()) -> int:
        """At how many positions a release that reads the spans is charged, margin included."""
        recording = find_recording(self.pool, camera)
        return sum(hi - lo for lo, hi, _ in self._steps(camera, recording, spans, uses))

    def remaining(self, camera: Camera, spans: Sequence[Span], uses: Sequence[Use] = (), role: str | None = None) -> Fraction:
        """The most epsilon that a release reading the spans (for a role) can still be charged, in the camera's terms, as far as the role
        may see: where it sees nothing of what others were charged, as if there were no others."""
        recording = find_recording(self.pool, camera)
        shared = self._steps(camera, recording, spans, uses)
        if not shared:
            return camera.epsilon
        with self.pool.snapshot() as conn:
            left = (own_left(conn, camera, recording, role, shared) if role is not None and not shows_all(conn, camera, role) else
                    _left(camera, recording, Stored(conn, recording.id, debits(shared, Fraction(1))), shared)[0])
            mine = None if role is None else share_left(conn, camera, recording, role, shared)
            return left if mine is None else min(left, mine)

    def preview(self, claim: Claim, role: str) -> dict[str, Any]:
        """What a claim would be charged where, for EXPLAIN: in the camera's own frames, in few pieces and never less than it is."""
        camera = claim.camera
        recording = find_recording(self.pool, camera)
        shared = [] if not claim.epsilon else brief_steps(camera, recording, claim.spans, claim.uses)
        with self.pool.snapshot() as conn:
            mine = share_left(conn, camera, recording, role, shared)
        return {"Camera": camera.name, "Epsilon": as_text(claim.epsilon), "Share Remaining": None if mine is None else as_text(mine),
                "Where": [[lo - recording.shift, hi - recording.shift, as_text(share)] for lo, hi, share in shared]}

    def permit(self, claims: Sequence[Claim], confirm: Callable[[Connection], None] = lambda conn: None) -> None:
        """Refuses what would not be charged for want of a right, so that what was answered before is given to nobody else either."""
        places = [find_recording(self.pool, claim.camera) for claim in claims]
        with self.pool.connection() as conn:
            confirm(conn)
            _permit(conn, claims, places)

    def charge(self, claims: Sequence[Claim], record: ReleaseRecord, confirm: Callable[[Connection], None] = lambda conn: None) -> int:
        """Checks and debits all claims and logs the release, or changes nothing. When this returns, the charge is on disk. `confirm`
        refuses what is not as it was when the release was judged."""
        if not claims:
            raise InvalidValue("release names no camera", hint="Claim every camera that is read, also one that protects nothing.")
        for claim in claims:
            _check(claim)
        places = [find_recording(self.pool, claim.camera) for claim in claims]
        numbers = sorted({place.id for place in places})
        with self.pool.turns.take(*numbers), self.pool.transaction() as conn:
            self.mark.check(conn)
            # In the order of their numbers, so that no two releases wait for each other. r_star may have grown since it was looked up.
            locked = dict(cast("list[tuple[int, int]]", conn.execute(
                "SELECT id, r_star FROM privid.recordings WHERE id = ANY (%s) ORDER BY id FOR UPDATE", (numbers,)).fetchall()))
            confirm(conn)
            _permit(conn, claims, places)
            places = [Recording(place.id, place.k, locked[place.id], place.shift) for place in places]
            release, at = _log(conn, record)
            for number, (claim, place) in enumerate(zip(claims, places, strict=True)):
                self._charge_one(conn, release, number, claim, place, record)
        self.mark.note(release, at)
        return release

    def _charge_one(self, conn: Connection, release: int, number: int, claim: Claim, recording: Recording,
                    record: ReleaseRecord) -> None:
        camera, charge, share = claim.camera, "0", None
        shared = self._steps(camera, recording, claim.spans, claim.uses)
        if shared:
            charge = full_charge(claim.epsilon, camera, recording)
            wanted = debits(shared, Fraction(charge))
            account = Stored(conn, recording.id, wanted)
            most = account.peak(wanted)
            if most is not None and most.after > limit(camera.epsilon, camera, recording):
                if not shows_all(conn, camera, record.role):
                    raise _taken(claim, own_left(conn, camera, recording, record.role, shared))
                raise _exhausted(claim, recording, account, shared, record.epsilon)
            share = charge_share(conn, camera, recording, record.role, shared, charge, claim.epsilon)
            account.debit(wanted)
        conn.execute("""
            INSERT INTO privid.release_charges
                (release, claim, camera, owner, server_oid, recording, shift, frames, r_star, epsilon, charge, uses, share)
            VALUES (%s, %s, %s, %s, (SELECT oid FROM pg_foreign_server WHERE srvname = %s), %s, %s, %s::int8multirange, %s,
                    %s::numeric, %s::numeric, %s, %s)""",
            (release, number, camera.name, camera.owner, camera.name, recording.id, recording.shift,
             "{" + ",".join(f"[{lo},{hi})" for lo, hi in merged(claim.spans)) + "}", recording.r_star,
             as_numeric(claim.epsilon, up=True) if shared else "0", charge,
             Jsonb(uses_as_json(claim.uses)) if claim.uses else None, share))

    def _steps(self, camera: Camera, recording: Recording, spans: Sequence[Span], uses: Sequence[Use]) -> list[Step]:
        """What is checked and debited, as shares of the epsilon."""
        return steps(camera, recording, spans, uses)

    # Releases --------------------------------------------------------------------------------------------------------

    def answered(self, release: int, rows: Sequence[Sequence[str | None]], duration: timedelta | float) -> None:
        """Keeps the noisy rows; to be called before they leave, so that whoever saw an answer can have it again."""
        length = duration if isinstance(duration, timedelta) else timedelta(seconds=duration)
        with self.pool.transaction() as conn:
            conn.execute("""UPDATE privid.release_log SET state = 'answered', answer = %s, answered_at = clock_timestamp(), duration = %s
                            WHERE id = %s AND state = 'charged'""", (Jsonb([list(row) for row in rows]), length, release))

    def failed(self, release: int) -> None:
        """Notes that no answer left. The charge stays."""
        with self.pool.transaction() as conn:
            conn.execute("UPDATE privid.release_log SET state = 'failed' WHERE id = %s AND state = 'charged'", (release,))

    def find_answer(self, key: str) -> StoredAnswer | None:
        """The latest answer to an identical release."""
        with self.pool.connection() as conn:
            row = conn.execute("""SELECT id, answered_at, answer FROM privid.release_log
                                  WHERE reuse_key = %s AND state = 'answered' ORDER BY id DESC LIMIT 1""", (key,)).fetchone()
        if row is None:
            return None
        release, at, answer = cast("tuple[int, datetime, list[list[str | None]]]", row)
        return StoredAnswer(release, at, [cast(Key, tuple(values)) for values in answer])

    # The rest of what the engine keeps in PostgreSQL -------------------------------------------------------------------

    def executable(self, owner: str, name: str) -> Executable:
        """An uploaded file of a role, without its content."""
        with self.pool.connection() as conn:
            row = conn.execute("SELECT name, sha256, substring(content FOR %s), octet_length(content) FROM privid.executable_store "
                               "WHERE owner = %s::name AND name = %s", (HEAD_BYTES, owner, name), binary=True).fetchone()
        if row is None:
            raise ExecutableInvalid(f'executable "{name}" of role "{owner}" does not exist',
                                    hint=f"Upload it as that role: SELECT privid.upload('{name}', content), or privid upload FILE.")
        return Executable(*cast("tuple[str, str, bytes, int]", row))

    def content(self, owner: str, executable: Executable) -> bytes:
        """Of that very file."""
        with self.pool.connection() as conn:
            row = conn.execute("SELECT content FROM privid.executable_store WHERE owner = %s::name AND name = %s AND sha256 = %s",
                               (owner, executable.name, executable.digest), binary=True).fetchone()
        if row is None:
            raise OutOfDate(f'executable "{executable.name}" of role "{owner}" was replaced meanwhile', hint="Run the statement again.")
        return bytes(cast(bytes, row[0]))

    def count_failures(self, table: Table, counts: Mapping[str, int]) -> None:
        """Adds to the counters of the camera's owner, of this table and this day.

        Call it once per release with every outcome, zeros included: PostgreSQL's statistics, which all can read, count the
        rows that are written here, and must not count what a video shows. They also have the length of what is logged, which
        depends on the numbers: the table is unlogged.
        """
        with self.pool.transaction() as conn:
            conn.execute("""
                INSERT INTO privid.program_failures AS f (camera, owner, role, foreign_table, day, outcome, count)
                SELECT %s, %s, %s, %s, (now() AT TIME ZONE 'UTC')::date, c.outcome, c.count
                FROM unnest(%s::text[], %s::int8[]) c(outcome, count) ORDER BY c.outcome
                ON CONFLICT (camera, owner, role, foreign_table, day, outcome) DO UPDATE SET count = f.count + excluded.count""",
                (table.camera.name, table.camera.owner, table.owner, table.name, list(counts), list(counts.values())))

    def quota(self, role: str) -> Quota:
        """What a role may have of the engine."""
        with self.pool.connection() as conn:
            row = conn.execute("SELECT kept_bytes, jobs, slots, slot_seconds, compute_seconds FROM privid.quota_of(%s)", (role,)).fetchone()
        assert row is not None
        return Quota(*cast("tuple[int, int, int, int, int]", row))

    def post_use(self, role: str, jobs: int, slots: int, seconds: Fraction, kept: int | None) -> None:
        """What a role has of it, for the view privid.quotas; None: as much as before."""
        with self.pool.transaction() as conn:
            conn.execute("SET LOCAL synchronous_commit = off")
            conn.execute("""
                INSERT INTO privid.quota_use AS u (role, jobs, slots, compute_seconds, kept_bytes) VALUES (%s, %s, %s, %s, coalesce(%s, 0))
                ON CONFLICT (role) DO UPDATE SET jobs = excluded.jobs, slots = excluded.slots, compute_seconds = excluded.compute_seconds,
                  kept_bytes = coalesce(%s, u.kept_bytes)""",
                (role, jobs, slots, round(float(seconds), 3), kept, kept))

    def extension_version(self) -> str:
        with self.pool.connection() as conn:
            row = conn.execute("SELECT extversion FROM pg_extension WHERE extname = 'privid'").fetchone()
        if row is None:
            raise VersionMismatch('extension "privid" is not installed in the engine\'s database',
                                  hint="Run CREATE EXTENSION privid there.")
        return str(row[0])

    def in_recovery(self) -> bool:
        """Whether PostgreSQL is a standby, which cannot charge."""
        with self.pool.connection() as conn:
            row = conn.execute("SELECT pg_is_in_recovery()").fetchone()
        return bool(row and row[0])


def _permit(conn: Connection, claims: Sequence[Claim], places: Sequence[Recording]) -> None:
    """Whose accounts they are, now."""
    owners = dict(cast("list[tuple[int, str]]", conn.execute(
        "SELECT n, privid.account_owner(n) FROM unnest(%s::int8[]) n", ([place.id for place in places],)).fetchall()))
    for claim, place in zip(claims, places, strict=True):
        if owners[place.id] != claim.camera.owner:
            permit(conn, claim.camera, place.id, claim.camera.r, claim.scenes)


def _check(claim: Claim) -> None:
    camera = claim.camera
    for lo, hi in claim.spans:
        if not 0 <= lo < hi <= camera.footage.frames:
            raise WindowInvalid(f'frames {lo} to {hi - 1} do not lie in the recording of camera "{camera.name}", '
                                f"which has {camera.footage.frames} frames")
    if claim.epsilon <= 0 and camera.r and claim.spans:
        raise InvalidValue(f"epsilon must be greater than 0, but is {show(claim.epsilon)}",
                           hint="Run SET privid.epsilon = 0.1, for example.")


def _log(conn: Connection, record: ReleaseRecord) -> tuple[int, datetime]:
    row = conn.execute("""
        INSERT INTO privid.release_log (role, role_oid, query, canonical, reuse_key, epsilon, mechanism, outputs)
        VALUES (%s, (SELECT oid FROM pg_roles WHERE rolname = %s), %s, %s, %s, %s::numeric, %s, %s) RETURNING id, at""",
        (record.role, record.role, record.query, record.canonical, record.key, as_numeric(record.epsilon, up=True), record.mechanism,
         Jsonb(outputs_as_json(record.outputs)))).fetchone()
    return cast("tuple[int, datetime]", row)


def _left(camera: Camera, recording: Recording, account: Account, shared: Sequence[Step]) -> tuple[Fraction, Peak]:
    """The most epsilon that can still be charged in these shares, in the camera's terms, and where it is so little."""
    most = limit(camera.epsilon, camera, recording)
    least = account.peak(debits(shared, Fraction(1)), most)
    assert least is not None
    share = shared[least.debit][2]
    return in_camera_unit(max((most - least.amount) / share, Fraction(0)), camera.k, recording.k), least


def _taken(claim: Claim, own: Fraction) -> BudgetExhausted:
    """For a role that sees nothing of what others were charged; `own`: what is left beside what it was itself."""
    camera = claim.camera
    if claim.epsilon > own:
        return BudgetExhausted(f'budget of camera "{camera.name}" does not allow this release: epsilon {show(claim.epsilon)} requested, '
                               f"{show(own)} remaining beside your own releases", hint="Lower privid.epsilon, or read another window.")
    return BudgetExhausted(
        f'budget of camera "{camera.name}" does not allow this release: epsilon {show(claim.epsilon)} requested',
        detail="Releases of others have consumed it, and the camera's owner does not show what they are.",
        hint="Lower privid.epsilon, read another window, or ask the owner for a share that nobody else can consume.")


def _exhausted(claim: Claim, recording: Recording, account: Stored, shared: Sequence[Step], asked: Fraction) -> BudgetExhausted:
    """`asked`: the epsilon of the whole release, of which this camera may be charged only a part."""
    camera = claim.camera
    left, least = _left(camera, recording, account, shared)
    stretch = account.stretch(least, debits(shared, Fraction(1)))
    begins, ends = (camera.moment(frame - recording.shift).isoformat(sep=" ", timespec="milliseconds") for frame in stretch)
    return BudgetExhausted(
        f'budget of camera "{camera.name}" does not allow this release: epsilon {show(claim.epsilon)} requested, {show(left)} remaining',
        detail=f"The least remains for segments that begin between {begins} and {ends}; the {recording.r_star - 1} frames before a window "
               "count too.",
        hint=f"Lower privid.epsilon to at most {show(left * asked / claim.epsilon)} or read another window; the view privid.budget shows "
             "what remains where."
             if left else "Read another window; the view privid.budget shows what remains where.")
