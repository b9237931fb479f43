"""Runs chunks in the lanes, each in its slot of the public timetable.

Threads: one per lane (it hands a slot to its sandbox and gets it back at the slot's end), one per job that decodes frames ahead of the
slots, and one that harvests (reads the programs' output, keeps the rows, removes the frames), so that how long the output of one
chunk takes to read moves nobody's slot. One lock guards jobs, slots, queues and the timetable.

Frames that are not ready when their slot begins move that lane back by whole slots; so does a lane that comes back late.
"""

from __future__ import annotations

import queue
import secrets
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from privid.errors import PrividError, SandboxFailed, VideoUnreadable
from privid.model import Footage, Table
from privid.sandbox.executable import Kind
from privid.sandbox.run import Outcome, RunResult

from .chunks import ChunkCache
from .jobs import Job, Slot, State
from .log import Log
from .seams import Harvested, LaneLike, Reader
from .timetable import NANO, Place, Timetable, nanoseconds

__all__ = ["Runner"]

#: Chunks decoded ahead of their slots, beyond one per lane
AHEAD = 3
#: Starting a decoder, on a machine that does other things too, and a rate of decoding that any machine reaches
LEAD = NANO // 2
LONGEST_ALLOWANCE = 5 * NANO
PIXELS_PER_SECOND = 100_000_000
#: A lane must be handed its slot this long before it begins, to set the sandbox up
HANDOVER = NANO // 20
PROGRAM = "program"


class Runner:
    """The lanes and what they have to do."""

    def __init__(self, lanes: Sequence[LaneLike], cache: ChunkCache, scratch: Path, log: Log, *, guard: float,
                 open_reader: Callable[[Footage], Reader], describe: Callable[[Table, int, Path], None],
                 read_output: Callable[[Table, RunResult], Harvested]) -> None:
        self._lanes = lanes
        self._cache = cache
        self._scratch = scratch
        self._log = log
        self._guard = int(guard * NANO)
        self._open_reader = open_reader
        self._describe = describe
        self._read_output = read_output
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._timetable = Timetable(len(lanes))
        self._queues: list[deque[Slot]] = [deque() for _ in lanes]
        self._running: list[Slot | None] = [None] * len(lanes)
        self._under_way: dict[bytes, Slot] = {}
        self._harvest: queue.SimpleQueue[tuple[Slot, RunResult | None] | None] = queue.SimpleQueue()
        self._stopped = False
        self._decoders: set[threading.Thread] = set()
        self._threads = [threading.Thread(target=self._work, args=(index,), name=f"lane {index}", daemon=True)
                         for index in range(len(lanes))]
        self._threads.append(threading.Thread(target=self._reap, name="harvest", daemon=True))
        for thread in self._threads:
            thread.start()

    # Asking

    def pitch(self, table: Table) -> int:
        """Length of one slot of a table: what its program may take, and the guard."""
        return nanoseconds(table.timeout) + self._guard

    def lead(self, table: Table) -> int:
        """From a reservation to its first slot: time to start the decoder and to decode the first chunk. To come late costs a whole slot,
        so the longer the slots, the more is allowed for."""
        footage = table.camera.footage
        decoding = NANO * table.grid.size * footage.width * footage.height // PIXELS_PER_SECOND
        return LEAD + min(self.pitch(table) // 8, LONGEST_ALLOWANCE) + decoding

    def forecast(self, table: Table, keys: Sequence[bytes]) -> tuple[int, int]:
        """Slots that these chunks would take now, and when the last would end. Runs and reserves nothing."""
        with self._lock:
            missing = [key for key in keys if key not in self._under_way]
            shared = [self._under_way[key].place.end for key in keys if key in self._under_way]
            count = len(missing) - len(self._cache.known(missing, touch=False))
            now = time.monotonic_ns()
            end = self._timetable.finish(count, self.pitch(table), now + self.lead(table)) if count else now
            return count, max([end, *shared])

    def submit(self, table: Table, kind: Kind, chunks: Sequence[int], keys: Sequence[bytes]) -> Job:
        """Reserve slots for the chunks that are neither kept nor under way, and start on them."""
        job = Job(secrets.token_hex(4), table, kind, self._scratch / f"job-{secrets.token_hex(8)}")
        with self._lock:
            # A slot enters the cache before it leaves _under_way, so under the lock a key in neither has never run.
            for key in keys:
                if (slot := self._under_way.get(key)) is not None:
                    slot.users.add(job)
                    job.wanted[key] = slot
            known = self._cache.known([key for key in keys if key not in job.wanted], touch=True)
            todo = [(chunk, key) for chunk, key in zip(chunks, keys, strict=True) if key not in known and key not in job.wanted]
            places = self._timetable.reserve(len(todo), self.pitch(table), time.monotonic_ns() + self.lead(table))
            for (chunk, key), place in zip(todo, places, strict=True):
                slot = Slot(key, chunk, place, job, {job})
                job.own.append(slot)
                job.wanted[key] = self._under_way[key] = slot
                self._queues[place.lane].append(slot)
            job.left = len(job.own)
            self._log.write("job", job=job.ident, chunks=len(chunks), slots=len(todo), shared=len(job.wanted) - len(todo),
                            pitch_ms=self.pitch(table) / 1e6)
            if job.own:
                decoder = threading.Thread(target=self._decode, args=(job,), name=f"decode {job.ident}", daemon=True)
                self._decoders.add(decoder)
                decoder.start()
                self._changed.notify_all()
        return job

    def cancel(self, job: Job) -> None:
        """Nobody waits for this job: its slots are given up, except those that another job shares."""
        with self._lock:
            given_up = [slot for slot in job.wanted.values() if not slot.over and slot.users == {job}]
            for slot in job.wanted.values():
                slot.users.discard(job)
            self._give_up(given_up)
            for lane, waiting in enumerate(self._queues):
                current = self._running[lane]
                self._timetable.release(lane, [slot.place for slot in (*waiting, current) if slot is not None and not slot.over])
            readers = [owner.reader for owner in {slot.job for slot in given_up} if not owner.left]
        self._kill(given_up)
        for reader in readers:
            if reader is not None:
                reader.close()

    def fail(self, job: Job, error: BaseException) -> None:
        """The sandbox or the decoder failed: the job ends for everybody who waits for it, with words that are the same whatever the
        video shows. Its slots stay reserved until they have passed, so that nobody's start time tells the moment of the failure."""
        with self._lock:
            for slot in job.own:
                if not slot.over:
                    slot.error = _public(error, job)
                    self._close(slot, State.FAILED)
            self._prune()

    def stop(self) -> None:
        """Kill what runs and end all threads."""
        with self._lock:
            self._stopped = True
            slots = list(self._under_way.values())
            self._give_up(slots)
            readers = [job.reader for job in {slot.job for slot in slots}]
        self._kill(slots)
        for reader in readers:
            if reader is not None:
                reader.close()
        for thread in self._threads[:-1] + list(self._decoders):
            thread.join(5)
        self._harvest.put(None)
        self._threads[-1].join(5)
        for lane in self._lanes:
            lane.close()

    def _kill(self, slots: Sequence[Slot]) -> None:
        """End runs that nobody wants. Asked again after a moment, for a lane may have been about to start."""
        for _ in range(3):
            with self._lock:
                running = [slot for slot in slots if self._running[slot.place.lane] is slot]
                for slot in running:
                    self._lanes[slot.place.lane].cancel()
            if not running:
                return
            time.sleep(0.01)

    # Under the lock

    def _close(self, slot: Slot, state: State) -> None:
        """A slot is over: done, failed or given up."""
        slot.state = state
        slot.job.left -= 1
        if self._under_way.get(slot.key) is slot:
            del self._under_way[slot.key]
        self._harvest.put((slot, None))  # which removes its frames, if it has any
        slot.finished.set()

    def _give_up(self, slots: Sequence[Slot]) -> None:
        for slot in slots:
            self._close(slot, State.CANCELLED)
        self._prune()

    def _prune(self) -> None:
        self._queues = [deque(slot for slot in waiting if not slot.over) for waiting in self._queues]
        self._changed.notify_all()

    def _slip(self, lane: int, slot: Slot, now: int) -> None:
        slots = (now + HANDOVER - slot.place.begin) // slot.place.pitch + 1
        by = slots * slot.place.pitch
        for waiting in self._queues[lane]:
            waiting.place = Place(lane, waiting.place.begin + by, waiting.place.pitch)
        self._timetable.slip(lane, by)
        self._log.write("slots slipped", job=slot.job.ident, lane=lane, slots=slots,
                        reason="frames not decoded" if slot.state is State.WAITING else "lane late")

    def _next(self, lane: int) -> Slot | None:
        """The lane's next slot, at the moment when its sandbox is to be set up; None when the runner stops."""
        while not self._stopped:
            if not self._queues[lane]:
                self._changed.wait()
                continue
            slot = self._queues[lane][0]
            now = time.monotonic_ns()
            setup = slot.place.begin - self._guard
            latest = slot.place.begin - HANDOVER
            if now > latest:
                self._slip(lane, slot, now)
            elif slot.state is State.READY and now >= setup:
                self._queues[lane].popleft()
                slot.state = State.RUNNING
                self._running[lane] = slot
                return slot
            else:
                # waiting for its time, or beyond that for its frames
                self._changed.wait(((setup if now < setup else latest) - now) / NANO + 0.0002)
        return None

    # Threads

    def _work(self, lane: int) -> None:
        while True:
            with self._lock:
                slot = self._next(lane)
            if slot is None:
                return
            result: RunResult | None = None
            try:
                if not slot.over:
                    result = self._run(lane, slot)
            except Exception as error:
                self._report("slot failed", error, slot.job)
                self.fail(slot.job, error)
            with self._lock:
                self._running[lane] = None
                if result is not None and result.outcome is Outcome.CANCELLED:
                    result = None
                    if not slot.over:  # it was meant for the run before: this one has its turn again
                        slot.state = State.READY
                        self._queues[lane].appendleft(slot)
            self._harvest.put((slot, result))

    def _run(self, lane: int, slot: Slot) -> RunResult:
        assert slot.frames is not None
        begin = slot.place.begin
        return self._lanes[lane].run(slot.job.folder / PROGRAM, slot.job.kind, slot.frames, begin / NANO,
                                     (begin + nanoseconds(slot.job.table.timeout)) / NANO)

    def _report(self, event: str, error: Exception, job: Job) -> None:
        """Our own errors are logged in full: nothing in them comes from a program or a picture."""
        words = [error.message, error.detail or ""] if isinstance(error, PrividError) else []
        self._log.failure(event, error, job=job.ident, words=words)

    def _decode(self, job: Job) -> None:
        """Decode a job's frames in order, a few chunks ahead of their slots."""
        try:
            job.folder.mkdir(mode=0o711)
            job.folder.chmod(0o711)
            (job.folder / PROGRAM).write_bytes(job.table.executable.content)
            (job.folder / PROGRAM).chmod(0o555)
            reader = job.reader = self._open_reader(job.table.camera.footage)
            try:
                for slot in job.own:
                    if self._may_decode(slot):
                        self._decode_one(slot, reader)
            finally:
                reader.close()
        except Exception as error:
            if job.left:
                self._report("decoding failed", error, job)
                self.fail(job, error)
        finally:
            with self._lock:
                job.decoding = False
                self._decoders.discard(threading.current_thread())
                if job.own:
                    self._harvest.put((job.own[-1], None))

    def _may_decode(self, slot: Slot) -> bool:
        """Wait until this chunk is near enough to its slot to be decoded; False when it has been given up."""
        ahead = len(self._lanes) + AHEAD
        with self._lock:
            while slot.state is State.WAITING:
                early = slot.place.begin - ahead * slot.place.pitch - self.lead(slot.job.table) - time.monotonic_ns()
                room = slot.job.held < ahead
                if room and early <= 0:
                    return True
                self._changed.wait(early / NANO + 0.001 if room else None)
            return False

    def _decode_one(self, slot: Slot, reader: Reader) -> None:
        table = slot.job.table
        frames = slot.job.folder / f"chunk-{slot.chunk}"
        with self._lock:
            slot.frames = frames
            slot.job.held += 1
        frames.mkdir()
        reader.read(table.grid.frames(slot.chunk)[0], table.grid.size, frames)
        self._describe(table, slot.chunk, frames)
        with self._lock:
            if slot.state is State.WAITING:
                slot.state = State.READY
                self._changed.notify_all()
            else:
                self._harvest.put((slot, None))

    def _reap(self) -> None:
        """Read output, keep rows, remove what is no longer needed."""
        while (item := self._harvest.get()) is not None:
            slot, result = item
            job = slot.job
            try:
                if result is not None and not slot.over:
                    kept = self._read_output(job.table, result)
                    self._cache.put(slot.key, kept.rows, kept.outcome, kept.weight, kept.body)
                    with self._lock:
                        job.outcomes[kept.outcome] = job.outcomes.get(kept.outcome, 0) + 1
                        if not slot.over:
                            self._close(slot, State.DONE)
                    continue  # _close has put it here once more
                self._sweep(slot)
            except Exception as error:
                self._log.failure("harvest failed", error, job=job.ident)
                self.fail(job, error)

    def _sweep(self, slot: Slot) -> None:
        job = slot.job
        with self._lock:
            frames = slot.frames if slot.over and self._running[slot.place.lane] is not slot else None
        if frames is not None:
            shutil.rmtree(frames, ignore_errors=True)
            with self._lock:
                slot.frames = None
                job.held -= 1
                self._changed.notify_all()
        with self._lock:
            finished = not job.decoding and not job.left and not job.held
        if finished:
            shutil.rmtree(job.folder, ignore_errors=True)


def _public(error: BaseException, job: Job) -> BaseException:
    """What those who wait are told: the family, and nothing of where or why, which is in the log."""
    if isinstance(error, VideoUnreadable):
        return VideoUnreadable(f'could not decode the footage of camera "{job.table.camera.name}"',
                               hint="The operator finds the cause in the engine's log.")
    if isinstance(error, SandboxFailed):
        return SandboxFailed("the sandbox failed", hint="The operator finds the cause in the engine's log and with privid doctor.")
    return error
