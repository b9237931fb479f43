"""Keeps warm children ready for the programs that a lane has been told to expect.

Two threads per lane, one that makes children and one that buries them. What is made depends on which programs were announced, for how many
slots, and how many of these have passed: all public. A program that cannot be started warm is started cold from then on.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from . import syscalls
from .brood import Brood, NotWarm
from .child import Child
from .program import Program
from .stock import LEAST, Stock

__all__ = ["Nurse", "broods", "first_batch"]

#: Children of one zygote: enough for so many seconds of slots, so that what all lanes wait for its import costs little, but not more than
#: this, and not more than the engine has room for (stock.py). The first zygote of a program has fewer, for the first slot waits for it.
STOCK, MOST = 30.0, 512
FIRST_STOCK, FIRST_MOST = 1.6, 256
#: Seconds that it takes to make a child: so many more than there are left can be made while these are used.
_MAKING = 0.007
#: Broods of one program that there can be at a time: one is in use, one is ready, one is made or has just been used up.
BROODS = 3
#: Programs that a lane remembers as not to be started warm.
_REMEMBERED = 1000
#: Seconds between looks at what the kernel clears away, and at whether there is room for a brood.
_LOOK_AGAIN = 0.02


@dataclass(eq=False)
class _Ward:
    """What is kept for one program."""

    slots: int = 0  # announced, and not yet used or made ready for
    pitch: float = 1.0
    broods: list[Brood] = field(default_factory=list)
    dismissed: bool = False
    imported: float = 0.0  # seconds that the last import took

    @property
    def ready(self) -> int:
        return sum(len(brood.children) for brood in self.broods)

    @property
    def used_up(self) -> list[Brood]:
        """Broods whose children have had their slots: a later one has begun, and is in use."""
        return [brood for number, brood in enumerate(self.broods)
                if not brood.children and any(len(later.children) < later.size - 1 for later in self.broods[number + 1:])]

    @property
    def hungry(self) -> bool:
        return self.slots > 0 and self.ready <= _number(STOCK / self.pitch, MOST) // 2

    @property
    def batch(self) -> int:
        """How many are made next."""
        return min(_next_batch(self.ready, self.pitch), self.slots)


def first_batch(pitch: float) -> int:
    """Children that are made before the first of so frequent slots."""
    return _number(FIRST_STOCK / pitch, FIRST_MOST)


def broods(slots: int, pitch: float) -> int:
    """How many zygotes so many slots of one lane take, one after the other.

    >>> broods(16, 1.0), broods(100, 1.0), broods(1000, 0.1), broods(10_000, 0.01)
    (1, 4, 5, 29)
    """
    ready = made = first_batch(pitch)
    count = 1
    while made < slots:
        ready = min(ready, _number(STOCK / pitch, MOST) // 2)
        batch = _next_batch(ready, pitch)
        ready, made, count = ready + batch, made + batch, count + 1
    return count


def _next_batch(ready: int, pitch: float) -> int:
    """They must be ready before those that are there are used up."""
    return min(max(first_batch(pitch), int(ready * pitch / _MAKING)), _number(STOCK / pitch, MOST))


def _number(wanted: float, most: int) -> int:
    return max(LEAST, min(int(wanted), most))


class Nurse:
    """`breed` makes a brood of so many children for a program; `stock` grants them, and keeps what of a brood must not be numbered anew
    yet."""

    def __init__(self, name: str, breed: Callable[[Program, int], Brood], log: Callable[[str], None], stock: Stock) -> None:
        self._breed, self._stock = breed, stock
        self._log = log
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._wards: dict[Program, _Ward] = {}
        self._cold: dict[Program, str] = {}
        self._stopped = False
        self._dead: queue.SimpleQueue[tuple[Brood, Child]] = queue.SimpleQueue()
        self._dying: list[tuple[Brood, Child]] = []
        self._busy: dict[Brood, int] = {}  # runs of a brood that are not buried yet
        self._granted: dict[Brood, int] = {}  # children for which a brood was granted its share of the stock
        self._finished = False  # no child is made any more
        self._breeder = threading.Thread(target=self._work, name=name, daemon=True)
        self._undertaker = threading.Thread(target=self._tidy, name=f"{name}-undertaker", daemon=True)
        self._breeder.start()
        self._undertaker.start()

    def announce(self, program: Program, slots: int, pitch: float) -> None:
        with self._lock:
            if program not in self._cold:
                ward = self._wards.setdefault(program, _Ward())
                ward.slots, ward.dismissed = ward.slots + slots, False
                ward.pitch = pitch
                self._changed.notify_all()

    def dismiss(self, program: Program) -> None:
        """No more slots of this program."""
        with self._lock:
            if (ward := self._wards.get(program)) is not None:
                ward.slots, ward.dismissed = 0, True
                for brood in ward.broods:
                    self._hand_over(ward, brood)
                self._changed.notify_all()

    def _hand_over(self, ward: _Ward, brood: Brood) -> None:
        """The timetable has no more use for a brood: a later one is in use, or no slot of the program comes any more; the last that has
        begun is over in a pitch. When the brood is gone depends on what its runs have left."""
        if (count := self._granted.pop(brood, None)) is not None:
            pins, brood.pins = brood.pins, []
            self._stock.keep(pins, count, ward.pitch)

    def ready(self, program: Program) -> bool:
        """Whether a slot of this program can begin: a child is ready, or none will ever be."""
        with self._lock:
            ward = self._wards.get(program)
            if ward is None or ward.ready:
                return True
            if not ward.slots and not ward.dismissed:  # one slot more than announced: a run was cancelled in its stead and comes again
                ward.slots = 1
                self._changed.notify_all()
            return ward.dismissed

    def take(self, program: Program) -> tuple[Brood, Child] | None:
        """A child for the slot that begins; None when the program is to be started cold."""
        with self._lock:
            ward = self._wards.get(program)
            if ward is None:
                return None
            for brood in ward.broods:
                if brood.children:
                    child = brood.children.popleft()
                    for former in ward.used_up:
                        self._hand_over(ward, former)
                    self._busy[brood] = self._busy.get(brood, 0) + 1
                    self._changed.notify_all()
                    return brood, child
            return None

    def give_back(self, brood: Brood, child: Child) -> None:
        """A child whose slot did not begin; it has seen nothing."""
        with self._lock:
            brood.children.appendleft(child)
            self._busy[brood] -= 1
            self._changed.notify_all()

    def import_time(self, program: Program) -> float | None:
        with self._lock:
            ward = self._wards.get(program)
            return None if ward is None or not ward.imported else ward.imported

    def why_cold(self, program: Program) -> str | None:
        return self._cold.get(program)

    def bury(self, brood: Brood, child: Child) -> None:
        """Free what a child's run held, later."""
        self._dead.put((brood, child))
        with self._lock:
            self._changed.notify_all()

    def close(self) -> None:
        with self._lock:
            self._stopped = True
            self._changed.notify_all()
        self._breeder.join()
        with self._lock:
            self._finished = True
            self._changed.notify_all()
        self._undertaker.join()

    # The threads

    def _work(self) -> None:
        syscalls.unshare(syscalls.CLONE_FS)  # it will visit the children's mount namespaces
        while True:
            with self._lock:
                while not self._stopped and (hungry := self._hungry()) is None:
                    self._changed.wait()
                if self._stopped:
                    return
                assert hungry is not None
                program, wanted = hungry
                if not (count := self._stock.grant(wanted)):
                    self._changed.wait(_LOOK_AGAIN)
                    continue
            self._feed(program, count)

    def _tidy(self) -> None:
        while True:
            with self._lock:
                while not (self._finished or not self._dead.empty() or self._closable()):
                    if not self._changed.wait(_LOOK_AGAIN if self._dying else None):
                        break
                finished = self._finished
            self._bury()
            self._clear(finished)
            if finished:
                return

    def _bury(self) -> None:
        """What the kernel has not cleared away yet is looked at again later, all of it together."""
        while not self._dead.empty():
            self._dying.append(self._dead.get())
        left = []
        for brood, child in self._dying:
            gone = True
            with contextlib.suppress(OSError):
                gone = child.bury()
            if not gone:
                left.append((brood, child))
                continue
            with self._lock:
                if brood in self._busy:
                    self._busy[brood] -= 1
        self._dying = left

    def _hungry(self) -> tuple[Program, int] | None:
        """The program that needs children most, and how many."""
        found = [(ward.ready, program) for program, ward in self._wards.items() if ward.hungry]
        if not found:
            return None
        _, program = min(found, key=lambda pair: pair[0])
        return program, self._wards[program].batch

    def _feed(self, program: Program, count: int) -> None:
        with self._lock:
            if (ward := self._wards.get(program)) is None:  # dismissed since it was found hungry
                self._stock.give_back(count)
                return
        try:
            brood = self._breed(program, count)
        except Exception as error:  # whatever it is, this program can still be started cold
            reason = str(error) if isinstance(error, NotWarm) else f"{type(error).__name__} while its children were made"
            self._log(f"started cold: {reason}")
            self._stock.give_back(count)
            with self._lock:
                if len(self._cold) >= _REMEMBERED:
                    self._cold.clear()
                self._cold[program] = reason
                if (now := self._wards.get(program)) is not None:
                    now.slots, now.dismissed = 0, True
            return
        with self._lock:
            self._granted[brood] = count
            if (now := self._wards.get(program)) is not None:
                now.broods.append(brood)
                now.imported = brood.imported
                now.slots -= min(count, now.slots)
            if now is None or now.dismissed:  # while they were made
                self._hand_over(ward, brood)
            self._changed.notify_all()
        if now is None:
            self._try(brood.close)

    def _closable(self) -> list[tuple[_Ward, Brood]]:
        """Broods that are used up and those of dismissed programs, of which no run is left."""
        found = list[tuple[_Ward, Brood]]()
        for ward in self._wards.values():
            found += [(ward, brood) for brood in (ward.broods if ward.dismissed else ward.used_up) if not self._busy.get(brood)]
        return found

    def _clear(self, everything: bool) -> None:
        with self._lock:
            found = [(w, b) for w in self._wards.values() for b in w.broods] if everything else self._closable()
            for ward, brood in found:
                self._hand_over(ward, brood)
                ward.broods.remove(brood)
                self._busy.pop(brood, None)
            self._wards = {program: ward for program, ward in self._wards.items() if ward.broods or not ward.dismissed}
        for _, brood in found:
            self._try(brood.close)

    def _try(self, work: Callable[[], None]) -> None:
        """What cannot be cleared away is left to the next start's sweep; the lane goes on."""
        try:
            work()
        except OSError as error:
            self._log(f"not cleared away: {error.strerror}")
