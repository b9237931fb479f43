"""The way of a query through the engine, forward: request, definitions, calculus, reuse, charge, job, scan, noise, deadline, answer."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from privid import calculus
from privid.errors import BudgetExhausted, InvalidValue
from privid.ledger import Claim, Ledger, ReleaseRecord, Use, make_evaluate
from privid.ledger.evaluate import chunk_moments
from privid.model import Camera, Key, Plan, Span, Table, TableUse
from privid.quantities import parse_number
from privid.sandbox.executable import Kind
from privid.udf import noise

from .cancel import Cancel
from .chunks import ChunkCache, chunk_keys
from .definitions import Sources, make_camera, make_table
from .handles import Charge, Handle, Scan
from .log import Log
from .programs import OUTCOMES, Programs
from .runner import Runner
from .timetable import NANO, deadline, nanoseconds
from .wire import Malformed

__all__ = ["Answer", "Desk"]

#: part of every reuse key; changes when equal keys would no longer mean equal releases
_REUSE = 1


@dataclass(frozen=True)
class Answer:
    """The body of an 'a' message."""

    rows: Sequence[Sequence[str | None]]
    notice: str | None
    reused: bool

    def as_message(self) -> dict[str, Any]:
        return {"rows": [list(row) for row in self.rows], "notice": self.notice, "reused": self.reused}


@dataclass(frozen=True)
class _Read:
    """One table of a release: its runs (chunk and region), where they stand in time, and their keys in the chunk cache."""

    use: TableUse
    kind: Kind
    runs: list[tuple[int, int]]
    moments: list[int]
    keys: list[bytes]


class Desk:
    """Serves requests; one for the whole engine, used by many threads."""

    def __init__(self, ledger: Ledger, sources: Sources, programs: Programs, runner: Runner, cache: ChunkCache, log: Log) -> None:
        self._ledger = ledger
        self._sources = sources
        self._programs = programs
        self._runner = runner
        self._cache = cache
        self._log = log
        #: what EXPLAIN shows of a release's key: the key itself is a digest of the video, which nobody may see
        self._secret = secrets.token_bytes(32)

    # Request, definitions, calculus

    def plan(self, request: dict[str, Any]) -> Plan:
        """What a release may change and what hides it, or why it is refused. Nothing is charged, nothing runs."""
        epsilon = parse_number(_text(request, "epsilon"), "privid.epsilon")
        if epsilon <= 0:
            raise InvalidValue(f"privid.epsilon must be positive, but is {_text(request, 'epsilon')}",
                               hint="Set what each release may consume, for example SET privid.epsilon = 0.1.")
        tables = self._tables(request)
        for camera in _cameras(tables):
            if camera.r and epsilon > camera.epsilon:
                raise BudgetExhausted(f'privid.epsilon is {_text(request, "epsilon")}, but camera "{camera.name}" has a budget of '
                                      f"{float(camera.epsilon):g} in all", hint=f"SET privid.epsilon = {float(camera.epsilon):g} or less.")
        evaluate = make_evaluate(self._ledger.pool, _settings(request))
        plan = calculus.analyse(request, tables, epsilon, evaluate)
        for output in plan.outputs:
            if output.scale:
                noise.float_scale(output)  # refuses noise that could not be exact, before it is charged
        return plan

    def _tables(self, request: dict[str, Any]) -> list[Table]:
        given = request.get("tables")
        if not isinstance(given, list) or not all(isinstance(table, dict) for table in given):
            raise Malformed("request without tables")
        return [make_table(table, index, self._sources) for index, table in enumerate(given)]

    def _read(self, use: TableUse) -> _Read:
        kind = self._programs.kind(use.table.executable)
        runs = use.runs()
        moments = [moment for span in use.chunks for moment in chunk_moments(use.table, span)]
        if use.table.regions is not None:
            begins = dict(zip((chunk for span in use.chunks for chunk in range(*span)), moments, strict=True))
            moments = [begins[chunk] for chunk, _ in runs]
        return _Read(use, kind, runs, moments, chunk_keys(use.table, kind.value, self._programs.runtime_id, runs, moments))

    def explain(self, request: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """What a release would cost. Nothing is charged, nothing runs."""
        plan = self.plan(request)
        claims, role = _claims(plan), _text(request, "role")
        frames = sum(self._ledger.charged_frames(claim.camera, claim.spans, claim.uses) for claim in claims) if plan.epsilon else 0
        left = min((self._ledger.remaining(claim.camera, claim.spans, claim.uses, role) for claim in claims), default=None)
        reads = [self._read(use) for use in plan.uses]
        slots, now = 0, time.monotonic_ns()
        end = now
        for read in reads:
            count, over = self._runner.forecast(read.use.table, read.keys)
            slots, end = slots + count, max(end, over)
        seconds = Fraction(end - now, NANO) + _quantum(plan)
        shown, lines = calculus.explain(plan, frames_charged=frames, budget_remaining=left, slots=slots, seconds=seconds)
        key = _reuse_key(plan, reads)
        before = self._ledger.find_answer(key) if request.get("reuse") is True and plan.reusable else None
        shown |= {"Answered Before": before is not None, "Release": self._name_of(key),
                  "Charges": [self._ledger.preview(claim, role) for claim in claims]}
        if before is not None:
            lines.append(f"Release {before.release} has answered this before: it would be answered again, at no charge")
        return shown, lines

    def _name_of(self, key: str) -> str:
        """Equal for equal releases while the engine runs; says nothing else."""
        return hmac.new(self._secret, key.encode(), hashlib.sha256).hexdigest()[:16]

    # Reuse, charge, job

    def begin(self, request: dict[str, Any], cancel: Cancel) -> Handle | Answer:
        """Charge a release and start on it, or give an answer that has already been released."""
        arrived = time.monotonic_ns()
        plan = self.plan(request)
        reads = [self._read(use) for use in plan.uses]
        key = _reuse_key(plan, reads)
        quantum = nanoseconds(_quantum(plan))
        if request.get("reuse") is True and plan.reusable and (stored := self._ledger.find_answer(key)) is not None:
            self._log.write("release reused", release=stored.release)
            cancel.wait_until(deadline(arrived, quantum, time.monotonic_ns()) / NANO)
            return Answer(stored.rows, f"reused the answer of release {stored.release}, at no charge", True)
        cancel.check()
        record = ReleaseRecord(role=_text(request, "role"), query=_text(request, "query"), canonical=plan.canonical, key=key,
                               epsilon=plan.epsilon, mechanism=plan.mechanism, outputs=plan.outputs)
        claims = _claims(plan)
        release = self._ledger.charge(claims, record)
        handle = Handle(Charge(plan, release, arrived, quantum), self._cache.pin())
        self._log.write("release charged", release=release, cameras=len(claims), outputs=len(plan.outputs), groups=len(plan.keys))
        self._submit(handle, reads)
        return handle

    def raw(self, request: dict[str, Any]) -> Handle:
        """Rows for the camera's owner: no noise, no charge, no deadline. The library has checked who asks."""
        tables = self._tables(request)
        handle = Handle(None, self._cache.pin())
        self._log.write("raw access", tables=len(tables))
        self._submit(handle, [self._read(TableUse(table, ((0, table.grid.count),))) for table in tables])
        return handle

    def _submit(self, handle: Handle, reads: Sequence[_Read]) -> None:
        try:
            for read in reads:
                job = self._runner.submit(read.use.table, read.kind, read.runs, read.keys)
                handle.scans[read.use.table.index] = Scan(read.use, read.runs, read.moments, read.keys, job)
        except BaseException:
            self.drop(handle)
            raise

    # Scan

    def scan(self, handle: Handle, table: int) -> Iterator[bytes]:
        """Bodies of B messages."""
        if table not in handle.scans:
            raise Malformed("no such table under this handle")
        return handle.scans[table].bodies(self._cache)

    # Noise, deadline, answer

    def finish(self, handle: Handle, rows: list[Key], cancel: Cancel) -> Answer:
        """The answer of a release, not before its deadline. The handle is used up."""
        charge = handle.charge
        if charge is None:
            raise Malformed("raw access cannot be released")
        for job in handle.jobs:
            job.wait_all()
        noisy, notice = noise.answer(charge.plan, rows)
        self.await_deadline(handle, cancel)
        # Written after the wait, because the log shows when it was written; the answer leaves only once it can be had again.
        now = time.monotonic_ns()
        self._ledger.answered(charge.release, noisy, (now - charge.arrived) / NANO)
        self._log.write("release answered", release=charge.release, seconds=round((now - charge.arrived) / NANO, 3))
        return Answer(noisy, notice, False)

    def await_deadline(self, handle: Handle, cancel: Cancel) -> None:
        """Answers and errors alike leave at moments that are public."""
        if handle.charge is not None:
            cancel.wait_until(handle.deadline(time.monotonic_ns()) / NANO)

    # After it

    def settle(self, handle: Handle) -> None:
        """The answer has left: count for the owners how runs ended."""
        self._cache.unpin(handle.pin)
        for scan in handle.scans.values():
            if not scan.job.own:
                continue
            # Every outcome is written every time, zeros too: statistics that all can read must not tell which occurred.
            counts = {outcome: scan.job.outcomes.get(outcome, 0) for outcome in OUTCOMES}
            self._ledger.count_failures(scan.use.table.camera, counts)

    def abandon(self, handle: Handle) -> None:
        """Nobody waits for it any more: free its lanes at once. Quick, and safe to call from any thread, more than once."""
        for job in handle.jobs:
            self._runner.cancel(job)

    def drop(self, handle: Handle) -> None:
        """The handle ends without an answer; what was charged stays charged."""
        self.abandon(handle)
        self._cache.unpin(handle.pin)
        if handle.charge is not None:
            self._log.write("release failed", release=handle.charge.release)
            self._ledger.failed(handle.charge.release)

    # Check of a definition

    def check(self, request: dict[str, Any]) -> list[str]:
        """Notices about a definition that can be used; raises what a query over it would."""
        notices: list[str] = []
        match request.get("kind"):
            case "server":
                camera = make_camera(_object(request, "server"), self._sources)
            case "table":
                table = make_table(_object(request, "table"), 0, self._sources, missing=notices.append,
                                   restoring=request.get("restoring") is True)
                camera = table.camera
                if not notices:
                    self._programs.kind(table.executable)
            case _:
                raise Malformed("check of neither a server nor a table")
        self._ledger.register(camera)
        return notices


def _cameras(tables: Sequence[Table]) -> list[Camera]:
    return list({table.camera.name: table.camera for table in tables}.values())


def _claims(plan: Plan) -> list[Claim]:
    """What a release reads of each camera; a camera read through several tables is charged once for all frames."""
    tables: dict[str, list[TableUse]] = {}
    for use in plan.uses:
        tables.setdefault(use.table.camera.name, []).append(use)
    return [_claim(uses[0].table.camera, uses, plan) for uses in tables.values()]


def _claim(camera: Camera, uses: Sequence[TableUse], plan: Plan) -> Claim:
    costs = {cost.camera: cost.epsilon for cost in plan.costs}
    epsilon = costs.get(camera.name, plan.epsilon)
    if camera.r and not epsilon:
        return Claim(camera, [], epsilon)  # what costs nothing is logged without frames, as a claim of nothing
    if camera.r:
        uses = [use for use in uses if use.table.r]  # behind a mask that leaves nothing protected, nothing is lost
    spans: list[Span] = [span for use in uses for span in use.frame_spans()]
    if not camera.r or not plan.linear:
        return Claim(camera, spans, epsilon)
    return Claim(camera, spans, epsilon,
                 [Use.of(use.table.grid, use.chunks, use.table.r, use.table.pieces, camera.r) for use in uses if use.chunks])


def _quantum(plan: Plan) -> Fraction:
    return max(use.table.camera.quantum for use in plan.uses)


def _reuse_key(plan: Plan, reads: Sequence[_Read]) -> str:
    """Equal for releases that are the same in every respect: form, groups, noise, programs, footage."""
    digest = hashlib.sha256()
    for read in reads:
        digest.update(json.dumps([read.use.table.index, read.use.table.camera.name, read.use.table.pad, read.moments]).encode())
        digest.update(b"".join(read.keys))
    digest.update(json.dumps([_REUSE, plan.canonical, str(plan.epsilon), plan.mechanism, plan.keys,
                              [[o.label, o.type, str(o.step), str(o.scale)] for o in plan.outputs]]).encode())
    return digest.hexdigest()


def _settings(request: dict[str, Any]) -> dict[str, str]:
    settings = request.get("settings")
    if not isinstance(settings, dict) or not all(isinstance(value, str) for value in settings.values()):
        raise Malformed("settings are not text")
    return settings


def _text(request: dict[str, Any], name: str) -> str:
    value = request.get(name)
    if not isinstance(value, str):
        raise Malformed(f"{name} is not text")
    return value


def _object(request: dict[str, Any], name: str) -> dict[str, Any]:
    value = request.get(name)
    if not isinstance(value, dict):
        raise Malformed(f"{name} is not an object")
    return value
