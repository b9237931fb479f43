"""Runs chunks in the lanes, each in its slot of the public timetable.

Threads: two per lane (one hands the next slot over while the other waits for the end of the slot that runs), one per job that decodes
frames ahead of the slots, one that harvests (has the programs' output read and the rows kept by a process of its own), so that how long
the output of one chunk takes to read moves nobody's slot, and one that closes slots at the moment at which their rows are there in any
case, so that nothing shows when they were read, and removes their frames.

A lane that comes back late moves back by whole slots; so it does while frames are not there because the machine is too busy to decode them
in time. But how long decoding takes depends on the picture. It must neither move slots where the machine is not to blame, nor make rows of
one chunk depend on another's picture:

- decoding a chunk is given up when it has taken more processor time than the timetable waits for (`effort.py`), whatever was left over by
  others. The lane then has the slot at its time, with an empty chunk, so that everything goes on as always, and its rows are the defaults.
  So decoding what somebody shows takes none of the time of what comes after, and all of it fits into the timetable;
- each job decodes for itself;
- what the machine takes away is what decoding is ahead for, by several chunks and by time. A chunk is not given up for it: what others
  decode would decide its rows;
- from a chunk that was given up the decoder goes on to the next key frame that is on its way. Chunks before that lie in the same group of
  pictures, where compression spreads every change (docs/limitations.md).
"""

from __future__ import annotations

import heapq
import math
import os
import secrets
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from queue import Empty

from privid.errors import PrividError, SandboxFailed, VideoUnreadable
from privid.model import Footage, Table
from privid.room.priority import QUICK, set_priority
from privid.sandbox.chunk import CHUNK_FILE, FRAMES_FILE
from privid.sandbox.executable import Kind
from privid.sandbox.hands import HANDS, Late, Stop
from privid.sandbox.program import Program
from privid.sandbox.run import Outcome, RunResult
from privid.video.cutout import cutout, is_whole
from privid.video.decoder import Overspent

from .board import Board
from .chunks import ChunkCache
from .copies import FILES, PROGRAM
from .durations import Durations
from .frame_space import FrameSpace, Held
from .jobs import COLD, NEVER, WARM, Job, Margins, Slot, State
from .kept import Cell, Cells
from .log import Log
from .programs import UNDECODED
from .reading import reading_time
from .reserve import directory, reserved
from .seams import LaneLike, Reader
from .series import Stretch, Stretches
from .sharing import soonest
from .timetable import NANO, Place, nanoseconds

__all__ = ["Runner"]

#: How often a slot comes again for which its lane was not ready: so often at most, or for so long, but so often at least
MOST_LATES, LATES_SPAN, LEAST_LATES = 50, 30 * NANO, 5
#: What a job holds that was given up is given back so long after that, whatever its decoder was at
RESPITE = NANO
WHOLE, NOTHING = "whole", "nothing"
#: Slots that are closed at a time
_PIECE = 500
_NOWHERE, _NO_CELL = Place(0, 0, 1), Cell(0, 0)


class TooBusy(SandboxFailed):
    """Slots do not begin, which is nobody's fault but the machine's, and so told as it is."""


class Runner:
    """The lanes and what they have to do."""

    def __init__(self, lanes: Sequence[LaneLike], cache: ChunkCache, scratch: Path, log: Log, *,
                 starts_warm: Callable[[Table], bool], read_file: Callable[[str], bytes],
                 open_reader: Callable[[Footage], Reader], describe: Callable[[Table, int, int, Path], None],
                 read_output: Callable[[Cell, Table, RunResult], str],
                 post: Callable[[Job], None] = lambda job: None) -> None:
        self._lanes = lanes
        self._cache = cache
        self._scratch = scratch
        self._log = log
        self.durations = Durations(lanes, starts_warm)
        self._read_file = read_file
        self._open_reader = open_reader
        self._describe = describe
        self._read_output = read_output
        self._post = post
        self._space = FrameSpace.within(scratch)
        self._board = Board(len(lanes), lambda lane, slot: lanes[lane].ready(slot.job.program), self._margins, log,
                            lambda lane, slot: lanes[lane].is_importing(slot.job.program))
        self._decoders: set[threading.Thread] = set()
        self._threads = [threading.Thread(target=self._work, args=(index,), name=f"lane {index}", daemon=True)
                         for index in range(len(lanes)) for _ in range(HANDS)]
        self._harvester = threading.Thread(target=self._reap, name="harvest", daemon=True)
        self._closer = threading.Thread(target=self._close, name="close", daemon=True)
        for thread in (*self._threads, self._harvester, self._closer):
            thread.start()

    # Asking

    def _margins(self, lane: int, slot: Slot) -> Margins:
        """A program that turns out not to start warm has the margins of a cold one from then on."""
        program = slot.job.program
        return WARM if program.warm and not self._lanes[lane].is_cold(program) else COLD

    def forecast(self, wanted: Sequence[tuple[Table, Sequence[Stretch]]], role: str = "") -> tuple[int, int]:
        """Slots that these runs of tables would take now, and when the last rows would be there. Runs and reserves nothing."""
        now, read, slots = time.monotonic_ns(), 0, 0
        work, begin = list[int](), now  # of each table in each lane
        for table, stretches in wanted:
            count, shared = self._missing(stretches)
            read = max(read, self._board.unread.read_by(shared))
            if count:
                slots += count
                work.append(self.durations.work(table, count))
                first = min(one.chunk for one in stretches)
                lead = self.durations.lead(table, count, table.grid.frames(first)[0])
                begin = max(begin, now + lead + self.durations.waits(table, stretches))
        if not work:
            return 0, max(now, read)
        with self._board.lock:
            lanes = [self._board.queue(lane) for lane in range(len(self._lanes))]
        # these tables take turns with each other, too
        end = soonest([lane.prospect(role, begin) for lane in lanes], sum(work) * len(lanes), max(work) / sum(work))
        return slots, max(read, end + max(reading_time(table) for table, _ in wanted))

    def _missing(self, stretches: Sequence[Stretch]) -> tuple[int, list[Slot]]:
        """How many of these runs are neither kept nor under way, and the slots of those that are under way."""
        known, wanted, board = self._cache.count(stretches), Stretches(stretches), self._board
        with board.lock:
            under_way = list(board.under_way.items())
        shared = [slot for key, slot in under_way if key in wanted]
        # what is kept of slots that are not over yet counts as under way
        return max(sum(one.count for one in stretches) - known - sum(not slot.kept for slot in shared), 0), shared

    def busy_until(self) -> float:
        """When the rows of the last slot were there, in seconds of the monotonic clock; in the future while any slot is under way."""
        with self._board.lock:
            return math.inf if self._board.under_way else self._board.busy_until

    def to_keep(self, stretches: Sequence[Stretch]) -> int:
        """How many of these runs are not kept, by the timetable: what is kept of slots that are not over yet does not count. Those that are
        kept are used."""
        wanted, board = Stretches(stretches), self._board
        with board.lock:
            early = [key for key in board.under_way if key in wanted]
        early_kept = len(self._cache.addresses(early))
        return sum(one.count for one in stretches) - self._cache.count(stretches, touch=True) + early_kept

    def read_by(self, jobs: Sequence[Job]) -> int:
        """When all rows of these jobs are there, by the timetable; 0 if they were there all along."""
        return self._board.unread.read_by([slot for job in jobs for slot in job.wanted.values()])

    def warnings(self) -> list[str]:
        """What to tell those who think of asking for slots."""
        often = self._board.slips_often()
        return ["The machine has been too busy for many slots of late: this may take longer than is announced."] if often else []

    def take_space(self, table: Table, count: int, role: str) -> Held | None:
        """For the decoded frames of so many runs, and their program, before anything is charged."""
        return self._space.take(role, self._frames(table, count), table.executable) if count else None

    def space_advice(self, wanted: Sequence[tuple[Table, Sequence[Stretch]]]) -> list[str]:
        """For EXPLAIN: that a release would take more space than a role can have."""
        counts = [(table, self._missing(stretches)[0]) for table, stretches in wanted]
        return self._space.advice(sum(self._frames(table, count) for table, count in counts if count),
                                  [table.executable for table, count in counts if count])

    def _frames(self, table: Table, count: int) -> int:
        """Bytes of decoded frames that are there at a time, for so many runs."""
        return _frames_bytes(table) * (min(self._ahead(table), count) + (0 if is_whole(table) else 1))

    def _ahead(self, table: Table) -> int:
        """How many chunks are decoded ahead, as many as a role has room for."""
        return max(len(self._lanes) + 1, min(self.durations.ahead(table), self._space.most // _frames_bytes(table) - 1))

    def submit(self, table: Table, kind: Kind, runs: Sequence[tuple[int, int]], keys: Sequence[bytes], cells: Cells,
               space: Held | None = None, content: bytes = b"", role: str = "") -> Job:
        """Reserve slots for the runs (chunk and region) that are neither kept nor under way, and start on them; `cells` are for their
        rows, as many as runs were not kept, and `content` is the program; `role` logged in and asks."""
        folder, warm = self._scratch / f"job-{secrets.token_hex(8)}", self.durations.is_warm(table)
        program = Program(folder / PROGRAM, kind, table.runtime, folder / FILES if table.executable.files else None, warm)
        job = Job(secrets.token_hex(4), table, program, folder, cells, role, space, content, reading_time(table))
        board, wanted, asked, known = self._board, frozenset(keys), list(keys), dict[bytes, int]()
        while True:
            # The cache is asked outside the lock. A slot enters it before it leaves under_way, so unless one of these finished
            # meanwhile, what is in neither has never run.
            finished = board.finished
            known |= self._cache.known(asked)
            with board.lock:  # what is under way may be kept, but its moment has not come
                known = {key: address for key, address in known.items() if key not in board.under_way}
            todo = [Slot(key, chunk, region, _NOWHERE, _NO_CELL, job, {job}) for (chunk, region), key in zip(runs, keys, strict=True)
                    if key not in known]
            with board.lock:
                asked = board.ended_since(finished, wanted)
                if not asked or not todo:
                    job.kept = known
                    first = table.grid.frames(todo[0].chunk)[0] if todo else 0
                    job.effort, job.head = self.durations.effort(table), self.durations.head(table, first)
                    earliest = time.monotonic_ns() + self.durations.lead(table, len(todo), first)
                    board.reserve(job, todo, self.durations.pitch(table), earliest)
                    for number, slot in enumerate(job.own):
                        slot.cell = cells[number]
                    decoder = threading.Thread(target=self._decode, args=(job,), name=f"decode {job.ident}", daemon=True)
                    if job.own:
                        self._decoders.add(decoder)
                        decoder.start()
                    break
        if not job.own:
            self._settle(job)
        self._post(job)
        self._log.write("job", job=job.ident, chunks=len(runs), slots=len(job.own), shared=len(job.wanted) - len(job.own),
                        pitch_ms=self.durations.pitch(table) / 1e6)
        return job

    def cancel(self, job: Job, *, move_up: bool = False) -> None:
        """Nobody waits for this job: its slots are given up, except those that another job shares, and those whose programs have ended:
        what is kept is decided by the timetable, not by how long reading takes, nor by how long that of others takes. `move_up`: slots of
        others take their places, where no row decided when this happens."""
        board = self._board
        with board.lock:
            now = time.monotonic_ns()
            failed, job.dropped = job.ends == NEVER, True
            job.ends = now + RESPITE if failed else max(job.ends, now + RESPITE)
            given_up = [slot for slot in job.wanted.values() if not slot.over and slot.users == {job}
                        and not (slot.state is State.RUNNING and _ended(slot) <= now)]
            for slot in job.wanted.values():
                slot.users.discard(job)
            given_up.sort(key=lambda slot: slot.state is not State.RUNNING)
            if board.give_up(given_up) and move_up:
                board.move_up()  # now: how long the rest takes depends on what has been decoded
            if failed:
                board.closing.put((0, job.own[0]))  # which has the job swept
            self._close_all(given_up[:_PIECE])
        self._kill(given_up[:_PIECE])
        for start in range(_PIECE, len(given_up), _PIECE):  # lanes need the lock in time
            with board.lock:
                self._close_all(given_up[start:start + _PIECE])
        self._kill(given_up[-1:])

    def _close_all(self, slots: Sequence[Slot]) -> None:
        for slot in slots:
            if not slot.over:
                self._board.close(slot, State.CANCELLED)

    @property
    def moves(self) -> int:
        """Changes when slots come earlier than they were to."""
        return self._board.moves

    def fail(self, job: Job, error: BaseException) -> None:
        """The sandbox or the decoder failed: the job ends for everybody who waits for it, with words that are the same whatever the
        video shows. Its slots go by at their times, or until nobody waits for it any more, so that nobody's start time tells the moment
        of the failure."""
        with self._board.lock:
            if not job.dropped:
                job.ends = NEVER
            for slot in job.own:
                if not slot.over:
                    slot.error = _public(error, job)
                    self._board.close(slot, State.FAILED)
            self._board.changed.notify_all()

    def stop(self) -> None:
        """Kill what runs and end all threads."""
        with self._board.lock:
            self._board.stopped = True
            slots = list(self._board.under_way.values())
            self._board.give_up(slots)
            self._close_all(slots)
            decoders = list(self._decoders)
        self._kill(slots, Stop.abandon)
        for thread in (*self._threads, *decoders):
            thread.join(5)
        self._board.harvest.put(None)
        self._harvester.join(5)
        self._board.closing.put(None)
        self._closer.join(5)
        for lane in self._lanes:
            lane.close()

    def _kill(self, slots: Iterable[Slot], end: Callable[[Stop], None] = Stop.set) -> None:
        """End runs and reads that nobody wants."""
        slots = list(slots)
        for job in {slot.job for slot in slots}:
            if not job.left and job.reader is not None:
                job.reader.close()
        with self._board.lock:
            for slot in slots:
                if slot.stop is not None:
                    end(slot.stop)

    # A lane's thread

    def _work(self, lane: int) -> None:
        board = self._board
        with suppress(OSError):  # only root may; a slot should begin when it begins, whatever else this machine does
            os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(10))
        while (slot := board.next(lane)) is not None:
            result: RunResult | None = None
            try:
                result = self._run(lane, slot)
            except Late:
                self._again(slot)
            except Exception as error:
                self._report("slot failed", error, slot.job)
                self.fail(slot.job, error)
            with board.lock:
                board.running[lane].remove(slot)
            if result is None or result.outcome is Outcome.CANCELLED:
                board.closing.put((0, slot))
            else:
                board.harvest.put((slot, result))

    def _again(self, slot: Slot) -> None:
        """A lane was not ready in time: the slot comes again, unless the machine is so busy that it never would be."""
        with self._board.lock:
            slot.lates += 1
            if slot.lates < max(LEAST_LATES, min(MOST_LATES, LATES_SPAN // slot.place.pitch)) and not slot.over:
                self._board.put_back(slot)
                return
        if not slot.over:
            job = slot.job
            error = TooBusy(f"slot {job.own.index(slot) + 1} of {len(job.own)} could not begin {slot.lates} times: the machine is too busy",
                            hint="Ask the operator to leave it more time, and try again; the release stays charged.")
            self._report("slot failed", error, job)
            self.fail(job, error)

    def _run(self, lane: int, slot: Slot) -> RunResult | None:
        with self._board.lock:
            if slot.over:
                return None
            frames = slot.job.folder / NOTHING if slot.undecoded else slot.frames
            assert frames is not None and slot.stop is None
            stop = slot.stop = Stop()
        begin = slot.place.begin
        try:
            return self._lanes[lane].run(slot.job.program, frames, begin / NANO,
                                         (begin + nanoseconds(slot.job.table.timeout)) / NANO, stop)
        finally:
            with self._board.lock:
                slot.stop = None
            stop.close()

    def _report(self, event: str, error: Exception, job: Job) -> None:
        """Our own errors are logged in full: nothing in them comes from a program or a picture."""
        words = [error.message, error.detail or ""] if isinstance(error, PrividError) else []
        self._log.failure(event, error, job=job.ident, words=words)

    # A job's thread

    def _decode(self, job: Job) -> None:
        """Decode a job's frames in order, a few chunks ahead of their slots."""
        with suppress(OSError):  # where it may: on a busy machine frames would be late
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), QUICK)
        ahead = self._ahead(job.table)
        lead = self.durations.lead(job.table, len(job.own), job.table.grid.frames(job.own[0].chunk)[0]) + job.effort.most
        try:
            self._install(job)
            for lane, slots in Counter(slot.place.lane for slot in job.own).items():
                self._lanes[lane].announce(job.program, slots, self.durations.pitch(job.table) / NANO)
            reader = job.reader = self._open_reader(job.table.camera.footage)
            try:
                set_priority(reader.start(), QUICK)
                with self._board.lock:
                    job.started = time.monotonic_ns()
                    self._board.changed.notify_all()
                for slot in reserved(job.own):
                    if self._board.may_decode(slot, ahead, lead):
                        self._decode_one(slot, reader)
            finally:
                reader.close()
        except Exception as error:
            if job.left:
                self._report("decoding failed", error, job)
                self.fail(job, error)
        finally:
            with self._board.lock:
                job.decoding = False
                self._decoders.discard(threading.current_thread())
            self._board.closing.put((0, job.own[-1]))

    def _install(self, job: Job) -> None:
        """Put what a job needs where lanes can read it."""
        job.folder.mkdir(mode=0o711)
        (job.folder / WHOLE).mkdir(mode=0o700)
        (job.folder / WHOLE / FRAMES_FILE).touch(0o600)  # one for all chunks, made before the first (reserve.py says why)
        (job.folder / NOTHING).mkdir(mode=0o755)  # what a lane has instead of a chunk that was given up
        for name in (FRAMES_FILE, CHUNK_FILE):
            (job.folder / NOTHING / name).touch(0o644)
        assert job.space is not None
        job.space.copy.install(job.table.executable, job.content, self._read_file, job.folder)
        job.content = b""  # from here on it is there alone

    def _decode_one(self, slot: Slot, reader: Reader) -> None:
        table, board = slot.job.table, self._board
        frames = directory(slot)
        try:
            if slot.chunk == slot.job.refused:  # the regions of a chunk are late together
                raise Overspent
            self._fetch(slot, frames, reader)
            self._describe(table, slot.chunk, slot.region, frames)
        except Overspent:  # its own doing, and nobody else's: it goes without
            slot.job.refused = slot.chunk
            shutil.rmtree(frames, ignore_errors=True)
            with board.lock:
                slot.undecoded = True
                self._be_ready(slot)
            return
        except BaseException:
            shutil.rmtree(frames, ignore_errors=True)
            raise
        with board.lock:
            slot.frames = frames
            slot.job.held += 1
            self._be_ready(slot)

    def _be_ready(self, slot: Slot) -> None:
        """The caller holds the lock."""
        if slot.state is State.WAITING:
            slot.state = State.READY
            self._board.changed.notify_all()
        else:  # given up meanwhile
            self._board.closing.put((0, slot))

    def _fetch(self, slot: Slot, frames: Path, reader: Reader) -> None:
        """A chunk's frames as its table shows them. Those of a mask or a region are written anew, from frames that no sandbox reaches.

        Each job decodes for itself: frames that another has decoded would be there in no time, or not be there, by what that had to
        decode before."""
        job, table = slot.job, slot.job.table
        first, end = table.grid.frames(slot.chunk)

        def read(into: Path) -> None:
            limit = job.effort.limit(first - (job.reached or 0), first=job.reached is None)
            job.reached = end
            reader.read(first, end - first, into, limit)

        if is_whole(table):
            read(frames)
            return
        whole = job.folder / WHOLE
        if job.whole != slot.chunk:  # the regions of a chunk follow each other
            read(whole)
            job.whole = slot.chunk
        cutout(table, slot.region).write(whole / FRAMES_FILE, frames / FRAMES_FILE)

    # The harvest's thread

    def _reap(self) -> None:
        """Have output read and rows kept. Nothing here depends on what was printed but a counter for the owner."""
        board = self._board
        while (item := board.harvest.get()) is not None:
            slot, result = item
            job = slot.job
            try:
                if slot.state is State.CANCELLED:  # before its program had ended
                    board.closing.put((0, slot))
                    continue
                outcome = self._read_output(slot.cell, job.table, replace(result, printed=None) if slot.undecoded else result)
                if slot.undecoded:
                    outcome = UNDECODED
                self._cache.put(slot.key, slot.cell.address)
                with board.lock:
                    job.outcomes[outcome] = job.outcomes.get(outcome, 0) + 1
                    slot.kept = True
            except Exception as error:
                # What was to be kept depends on what was printed, so that this shows nowhere: whoever wants the rows finds none in time.
                self._report("harvest failed", error, job)
            finally:
                if result.printed is not None:
                    result.printed.close()
            board.closing.put((0 if slot.over else max(1, board.unread.due(slot)), slot))

    # The closer's thread

    def _close(self) -> None:
        """Close slots whose rows are kept, each at its moment, and sweep those that are over."""
        board, waiting = self._board, list[tuple[int, int, Slot]]()
        while True:
            left = (waiting[0][0] - time.monotonic_ns()) / NANO if waiting else None
            try:
                item = board.closing.get(timeout=None if left is None else max(0.0, left))
            except Empty:
                slot = heapq.heappop(waiting)[2]
                with board.lock:
                    if not slot.over:
                        board.close(slot, State.DONE)  # which has it swept
                        continue
                self._sweep(slot)
                continue
            if item is None:
                for job in {slot.job for _, _, slot in waiting if slot.job.settles}:
                    self._clear_away(job)
                return
            moment, slot = item
            if moment:
                heapq.heappush(waiting, (moment, id(slot), slot))
            else:
                self._sweep(slot)

    def _sweep(self, slot: Slot) -> None:
        job, board = slot.job, self._board
        with board.lock:
            frames = slot.frames if slot.over and slot not in board.running[slot.place.lane] else None
        if frames is not None:
            shutil.rmtree(frames, ignore_errors=True)
            with board.lock:
                slot.frames = None
                job.held -= 1
                board.changed.notify_all()
        with board.lock:
            if job.decoding or job.left or job.held or (job.ends == NEVER and not board.stopped) or job.settles > time.monotonic_ns():
                return
            if job.settles < job.ends and not board.stopped:  # whether there is room for others again must tell nothing of what was decoded
                job.settles = job.ends
                board.closing.put((job.ends, slot))
                return
        self._clear_away(job)

    def _clear_away(self, job: Job) -> None:
        took = [seconds for lane in self._lanes if (seconds := lane.import_time(job.program)) is not None]
        if took:
            self.durations.remember_import(job.table, max(took))
        for lane in self._lanes:
            lane.dismiss(job.program)
        shutil.rmtree(job.folder, ignore_errors=True)
        self._settle(job)

    def _settle(self, job: Job) -> None:
        self._cache.settle(job.cells)
        if job.space is not None:
            job.space.end()


def _frames_bytes(table: Table) -> int:
    """Of one decoded chunk."""
    return table.grid.size * table.camera.footage.width * table.camera.footage.height * 3


def _ended(slot: Slot) -> int:
    """When its program has ended, by the timetable."""
    return slot.place.begin + nanoseconds(slot.job.table.timeout)


def _public(error: BaseException, job: Job) -> BaseException:
    """What those who wait are told: the family, and nothing of where or why, which is in the log."""
    if isinstance(error, VideoUnreadable):
        return VideoUnreadable(f'could not decode the footage of camera "{job.table.camera.name}"',
                               hint="The operator finds the cause in the engine's log.")
    if isinstance(error, TooBusy):
        return error
    if isinstance(error, (SandboxFailed, OSError)):  # of the system: no room for frames, say
        return SandboxFailed("the sandbox failed", hint="The operator finds the cause in the engine's log and with privid doctor.")
    return error
