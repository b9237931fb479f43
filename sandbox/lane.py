"""A lane: runs one program after another, each for exactly its slot."""

# ruff: noqa: PTH116 (four files are looked at before every slot; plain calls are faster)

from __future__ import annotations

import contextlib
import itertools
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from privid.errors import SandboxFailed

from . import filter as system_calls
from .brood import Brood
from .cgroups import Group, Hierarchy, Remains, find_hierarchy
from .child import Child
from .chunk import CHUNK_FILE, FRAMES_FILE
from .executable import Kind
from .hands import HANDS, Hand, Hands, Late, OwnHand, Stop
from .intermission import Intermission
from .loaded import can_look
from .nurse import Nurse
from .places import Pins, Place, Places
from .program import Program
from .root import make_root, remove_tree
from .run import Limits, Outcome, Run, RunResult
from .runtime import DEFAULT_RUNTIME, Runtime, find_runtime
from .stock import Stock
from .sweeper import Sweeper
from .users import SANDBOX_GID, claim_user
from .warm import WarmRun

__all__ = ["GUARD", "MIN_SLOT", "SETUP", "SHORT_GUARD", "Lane", "Late", "Limits", "Outcome", "Program", "RunResult", "Stop"]

#: Seconds that the timetable leaves between the end of one slot and the beginning of the next in the same lane, for what was killed to go
#: away. It is part of the timetable, which is public; how much of it is needed is not waited for, so that no run can move the next one's
#: start. A gate on a core of the lane's own needs time to kill and to send the dying elsewhere; without one they die where the next
#: program starts, which takes a fork bomb 70 ms.
SHORT_GUARD = 0.0025
GUARD = 0.1
#: Seconds before a slot at which its run should be handed over: to set a cold sandbox up takes 10 to 20 ms, and more under load.
SETUP = 0.1
#: Shorter slots (seconds) would be all start and no program.
MIN_SLOT = 0.002


class Lane:
    """Everything a run reads (executable, chunk directory) must be readable by the lane; below `scratch` what is readable by all is.

    `scratch` should be in RAM and allow execution. `cores` pins the lane's programs to processors of their own. `warm` allows warm starts
    where the machine can do them; `log` is told, without any data, why one is not done. `measure` puts the memory that a run used into its
    result. `intermission` keeps imports and the slots of all lanes that have it apart, and `stock` bounds what they hold together.
    """

    def __init__(self, index: int, *, runtime: Runtime | None = None, limits: Limits | None = None, scratch: Path,
                 cores: frozenset[int] | None = None, warm: bool = True, log: Callable[[str], None] = lambda _: None,
                 measure: bool = False, intermission: Intermission | None = None, stock: Stock | None = None) -> None:
        self.index = index
        self._own_stock = None if stock else Stock()
        stock = stock or self._own_stock
        assert stock is not None
        self._intermission = intermission or Intermission()
        self.limits = limits or Limits()
        self._measure = measure
        self._as_root = os.geteuid() == 0
        self._cores = cores
        self._elsewhere = frozenset(os.sched_getaffinity(0)) - cores if cores is not None else None
        self._runs = itertools.count(1)
        self._broods = 0
        self._entered = threading.BoundedSemaphore(HANDS)
        self._hierarchy: Hierarchy | None = find_hierarchy()
        if self._hierarchy is not None:
            self._hierarchy.sweep()
        self._user = claim_user() if self._as_root else None
        self.uid, self.gid = (self._user.uid, SANDBOX_GID) if self._user is not None else (os.geteuid(), os.getegid())
        self._open_scratch(scratch)
        self._directory = scratch / f"lane-{index}"
        remove_tree(self._directory)
        self._directory.mkdir(mode=0o755)
        self._directory.chmod(0o755)
        self._roots: dict[str, Path] = {}
        self._making = threading.Lock()
        runtime = runtime or find_runtime(DEFAULT_RUNTIME)
        self._roots[runtime.name] = self._copy(runtime)
        self._filter = self._directory / "filter"
        self._filter.write_bytes(system_calls.export())
        self._places = None if self._as_root else Places(self._directory / "places")
        self._pins = Pins(stock.cold_runs) if self._as_root else None
        self._sweeper = Sweeper()
        self._remains = Remains()
        self._dead: queue.SimpleQueue[Run | None] = queue.SimpleQueue()
        self._undertaker = threading.Thread(target=self._bury, name=f"lane-{index}-undertaker", daemon=True)
        self._undertaker.start()
        strokes = self._as_root and self._hierarchy is not None and self._hierarchy.stroke is not None
        #: Bubblewrap is here until its sandbox has a group of its own: killed at a bad moment, with its engine, it would leave a process 1
        #: behind that waits for it forever.
        self._setups: Group | None = None
        self._hands: Hands | None = None
        if strokes and self._hierarchy is not None and self._hierarchy.stroke is not None:
            self._setups = self._hierarchy.create(f"{os.getpid()}-{index}-setups", memory=self.limits.memory, processes=1024)
            self._hands = Hands(self._cores, self._elsewhere, self._hierarchy.prefix(f"{os.getpid()}-{index}-"), self._hierarchy.little)
        able = warm and strokes and can_look()
        self._nurse = Nurse(f"lane-{index}-nurse", self._breed, log, stock) if able and self._pins is not None else None

    @property
    def warm(self) -> bool:
        """Whether this lane can start modules warm."""
        return self._nurse is not None

    @property
    def guard(self) -> float:
        """Seconds that the timetable must leave between slots."""
        return SHORT_GUARD if self._hands is not None and self._elsewhere else GUARD

    def announce(self, program: Program, slots: int, pitch: float = 1.0) -> None:
        """So many slots of this program will come, one every `pitch` seconds at most; what can be made ready for them is."""
        if program.runtime not in self._roots:
            threading.Thread(target=self._root_of, args=(program.runtime,), name=f"lane-{self.index}-root", daemon=True).start()
        if self._nurse is not None and program.warm and program.kind is Kind.MODULE:
            self._nurse.announce(program, slots, pitch)

    def ready(self, program: Program) -> bool:
        """Whether a slot of this program could begin now."""
        return program.runtime in self._roots and (self._nurse is None or self._nurse.ready(program)) and not self._intermission.due

    def is_importing(self, program: Program) -> bool:
        """Whether slots of this program wait for its own import, and for nothing else of it."""
        return self._nurse is not None and not self._nurse.ready(program)

    def is_cold(self, program: Program) -> bool:
        """Whether runs of a program that could be started warm are not."""
        return self._nurse is None or self._nurse.why_cold(program) is not None

    def import_time(self, program: Program) -> float | None:
        """Seconds that importing this program took last, while no slot ran; None if that was not done."""
        return None if self._nurse is None else self._nurse.import_time(program)

    def dismiss(self, program: Program) -> None:
        """No more slots of this program will come."""
        if self._nurse is not None:
            self._nurse.dismiss(program)

    def run(self, program: Program, chunk_dir: Path, begin: float, end: float, stop: Stop | None = None) -> RunResult:
        """Run a program on a chunk from begin to end (time.monotonic()), and return at end, whatever the program does.

        Call it SETUP before begin; the sandbox is set up meanwhile. Two threads may be in it: one whose slot runs, one whose slot
        comes next. Raises Late when the slot had begun before all was ready, and SandboxFailed, possibly earlier than end, if the sandbox
        itself did not work. `stop` ends the program at once; its result is Outcome.CANCELLED. A slot that has
        begun lasts to its end all the same: when the lane is free, no program decides.
        """
        with self._entered, self._admitted(begin):
            mapped = self._check_readable(program.path, program.kind, chunk_dir)
            taken = self._nurse.take(program) if self._nurse is not None else None
            if taken is not None:
                return self._run_warm(*taken, chunk_dir, begin, end, stop)
            return self._run_cold(program, chunk_dir, begin, end, mapped, stop)

    def run_soon(self, program: Program, chunk_dir: Path, seconds: float, *, early: bool = False) -> RunResult:
        """Run a program in a slot that begins as soon as it can, where there is no timetable to keep; `early` ends it with its program."""
        lead = SETUP
        with contextlib.closing(Stop(early)) as stop:
            while True:
                begin = time.monotonic() + lead
                try:
                    return self.run(program, chunk_dir, begin, begin + seconds, stop)
                except Late:
                    lead *= 2

    def why_cold(self, program: Program) -> str:
        """The reason why a run of this program was not started warm."""
        if program.kind is not Kind.MODULE:
            return "it is a program, and only modules can be started warm"
        if not program.warm:
            return "warm starts are switched off"
        if self._nurse is None:
            return "this machine cannot start modules warm, which needs root, control groups that freeze, and no filter on the engine"
        return self._nurse.why_cold(program) or "no child was ready"

    def _run_warm(self, brood: Brood, child: Child, chunk_dir: Path, begin: float, end: float, stop: Stop | None) -> RunResult:
        assert self._nurse is not None and self._pins is not None
        self._pins.turn()
        untouched = False
        try:
            with self._hand() as hand:
                try:
                    return self._measured(_attend(WarmRun(brood, child, chunk_dir, self.limits), hand, begin, end, stop), child.group)
                except Late:
                    untouched = True
                    raise
                except BaseException:
                    child.group.kill()
                    raise
        except OSError as error:
            raise SandboxFailed(f"could not hand over a chunk: {error.strerror}") from None
        finally:
            if untouched and child.clear():
                self._nurse.give_back(brood, child)
            else:
                self._remains.add(child.group)
                self._nurse.bury(brood, child)

    def _run_cold(self, program: Program, chunk_dir: Path, begin: float, end: float, mapped: int, stop: Stop | None) -> RunResult:
        name = f"{os.getpid()}-{self.index}-{next(self._runs)}"
        run = self._start(name, program, chunk_dir, cpu_seconds=end - begin, mapped=mapped)
        try:
            with self._hand() as hand:
                run.prepare(begin, self._cores)
                return self._measured(_attend(run, hand, begin, end, stop), run.group)
        finally:
            run.kill()
            if run.group is not None:
                self._remains.add(run.group)
            self._dead.put(run)

    @contextlib.contextmanager
    def _admitted(self, begin: float) -> Iterator[None]:
        """No import runs beside a slot. And what earlier runs have left must fit beside it: memory_bound (capabilities.py) counts on that.
        It weighs enough to go away in time, but for machines on which it gets no share of a processor; there, slots slip."""
        while self._remains.used() > self.limits.memory or not self._intermission.enter():
            if time.monotonic() >= begin:
                raise Late
            time.sleep(0.002)
        try:
            yield
        finally:
            self._intermission.leave()

    def _measured(self, result: RunResult, group: Group | None) -> RunResult:
        return replace(result, memory=group.peak()) if self._measure and group is not None else result

    def _hand(self) -> contextlib.AbstractContextManager[Hand | OwnHand]:
        return self._hands.take() if self._hands is not None else contextlib.nullcontext(OwnHand())

    def _breed(self, program: Program, count: int) -> Brood:
        assert self._hierarchy is not None
        self._broods += 1
        return Brood(name=f"{os.getpid()}-{self.index}-b{self._broods}", lane=self._directory, root=self._root_of(program.runtime),
                     module=program.path, files=program.files, count=count, limits=self.limits, hierarchy=self._hierarchy,
                     sweeper=self._sweeper, intermission=self._intermission, cores=self._cores)

    def _root_of(self, runtime: str) -> Path:
        """The lane's own copy of a runtime, made when it is first needed."""
        with self._making:
            if runtime not in self._roots:
                self._roots[runtime] = self._copy(find_runtime(runtime))
            return self._roots[runtime]

    def _copy(self, runtime: Runtime) -> Path:
        root = self._directory / f"root-{runtime.name}"
        make_root(runtime, root)
        return root

    def close(self) -> None:
        """Wait until every run is buried, and leave nothing behind."""
        with contextlib.ExitStack() as everybody:
            for _ in range(HANDS):
                everybody.enter_context(self._entered)
            if self._undertaker.is_alive():
                self._dead.put(None)
                self._undertaker.join()
                if self._nurse is not None:
                    self._nurse.close()
                self._sweeper.close()
                if self._pins is not None:
                    self._pins.close()
                if self._own_stock is not None:
                    self._own_stock.close()
                if self._hands is not None and self._setups is not None:
                    self._hands.close()
                    self._setups.remove(patience=10)
                if self._user is not None:
                    self._user.close()
                remove_tree(self._directory)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _start(self, name: str, program: Program, chunk_dir: Path, *, cpu_seconds: float, mapped: int) -> Run:
        group, pins = None, None if self._pins is None else self._pins.turn()
        try:
            if self._hierarchy is not None:
                group = self._hierarchy.create(name, memory=self.limits.memory, processes=self.limits.processes)
            return Run(root=self._root_of(program.runtime), filter_file=self._filter, program=program, chunk=chunk_dir,
                       limits=self.limits, cpu_seconds=cpu_seconds, mapped=mapped, group=group,
                       user=(self.uid, self.gid) if self._as_root else None, pins=pins, setups=self._setups,
                       place=Place(2 * self.limits.tmpfs, pins) if self._places is None else self._places.take())
        except (OSError, SandboxFailed) as error:
            if group is not None:
                group.remove(patience=0)
            if isinstance(error, SandboxFailed):
                raise
            raise SandboxFailed(f"could not set up the sandbox: {error.strerror}") from None

    def _bury(self) -> None:
        while (run := self._dead.get()) is not None:
            run.bury(self._sweeper.clear)

    def _open_scratch(self, scratch: Path) -> None:
        """Let lanes, and nobody else, look into the scratch directory."""
        scratch.mkdir(parents=True, exist_ok=True)
        if not self._as_root:
            scratch.chmod(0o700)
            return
        os.chown(scratch, 0, SANDBOX_GID)
        scratch.chmod(0o710)
        for parent in scratch.resolve().parents:
            if not parent.stat().st_mode & 0o001:
                raise SandboxFailed(f"scratch directory {scratch} cannot be reached by lanes",
                                    detail=f"Directory {parent} is closed to other users.", hint="Choose a directory below /dev/shm.")

    def _check_readable(self, executable: Path, kind: Kind, chunk_dir: Path) -> int:
        """Refuse what the program could not read, for that would look like the program's own fault; the size of the frames."""
        folder, frames = str(chunk_dir), f"{chunk_dir}/{FRAMES_FILE}"
        needed = {str(executable): 0o5 if kind is Kind.PROGRAM else 0o4, folder: 0o5, f"{folder}/{CHUNK_FILE}": 0o4, frames: 0o4}
        try:
            found = {path: os.stat(path) for path in needed}
        except OSError as error:
            raise SandboxFailed(f"could not read {error.filename}: {error.strerror}") from None
        for path, bits in needed.items():
            mode, group = found[path].st_mode, found[path].st_gid
            allowed = mode & bits == bits or (group == self.gid and mode >> 3 & bits == bits)
            if not (allowed if self._as_root else os.access(path, bits)):
                raise SandboxFailed(f"{path} is not readable by lanes", hint="Give it mode 0644, a directory or program 0755.")
        return found[frames].st_size


def _attend(run: Run | WarmRun, hand: Hand | OwnHand, begin: float, end: float, stop: Stop | None) -> RunResult:
    """From the booking of a slot to its end."""
    run.book(hand, begin, end)
    try:
        outcome = run.collect(hand, stop)
        if outcome is Outcome.CANCELLED or (stop is not None and stop.early):
            hand.stop()
        hand.finish()
        if hand.started and stop is not None and not stop.early:
            stop.wait(end)  # though it was cancelled: one whose program had ended already would take as long
        return run.result(outcome, hand.started)
    finally:
        if not hand.over:
            hand.stop()
