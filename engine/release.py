"""The way of a release through the engine, forward: judged, reused or charged, run, evaluated, noise, deadline, answer."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

from privid import calculus
from privid.clients import whatever_happens
from privid.errors import EngineUnavailable, SandboxFailed
from privid.ledger import Claim, Connection, Ledger, ReleaseRecord
from privid.model import Key, Plan, Table, TableUse
from privid.room.query import objects, publics
from privid.room.room import Room, lacking_disk
from privid.udf import noise

from .allowances import is_slow, margin_of, picking, widened
from .blocks import Blocks
from .cancel import Cancel, Cancelled
from .chunks import ChunkCache, series_of
from .claims import claims_of, scenes_of
from .current import Stated, is_committed
from .definitions import Sources, make_camera, make_table
from .evaluation import Evaluations, Task
from .first_run import advice, asks, reminder
from .handles import Charge, Handle, Scan
from .identity import in_order, reuse_key
from .judge import Judge, Judged, is_allowed, text_of
from .log import Log
from .memory import judging, needed_for
from .obstacle import Obstacle
from .programs import OUTCOMES, Programs
from .quotas import Quotas, Turn
from .reads import Prepared, Read, of_nothing
from .runner import Runner
from .scenes import Scenes
from .shapes import Shapes, Wider
from .timetable import NANO, nanoseconds
from .wire import Malformed

__all__ = ["Answer", "Desk"]

#: how often what is public is computed before it is given up, and seconds that it has beyond its bound
_ATTEMPTS, _PUBLIC = 3, 10
#: Nanoseconds after which it is seen that slots came earlier than they were to.
_LOOK = NANO // 2


@dataclass(frozen=True)
class Answer:
    """The body of an 'a' message."""

    rows: Sequence[Sequence[str | None]]
    notice: str | None
    reused: bool
    handle: Handle | None = None  # of what was run for it

    def as_message(self) -> dict[str, Any]:
        """The notice in ASCII, names that it mentions too: a client that cannot show a letter still gets what it paid for."""
        notice = None if self.notice is None else self.notice.encode("ascii", "backslashreplace").decode()
        return {"rows": [list(row) for row in self.rows], "notice": notice, "reused": self.reused}


class Desk:
    """Serves requests; one for the whole engine, used by many threads."""

    def __init__(self, ledger: Ledger, sources: Sources, programs: Programs, runner: Runner, cache: ChunkCache, room: Room,
                 evaluations: Evaluations, obstacle: Obstacle, scenes: Scenes, log: Log) -> None:
        self._ledger = ledger
        self._sources = sources
        self._judge, self._room = Judge(sources, room), room
        self._programs = programs
        self._runner = runner
        self._cache = cache
        self._shapes = Shapes(cache)
        self._evaluations = evaluations
        self._obstacle = obstacle
        self._scenes = scenes
        self._quotas = Quotas(ledger, log)
        self._memory = judging()
        self._log = log
        #: what EXPLAIN shows of a release's key: the key itself is a digest of the video, which nobody may see
        self._secret = secrets.token_bytes(32)

    # Judging

    def room_for(self, length: int) -> AbstractContextManager[Callable[[], None]]:
        """Memory in which a request of so many bytes can be judged: until the end of the block, or until what it is given is called."""
        return self._memory.take(needed_for(length))

    def choose(self, request: dict[str, Any], cancel: Cancel) -> list[int]:
        """Which of several levels of a statement are its releases."""
        self._confirmed(request)
        return self._judge.choose(request, cancel)

    def _confirmed(self, request: dict[str, Any], *, raw: bool = False) -> Stated:
        """What a request says of the catalog, if that is so."""
        stated = Stated(request)
        with self._ledger.pool.connection() as conn:
            stated.confirm(conn, raw=raw)
        return stated

    def _confirm(self, stated: Stated, judged: Judged, conn: Connection) -> None:
        """In the transaction that charges, or before an answer is given again: whether all that was judged is still so."""
        stated.confirm(conn)
        self._scenes.confirm(conn, judged.tables)

    def _read(self, use: TableUse, *, alone: bool = False) -> Read:
        """`alone`: whatever wider table there is."""
        table, kind, runtime = use.table, self._programs.kind(use.table), self._programs.runtime_id
        own = series_of(table, kind.value, runtime).stretches(use)
        wider = Wider(table, None) if alone else self._shapes.of(table, kind.value, runtime)
        return Read(use, kind, own, wider, own if wider.picks is None else series_of(wider.table, kind.value, runtime).stretches(use))

    def _reads(self, request: dict[str, Any], judged: Judged) -> tuple[list[Read], Fraction]:
        """What is read, and the allowance with it: a wider table is used where the session has the time that this can take."""
        reads = [self._read(use) for use in judged.plan.uses]
        more = sum((picking(read.use.count, len(read.wider.table.untrusted), self._programs.weight(read.wider.table))
                    for read in reads if read.wider.picks is not None), Fraction(0))
        allowance = widened(judged.allowance, more)
        if allowance == judged.allowance or is_allowed(allowance, request):
            return reads, allowance
        return [self._read(use, alone=True) for use in judged.plan.uses], judged.allowance

    def explain(self, request: dict[str, Any], cancel: Cancel) -> tuple[dict[str, Any], list[str]]:
        """What a release would cost. Nothing is charged, nothing runs."""
        self._confirmed(request)
        judged = self._judge.judge(request, cancel)
        plan = judged.plan
        claims, role = claims_of(plan), text_of(request, "role")
        self._ledger.permit(claims)
        frames = sum(self._ledger.charged_frames(claim.camera, claim.spans, claim.uses) for claim in claims) if plan.epsilon else 0
        left = min((self._ledger.remaining(claim.camera, claim.spans, claim.uses, role) for claim in claims), default=None)
        cancel.check()
        reads, allowance = self._reads(request, judged) if plan.reads else ([], judged.allowance)
        now = time.monotonic_ns()
        slots, end = self._runner.forecast([(read.wider.table, read.kept) for read in reads], text_of(request, "login"))
        cancel.check()
        wait = self._evaluations.slow_wait() if is_slow(nanoseconds(allowance)) else 0
        seconds = Fraction(max(wait, end - now), NANO) + allowance
        shown, lines = calculus.explain(plan, frames_charged=frames, budget_remaining=left, slots=slots, seconds=seconds,
                                        allowance=allowance)
        key = reuse_key(plan, reads)
        before = self._ledger.find_answer(key) if request.get("reuse") is True and plan.reads else None
        if before is not None and in_order(plan, before.rows) is None:
            before = None
        shown |= {"Answered Before": before is not None, "Release": self._name_of(key),
                  "Charges": [self._ledger.preview(claim, role) for claim in claims]}
        hints = [*advice(self._new(request, reads), self._runner.durations.is_warm), *(self._runner.warnings() if slots else []),
                 *self._quotas.advice(role, slots, _longest(reads), allowance),
                 *self._runner.space_advice([(read.wider.table, read.kept) for read in reads])]
        if hints:
            shown["Hints"] = [*shown.get("Hints", []), *hints]
            lines += [f"Hint: {hint}" for hint in hints]
        if before is not None:
            lines.append(f"Release {before.release} has answered this before: it would be answered again, at no charge")
        return shown, lines

    def _new(self, request: dict[str, Any], reads: Sequence[Read]) -> list[Table]:
        """Tables whose programs have not been run before, unless the statement asks how runs ended."""
        if asks(request.get("select")):
            return []
        return [read.use.table for read in reads if self._shapes.is_new(read.use.table, read.kind.value, self._programs.runtime_id)]

    def _name_of(self, key: str) -> str:
        """Equal for equal releases while the engine runs; says nothing else."""
        return hmac.new(self._secret, key.encode(), hashlib.sha256).hexdigest()[:16]

    # The release

    def release(self, request: dict[str, Any], cancel: Cancel, when_judged: Callable[[], None]) -> Answer:
        """The answer, at its public moment: computed and charged, or one that has been given before. From when it is judged, the quota of
        releases bounds what it takes."""
        arrived = time.monotonic_ns()
        stated = self._confirmed(request)
        judged = self._judge.judge(request, cancel)
        plan = judged.plan
        if not plan.computes:
            rows, _ = noise.answer(plan, [])
            return Answer(rows, "public answer: no row was read, and no epsilon charged", False)
        if not plan.reads:
            return self._settle(request, judged, cancel, when_judged)
        reads, allowance = self._reads(request, judged)
        key = reuse_key(plan, reads)
        stored = self._ledger.find_answer(key) if request.get("reuse") is True else None
        if stored is not None and (again := in_order(plan, stored.rows)) is not None:
            self._ledger.permit(claims_of(plan), partial(self._confirm, stated, judged))
            self._log.write("release reused", release=stored.release)
            return Answer(again, f"reused the answer of release {stored.release}, at no charge", True)
        self._obstacle.check()  # before the charge: what is not there computes nothing
        self._evaluations.check()
        role, more = text_of(request, "role"), reminder(self._new(request, reads))
        with ExitStack() as fetching, ExitStack() as undo:
            turn = self._quotas.begin(role)
            undo.callback(turn.end)
            when_judged()
            turn.compute(allowance)
            settled = self._settled(judged, cancel) if plan.settled else None
            pin = self._cache.pin()
            undo.callback(self._cache.unpin, pin)
            prepared = self._prepare(reads, judged.files, turn, fetching)
            undo.callback(self._give_back, prepared)
            cancel.check()
            release = self._ledger.charge(claims_of(plan), ReleaseRecord(
                role=role, query=text_of(request, "query"), canonical=plan.canonical, key=key, epsilon=plan.epsilon,
                mechanism=plan.mechanism, outputs=plan.outputs), partial(self._confirm, stated, judged))
            undo.pop_all()
        handle = Handle(Charge(release, arrived, time.monotonic_ns(), nanoseconds(allowance), judged.protected), pin, turn)
        self._log.write("release charged", release=release, cameras=len(plan.costs), outputs=len(plan.outputs), groups=len(plan.keys))
        try:
            self._submit(handle, prepared, text_of(request, "login"))
            del prepared  # and with it the programs
            with cancel.calling(partial(self.abandon, handle)):
                answer = self._carry_out(handle, judged, settled, cancel)
                turn.end()  # before the answer leaves: whoever has it may ask again
                return replace(answer, notice=f"{answer.notice}{more}")
        except BaseException as error:
            self._await_end(handle, error)
            self.drop(handle)
            raise

    def _settle(self, request: dict[str, Any], judged: Judged, cancel: Cancel, when_judged: Callable[[], None]) -> Answer:
        """An answer without noise, though something is protected: from what is public, at no charge."""
        turn = self._quotas.begin(text_of(request, "role"))
        try:
            when_judged()
            turn.compute(judged.allowance)
            rows, notice = noise.answer(judged.plan, self._settled(judged, cancel))
        finally:
            turn.end()
        return Answer(rows, notice, False)

    def _settled(self, judged: Judged, cancel: Cancel) -> list[Key]:
        """What the inner query says where no program printed anything. Of numbers that no segment changes that is what it says of every
        video, for one leads to any other segment by segment; and whatever befalls it is public, before anything is charged."""
        self._evaluations.check()
        for attempt in range(_ATTEMPTS):  # a room that has ended meanwhile is replaced
            evaluation = self._evaluations.submit(partial(_public_task, judged, self._room.gauge.free()))
            done = evaluation.result(evaluation.wait_begun(cancel))
            if done.rows is not None:
                return done.rows
            self._log.write("public computation failed", attempt=attempt + 1, error=done.failure, sqlstate=done.sqlstate)
        raise EngineUnavailable("could not compute what is exact in this release", detail="Nothing was charged.",
                                hint="Try again; if it does not help, the engine's log tells more.")

    def _prepare(self, reads: Sequence[Read], files: int, turn: Turn, fetching: ExitStack) -> list[Prepared]:
        """Disk for all rows that will be kept, as many and as large as they can be: what is allocated now, nobody can take away. So it is
        with the programs that are to run, which are held in the memory for judging meanwhile."""
        made: list[Prepared] = []
        fetching.enter_context(self._memory.take(sum(read.use.table.executable.size for read in reads)))
        with ExitStack() as undo:
            for read in reads:
                owner = read.use.table.owner
                count, size = self._runner.to_keep(read.kept), self._programs.weight(read.wider.table)
                turn.take(count, read.wider.table.timeout)
                self._room.check_kept(count * size, files)
                space = self._runner.take_space(read.wider.table, count, turn.role)
                if space is not None:
                    undo.callback(space.end)
                try:
                    cells = self._cache.allocate(count, size, owner, self._quotas.kept(owner))
                except OSError:
                    raise lacking_disk(count * size) from None
                undo.callback(self._cache.settle, cells)
                made.append(Prepared(read, cells, space, self._programs.content(read.use.table) if count else b""))
            undo.pop_all()
        return made

    def _give_back(self, prepared: Sequence[Prepared]) -> None:
        for one in prepared:
            self._cache.settle(one.cells)
            if one.space is not None:
                one.space.end()

    def _carry_out(self, handle: Handle, judged: Judged, settled: list[Key] | None, cancel: Cancel) -> Answer:
        """Slots, evaluation, noise; then the wait."""
        charge = handle.charge
        assert charge is not None
        while (over := self._over(handle)) > time.monotonic_ns():  # a slot that slips, or moves up, moves it
            moves = self._runner.moves
            while (now := time.monotonic_ns()) < over and moves == self._runner.moves:
                cancel.wait_until(min(over, now + _LOOK) / NANO)
        rows, computed = self._evaluated(handle, judged, cancel)
        noisy, notice, computed = self._with_noise(charge.release, judged.plan, rows, settled, computed)
        if judged.protected:
            assert handle.deadline is not None
            cancel.wait_until(handle.deadline / NANO)
        elif not computed:  # nothing is hidden here, so that an answer which is not one would only mislead
            raise SandboxFailed("could not compute the release", hint="The operator finds the cause in the engine's log.")
        # Written after the wait, because the log shows when it was written; the answer leaves only once it can be had again.
        now = time.monotonic_ns()
        self._ledger.answered(charge.release, noisy, (now - charge.arrived) / NANO)
        self._log.write("release answered", release=charge.release, seconds=round((now - charge.arrived) / NANO, 3))
        return Answer(noisy, notice, False, handle)

    def _over(self, handle: Handle) -> int:
        """When the last slot has ended, and all output been read, by the timetable."""
        assert handle.charge is not None
        return max(handle.charge.begun, self._runner.read_by(handle.jobs))

    def _with_noise(self, release: int, plan: Plan, rows: list[Key], settled: list[Key] | None,
                    computed: bool) -> tuple[list[list[str | None]], str, bool]:
        """The answer; also if the rows are such that none can be made of them."""
        try:
            return (*noise.answer(plan, rows, settled), computed)
        except Exception as error:
            self._log.write("room failed", release=release, error=type(error).__name__, sqlstate=None)
            return (*noise.answer(plan, [], settled), False)

    def _evaluated(self, handle: Handle, judged: Judged, cancel: Cancel) -> tuple[list[Key], bool]:
        """Rows of the inner query and whether they are its own, when its time is over; whatever went wrong, those of an empty input."""
        charge = handle.charge
        assert charge is not None
        evaluation = self._evaluations.submit(partial(_task, handle, judged, self._room.gauge.free()))
        begun = evaluation.wait_begun(cancel)
        handle.deadline = begun.begin + charge.allowance
        done = evaluation.result(begun)
        if not begun.fits:  # though there was enough before the charge: why there is not any more may depend on rows
            self._log.write("room failed", release=charge.release, error="not enough disk or memory", sqlstate=None)
            return [], False
        try:
            for job in handle.jobs:
                job.wait_all(time.monotonic_ns())  # failures of the timetable and the sandbox are public
        except TimeoutError:
            pass  # what a program said was not read in time, which the evaluator has noticed
        if done.rows is not None:
            return done.rows, True
        late = done.failure in ("TimeoutError", "QueryCanceled")
        self._log.write("room late" if late else "room failed", release=charge.release, error=done.failure, sqlstate=done.sqlstate)
        return [], False

    def _await_end(self, handle: Handle, error: BaseException) -> None:
        """Errors leave, and releases end, at moments that are public, whether anybody still waits or not. What is withdrawn before its
        computation begins ends there and then."""
        charge = handle.charge
        assert charge is not None
        if not charge.protected:
            return
        end = handle.deadline
        if end is None and not isinstance(error, Cancelled):
            end = self._over(handle) + charge.allowance
        while end is not None and (left := end - time.monotonic_ns()) > 0:
            time.sleep(left / NANO)

    def settle(self, answer: Answer) -> None:
        """The answer has left: count for the owners how runs ended."""
        if answer.handle is None:
            return
        self._end(answer.handle)
        for scan in answer.handle.scans.values():
            if not scan.job.own:
                continue
            # Every outcome is written every time, zeros too: statistics that all can read must not tell which occurred.
            counts = {outcome: scan.job.outcomes.get(outcome, 0) for outcome in OUTCOMES}
            self._ledger.count_failures(scan.use.table, counts)

    # Rows, for owners

    def raw(self, request: dict[str, Any], when_judged: Callable[[], None]) -> Handle:
        """Rows for the camera's owner: no noise, no charge, no deadline."""
        self._confirmed(request, raw=True)
        tables = self._judge.tables(request)
        turn = self._quotas.begin(text_of(request, "role"))
        handle = Handle(None, self._cache.pin(), turn)
        self._log.write("raw access", tables=len(tables))
        when_judged()
        try:
            with ExitStack() as fetching:
                self._submit(handle, self._prepare([self._read(TableUse(table, ((0, table.grid.count),))) for table in tables], 0, turn,
                                                   fetching), text_of(request, "role"))
        except BaseException:
            self.drop(handle)
            raise
        return handle

    def _submit(self, handle: Handle, prepared: Sequence[Prepared], login: str) -> None:
        """Lanes are shared out among the roles that logged in: who acts as another has no more of them."""
        for number, (read, cells, space, content) in enumerate(prepared):
            try:
                runs, moments, keys = read.each()
                self._shapes.remember(read.wider, read.kind.value, self._programs.runtime_id)
                job = self._runner.submit(read.wider.table, read.kind, runs, keys, cells, space, content, login)
            except BaseException:
                self._give_back(prepared[number:])
                raise
            blocks = Blocks.of(read.use, runs, moments, array("q", map(job.address, keys)), read.wider.picks)
            handle.scans[read.use.table.index] = Scan(read.use, blocks, keys, job)
        for role in {handle.turn.role, *(read.use.table.owner for read, *_ in prepared)}:
            self._quotas.post(role, self._cache.held(role))

    def scan(self, handle: Handle, table: int) -> Iterator[bytes]:
        """Bodies of B messages."""
        if table not in handle.scans:
            raise Malformed("no such table under this handle")
        return handle.scans[table].bodies(self._cache)

    # The end of a handle

    def abandon(self, handle: Handle) -> None:
        """Nobody waits for it any more: free its lanes at once. Quick, and safe to call from any thread, more than once."""
        for job in handle.jobs:  # an owner ends a raw read because of what it shows: that moves nothing
            self._runner.cancel(job, move_up=handle.charge is not None)

    def drop(self, handle: Handle) -> None:
        """The handle ends without an answer; what was charged stays charged."""
        self.abandon(handle)
        with whatever_happens():
            self._end(handle)
            if handle.charge is not None:
                self._log.write("release failed", release=handle.charge.release)
                self._ledger.failed(handle.charge.release)

    def _end(self, handle: Handle) -> None:
        self._cache.unpin(handle.pin)
        handle.turn.end()
        self._quotas.post(handle.turn.role)

    # Check of a definition

    def check(self, request: dict[str, Any], cancel: Cancel) -> list[str]:
        """Notices about a definition that can be used; raises what a query over it would."""
        notices: list[str] = []
        scenes: list[str] = []
        match request.get("kind"):
            case "server":
                camera = make_camera(_object(request, "server"), self._sources, restoring=request.get("restoring") is True)
            case "table":
                table = make_table(_object(request, "table"), 0, self._sources, missing=notices.append,
                                   restoring=request.get("restoring") is True)
                camera, scenes = table.camera, scenes_of([table])
                if not notices:
                    self._programs.kind(table)
                cancel.check()
                with self._ledger.pool.connection() as conn:
                    if not is_committed(conn, _object(_object(request, "table"), "server")):
                        return notices  # whoever made or changed the camera in this transaction has had it registered, or will
            case _:
                raise Malformed("check of neither a server nor a table")
        if not self._ledger.is_given_away(camera):
            self._ledger.register(camera)
            if scenes:
                self._ledger.permit([Claim(camera, [], Fraction(0), scenes=scenes)])
        return notices


def _longest(reads: Sequence[Read]) -> Fraction:
    """Seconds of the longest slot."""
    return max((read.wider.table.timeout for read in reads), default=Fraction(0))


def _task(handle: Handle, judged: Judged, free: tuple[int, int], ident: int) -> Task:
    """What the evaluator is told of a release. Where nothing is protected it is public work."""
    assert handle.charge is not None
    inner, public = judged.inner, not judged.protected
    allowance = handle.charge.allowance + (_PUBLIC * NANO if public else 0)
    return Task(ident, handle.ident, objects(inner, judged.tables, judged.plan.uses, handle.ident),
                publics(inner), inner.query, judged.settings,
                {number: scan.blocks for number, scan in handle.scans.items()}, allowance, nanoseconds(margin_of(judged.plan)),
                is_slow(handle.charge.allowance), judged.files, judged.memory, free, public)


def _public_task(judged: Judged, free: tuple[int, int], ident: int) -> Task:
    """The same over tables whose programs printed nothing. How long it takes tells nothing, so that it may take long on a busy machine."""
    inner, handle, uses = judged.inner, secrets.token_hex(16), judged.plan.uses
    return Task(ident, handle, objects(inner, judged.tables, uses, handle), publics(inner), inner.query, judged.settings,
                {use.table.index: of_nothing(use) for use in uses}, nanoseconds(judged.allowance + _PUBLIC), 0,
                is_slow(nanoseconds(judged.allowance)), judged.files, judged.memory, free, public=True)


def _object(request: dict[str, Any], name: str) -> dict[str, Any]:
    value = request.get(name)
    if not isinstance(value, dict):
        raise Malformed(f"{name} is not an object")
    return value
