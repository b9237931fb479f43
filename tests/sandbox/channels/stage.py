"""Two lanes, and programs in them of which one tries to tell the other a bit; with all protections, or without some of them.

Protections are taken away here, by changing the command or the filter that a lane has made; the product has no option for it.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import os
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privid.errors import SandboxFailed
from privid.sandbox import brood, command, run
from privid.sandbox.chunk import write_chunk_json
from privid.sandbox.executable import install
from privid.sandbox.lane import SETUP, Late, Program
from privid.sandbox.places import Place, Places
from privid.sandbox.root import devices

from ..conftest import Trial
from ..test_filter import ALLOW_ALL
from .caches import KINDS, SIZE
from .channel import CHUNKS, TABLES

__all__ = ["ANALYSTS", "LOAD", "Stage"]

#: As TABLES, but with no file in common: other footage, other files.
ANALYSTS = "analysts"
#: Warm children that are made together: for both bits, and for sender and receiver where they are one program.
_BROOD = 4
_HERE = Path(__file__).parent
_SOURCES = {name: (_HERE / f"{name}.py").read_text()
            for name in ("channel", "processes", "locks", "files", "ipc", "caches", "counters", "before")}
_FAMILIES = tuple(_SOURCES)[1:]

#: Makes modules of SOURCES inside a program; the last one is left as `module`.
LOAD = """
import sys, time, types
package = types.ModuleType("channels")
package.__path__ = []
sys.modules["channels"] = package
for name, source in SOURCES.items():
    module = types.ModuleType("channels." + name)
    module.__package__ = "channels"
    sys.modules[module.__name__] = module
    exec(compile(source, name, "exec"), module.__dict__)
"""

_DRIVER = LOAD + """ALL = [channel for family in FAMILIES for channel in sys.modules["channels." + family].CHANNELS]
FACTS = sys.modules["channels.channel"].FACTS

def tried(action, *arguments):
    if arguments and isinstance(arguments[0], str) and arguments[0].startswith("refused"):
        return arguments[0]
    try:
        return action(*arguments)
    except Exception as error:
        return f"refused: {type(error).__name__} {getattr(error, 'errno', error)}"

def process(chunk):
    FACTS.update(chunk.metadata)
    yield work(int(chunk.frames[0, 0, 0, 0]))

def work(pixel):
    CHANNELS = [channel for channel in ALL if channel.name in FACTS["names"]]
    if (ROLE or ("receive" if pixel > 1 else "send")) == "send":
        time.sleep(max(0, FACTS["act"] - time.monotonic()))
        sent = {c.name: tried(c.send, pixel) for c in CHANNELS}
        done = time.monotonic()
        time.sleep(max(0, FACTS["hold"] - done))
        return {"done": done, "sent": sent}
    before = [tried(c.before) for c in CHANNELS]
    late = time.monotonic() > FACTS["act"]
    time.sleep(max(0, FACTS["sense"] - time.monotonic()))
    return {"late": late, "felt": {c.name: tried(c.sense, b) for c, b in zip(CHANNELS, before)}}

if __name__ == "__main__":  # cold, without what a module loads
    import json, os
    FACTS.update(json.load(open("/chunk/chunk.json"))["metadata"])
    print(json.dumps(work(open("/chunk/frames.npy", "rb").read()[-1])), flush=True)
    os._exit(0)
"""


class Stage:
    """`one` sends and `other` receives; where there is one lane, both are in `one`."""

    def __init__(self, one: Trial, other: Trial, disk: Path) -> None:
        self.lanes = (one, other)
        self.removed: frozenset[str] = frozenset()
        self.sent: dict[str, object] = {}
        self._disk = disk
        self._count = itertools.count(os.getpid() << 10)
        self._programs: dict[tuple[int, str, bool, Path], Program] = {}
        self._stock: Counter[Program] = Counter()

    def felt(self, placement: str, bit: int, names: Iterable[str], *, warm: bool) -> dict[str, object]:
        """What the receiver says; tried again should the machine be too busy for it to be ready in time."""
        for slower in (1.0, 1.5, 3.0, 6.0, 9.0):
            found = self._felt(placement, bit, {"names": sorted(names)}, warm, slower)
            if found is not None:
                return found
        raise AssertionError("a program was late each time")

    def _felt(self, placement: str, bit: int, facts: dict[str, Any], warm: bool, slower: float) -> dict[str, object] | None:
        one, other = self.lanes if placement != CHUNKS else (self.lanes[0], self.lanes[0])
        roles = ("", "") if placement == CHUNKS else ("send", "receive")
        programs = [self._program(trial, role, warm) for trial, role in zip((one, other), roles, strict=True)]
        self._ready(((one, programs[0]), (other, programs[1])), warm)
        (mark := one.scratch / f"mark-{next(self._count)}").touch()
        facts |= {"key": next(self._count), "window": 0.1 * slower, "inode": mark.stat().st_ino,
                  "devices": {name: Path(name).stat().st_mtime_ns for name in ("/dev/null", "/dev/zero", "/dev/urandom")}}
        begin = time.monotonic() + 2 * slower * SETUP
        for trial in self.lanes:
            for path in ("etc/hosts", "var"):
                os.utime(trial.lane._root_of("python") / path, (0, 0))
        if placement == CHUNKS:
            slot = slower * 0.55
            later = begin + slot + 2 * SETUP
            sense = later
            sent = _run(one, programs[0], self._chunk(one, bit, facts | {"act": 0, "sense": 0, "hold": 0}), begin, slot)
            received = _run(other, programs[1], self._chunk(one, 2, facts | {"act": later + slot, "sense": 0}), later, slot)
        else:
            act, sense, hold, slot = (begin + slower * moment for moment in ((0.12, 0.5, 0.6, 0.8) if warm else (0.25, 0.6, 0.8, 0.95)))
            facts |= {"act": act, "sense": sense, "hold": hold}
            chunks = [self._chunk(one, bit, facts)]
            chunks.append(chunks[0] if placement == TABLES else self._chunk(other, 2, facts))
            with ThreadPoolExecutor(1) as pool:
                sending = pool.submit(_run, one, programs[0], chunks[0], begin, slot - begin)
                received = _run(other, programs[1], chunks[1], begin, slot - begin)
                sent = sending.result()
        if "ipc" in self.removed:
            _forget(facts["key"])
        if not sent or not received or sent["done"] > sense or received["late"]:
            return None
        self.sent = sent["sent"]
        found: dict[str, object] = received["felt"]
        return found

    def _ready(self, wanted: Iterable[tuple[Trial, Program]], warm: bool) -> None:
        """Wait for warm children, of which those that two chunks of a table get are siblings."""
        for trial, program in wanted if warm else ():
            if not self._stock[program]:
                trial.lane.announce(program, _BROOD)
                self._stock[program] = _BROOD
            self._stock[program] -= 1
        for trial, program in wanted:
            while not trial.lane.ready(program):
                time.sleep(0.005)
            assert not warm or (trial.lane._nurse is not None and trial.lane._nurse.why_cold(program) is None)

    def _program(self, trial: Trial, role: str, warm: bool) -> Program:
        files = self._attached(trial)
        key = (int(trial is self.lanes[1]), role, warm, files)
        if key not in self._programs:
            path = trial.scratch / f"channel-{next(self._count)}"
            text = f"SOURCES, FAMILIES, ROLE = {_SOURCES!r}, {_FAMILIES!r}, {role!r}\n{_DRIVER}"
            text = text if warm else f"#!/usr/bin/python3\n{text}"
            self._programs[key] = Program(path, install(text.encode(), "channel", path), files=files, warm=warm)
        return self._programs[key]

    def _attached(self, trial: Trial) -> Path:
        """Two files, in RAM; or on disk and not in the page cache."""
        on_disk = "files in RAM" in self.removed
        directory = self._disk / "attached" if on_disk else trial.scratch / "attached"
        if not directory.exists():
            directory.mkdir(mode=0o755)
            for kind in KINDS:
                (directory / kind).write_bytes(os.urandom(SIZE))
        if on_disk:
            for kind in KINDS:
                with (directory / kind).open("rb") as file:
                    os.fsync(file.fileno())
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return directory

    def _chunk(self, trial: Trial, pixel: int, facts: dict[str, Any]) -> Path:
        directory = trial.scratch / f"chunk-{next(self._count)}"
        directory.mkdir()
        np.save(directory / "frames.npy", np.full((1, 64, 64, 3), pixel, np.uint8))
        write_chunk_json(directory, start=datetime(2026, 3, 1, tzinfo=UTC), fps=Fraction(1), camera="a", region="", width=64, height=64,
                         frames=1, metadata=facts)
        return directory

    # Protections

    @contextmanager
    def without(self, *protections: str) -> Iterator[None]:
        """Everything as it is but for these."""
        self.removed = frozenset(protections)
        try:
            with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
                if "filter" in self.removed:
                    stack.enter_context(self._unfiltered(patch))
                if "session key ring" in self.removed:
                    _join_key_ring()
                if "descriptors" in self.removed:
                    self._leak_descriptor(patch, stack)
                for trial in self.lanes if "outputs" in self.removed else ():
                    patch.setattr(trial.lane, "_places", _MadeAnew(trial.scratch))
                shared = self.lanes[0].scratch.parent / "tmp"
                shared.mkdir(exist_ok=True)
                shared.chmod(0o777)
                real = command.sandbox_command
                patch.setattr(run, "sandbox_command", lambda **more: self._edited(real(**more), shared))
                yield
        finally:
            self.removed = frozenset()
            self.forget()

    def forget(self) -> None:
        """Children that were made with more protections, or fewer, than what comes next."""
        for (lane, *_), program in self._programs.items():
            self.lanes[lane].lane.dismiss(program)
        self._programs.clear()

    def _edited(self, made: list[str], shared: Path) -> list[str]:
        text = "\n".join(made)
        kept = [name for name in ("ipc", "net", "pid", "uts", "cgroup") if name not in self.removed]
        text = text.replace("--unshare-all", "\n".join(f"--unshare-{name}" for name in kept), 1)
        if "tmp" in self.removed:
            before, _, after = text.partition("\n--size\n")
            text = f"{before}\n--bind\n{shared}\n/tmp{after.partition('--tmpfs' + chr(10) + '/tmp')[2]}"
        if "read-only root" in self.removed:
            text = text.replace("--ro-bind", "--bind", 1).replace("\n--remount-ro\n/\n", "\n")
        if "proc" in self.removed:
            text = text.replace("\n--chdir\n", "\n--ro-bind\n/proc\n/proc\n--chdir\n", 1)
        return text.split("\n")

    @contextmanager
    def _unfiltered(self, patch: pytest.MonkeyPatch) -> Iterator[None]:
        files = [file for trial in self.lanes for file in (trial.lane._filter, trial.lane._root_of("python") / "usr/lib/privid/filter")]
        kept = {file: file.read_bytes() for file in files}
        for file in files:
            file.write_bytes(ALLOW_ALL)
        patch.setattr(brood.system_calls, "export", lambda **_: ALLOW_ALL)  # type: ignore[attr-defined]
        patch.setattr(brood.system_calls, "export_for_child", lambda: ALLOW_ALL)  # type: ignore[attr-defined]
        for module in (brood, command):  # that each lane has devices of its own closes some of these between lanes, too
            patch.setattr(module, "devices", lambda root: {name: name for name in devices(root)})
        try:
            yield
        finally:
            for file, content in kept.items():
                file.write_bytes(content)

    def _leak_descriptor(self, patch: pytest.MonkeyPatch, stack: ExitStack) -> None:
        file = stack.enter_context((self._disk / "offset").open("w+b"))
        real = subprocess.Popen
        patch.setattr(subprocess, "Popen", lambda *a, pass_fds=(), **more: real(*a, pass_fds=(*pass_fds, file.fileno()), **more))


class _MadeAnew(Places):
    """Outputs on a file system that they share with other things."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def take(self) -> Place:
        shutil.rmtree(self._directory / "places", ignore_errors=True)
        return Places(self._directory / "places", 1).take()


def _run(trial: Trial, program: Program, chunk: Path, begin: float, slot: float) -> dict[str, Any]:
    """Its row, or none if it did not come to its end."""
    try:
        lines = trial.lane.run(program, chunk, begin, begin + slot).stdout.splitlines()
    except (Late, SandboxFailed):  # not ready in time, on a machine that is far overloaded
        return {}
    row: dict[str, Any] = json.loads(lines[0]) if lines else {}
    return row


def _join_key_ring() -> None:
    """As an engine that was started from a login session has one, which its children inherit."""
    ctypes.CDLL(None).syscall(250, 1, None)


def _forget(key: int) -> None:
    """Objects that were made in the machine's own namespace."""
    libc = ctypes.CDLL(None)
    if (memory := libc.shmget(key, 0, 0)) >= 0:
        libc.shmctl(memory, 0, None)
    if (semaphores := libc.semget(key, 0, 0)) >= 0:
        libc.semctl(semaphores, 0, 0)
    if (messages := libc.msgget(key, 0)) >= 0:
        libc.msgctl(messages, 0, None)
    libc.mq_unlink(f"/privid-{key}".encode())
