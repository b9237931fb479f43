"""Pairs of runs: one is told a bit and does much if it is 1, the other says all that it can look at; and what depends on the bit."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from scipy import stats

from privid.errors import SandboxFailed
from privid.sandbox.executable import install
from privid.sandbox.lane import SETUP, Lane, Late, Outcome, Program

from .channels.channel import CHUNKS, TABLES
from .channels.stage import ANALYSTS, LOAD
from .conftest import Trial, chunk_of

__all__ = ["ALPHA", "Reading", "Sweep", "judged", "told"]

#: that anything is found where there is nothing, over all sensors of a sweep
ALPHA = 0.01
Reading = tuple[int, dict[str, object]]

_HERE = Path(__file__).parent
_SOURCES = {name: (_HERE / f"channels/{name}.py").read_text() for name in ("channel", "before", "sensors")}
_MODULE = LOAD + """SENSORS = module
def process(chunk):
    bit = int(chunk.frames[0, 0, 0, 0])
    if ROLE == "receive" or bit > 1:
        time.sleep(WAIT)
        yield {"felt": SENSORS.sense()}
        return
    for name in NAMES if bit else ():
        try: SENSORS.SENDERS[name]()
        except Exception: pass
    while True: time.sleep(1)
"""
_COLD = """
if __name__ == "__main__":
    import json, os
    class Chunk: pass
    chunk, pixel = Chunk(), open("/chunk/frames.npy", "rb").read()[-1]
    class Frames:
        def __getitem__(self, place): return pixel
    chunk.frames = Frames()
    for row in process(chunk): print(json.dumps(row), flush=True)
    os._exit(0)
"""


class Sweep:
    """One lane, in which chunks of a table follow each other; or two, with two tables over the same frames, or of two analysts."""

    def __init__(self, one: Trial, other: Trial | None = None, placement: str = CHUNKS) -> None:
        self.lanes = (one, other or one)
        self.placement = placement
        assert (other is None) == (placement == CHUNKS) and placement in (CHUNKS, TABLES, ANALYSTS)

    def pairs(self, count: int, names: Sequence[str], *, warm: bool, fresh: bool = False, seed: int = 1) -> list[Reading]:
        """As many pairs, half of them with the bit; a pair for which the machine was too busy is done again. `fresh`: children of a brood
        of their own, because what lasts for as long as a brood does is felt by all that come later in it, whatever their bit."""
        bits = [number % 2 for number in range(count)]
        random.Random(seed).shuffle(bits)
        found, slot, lost = list[Reading](), 0.12 if warm else 0.3, 0
        programs = list[Program]()
        try:
            while bits:
                if fresh or not programs:
                    self._dismiss(programs)
                    programs = self._programs(names, slot, warm)
                read = self._pair(programs, bits[0], slot, 2 if fresh else 40, warm)
                if read is not None:
                    found.append((bits.pop(0), read))
                elif (lost := lost + 1) > 3:  # a busy machine
                    slot, lost = slot * 1.5, 0
                    self._dismiss(programs)
                    programs.clear()
                    assert slot < 5, "the machine is too busy"
        finally:
            self._dismiss(programs)
        return found

    def _dismiss(self, programs: Sequence[Program]) -> None:
        for trial, program in zip(self.lanes, programs, strict=False):
            trial.lane.dismiss(program)

    def _programs(self, names: Sequence[str], slot: float, warm: bool) -> list[Program]:
        """Of a table in one lane there is one."""
        if self.placement == CHUNKS:
            return [self._program(self.lanes[0], names, "", 0.0, warm)] * 2
        return [self._program(trial, names, role, slot / 3, warm) for trial, role in zip(self.lanes, ("send", "receive"), strict=True)]

    def _program(self, trial: Trial, names: Sequence[str], role: str, wait: float, warm: bool) -> Program:
        text = f"SOURCES, NAMES, ROLE, WAIT = {_SOURCES!r}, {list(names)!r}, {role!r}, {wait!r}\n{_MODULE}{_COLD}"
        path = trial.scratch / f"sweep-{time.monotonic_ns()}"
        return Program(path, install((text if warm else f"#!/usr/bin/python3\n{text}").encode(), "sweep", path), warm=warm)

    def _pair(self, programs: Sequence[Program], bit: int, slot: float, brood: int, warm: bool) -> dict[str, object] | None:
        chunks = [chunk_of(self.lanes[0], bit), chunk_of(self.lanes[0], bit) if self.placement == TABLES else chunk_of(self.lanes[1], 2)]
        for trial, program in list(zip(self.lanes, programs, strict=True))[self.placement == CHUNKS:] if warm else ():
            assert trial.lane._nurse is not None
            if program not in trial.lane._nurse._wards or not trial.lane.ready(program):
                trial.lane.announce(program, brood)
            while not trial.lane.ready(program):
                time.sleep(0.002)
            assert trial.lane._nurse.why_cold(program) is None
        begin = time.monotonic() + (0.1 if warm else 2 * SETUP)
        later = begin + slot + 0.01 if self.placement == CHUNKS else begin
        with ThreadPoolExecutor(2) as pool:
            runs = [pool.submit(Lane.run, trial.lane, program, chunk, at, at + slot)
                    for trial, program, chunk, at in zip(self.lanes, programs, chunks, (begin, later), strict=True)]
            try:
                _, second = [run.result() for run in runs]
            except (Late, SandboxFailed):
                return None
        if second.outcome is not Outcome.OK:
            return None
        felt: dict[str, object] = json.loads(second.stdout)["felt"]
        return felt


def told(found: Sequence[Reading], tests: int = 1) -> dict[str, float]:
    """The sensors whose readings depend on the bit, with how likely that is by chance: below ALPHA for all of them together, and for all
    of so many tests (Bonferroni's correction)."""
    names = found[0][1]
    values = {name: p_value([reading[name] for _, reading in found], [bit for bit, _ in found]) for name in names}
    return {name: p for name, p in values.items() if p < ALPHA / len(names) / tests}


def judged(found: Sequence[Reading], tests: int = 1) -> dict[str, float]:
    """Without what all programs feel of whatever else the machine does."""
    timed = _SOURCES["sensors"].partition("TIMED = {")[2].partition("}")[0]
    return {name: p for name, p in told(found, tests).items() if f'"{name}"' not in timed}


def p_value(readings: Sequence[object], bits: Sequence[int]) -> float:
    if len({str(reading) for reading in readings}) == 1:
        return 1.0
    if all(isinstance(reading, int | float) for reading in readings):
        one, other = ([float(r) for r, b in zip(readings, bits, strict=True) if b == bit] for bit in (0, 1))  # type: ignore[arg-type]
        return float(stats.mannwhitneyu(one, other, alternative="two-sided").pvalue)
    kinds = sorted({str(reading) for reading in readings})
    table = np.zeros((2, len(kinds)))
    for reading, bit in zip(readings, bits, strict=True):
        table[bit, kinds.index(str(reading))] += 1
    return float(stats.chi2_contingency(table).pvalue)
