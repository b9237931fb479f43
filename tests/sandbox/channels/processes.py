"""What processes have in common by descent: groups, signals, waiting, usage."""

from __future__ import annotations

import os
import resource
import signal
import time

from .channel import CHUNKS, Channel

_got: list[int] = []


def _note(number: int, _: object) -> None:
    _got.append(number)


# In a warm start this happens before there is any child: all of them have the handler.
signal.signal(signal.SIGUSR1, _note)


def signal_group(bit: int) -> None:
    if bit:
        os.kill(0, signal.SIGUSR1)


#: What a sender's child uses: far more than whatever had to wait for anything while a warm start was made.
_PAGES, _NAPS = 16_384, 200


def bury(_: object) -> list[object]:
    """What a parent would learn: the end of another's children, and what they used."""
    try:
        ended: object = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        ended = None
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return [ended, usage.ru_minflt > _PAGES // 2, usage.ru_nvcsw > _NAPS // 2]


def use_much(bit: int) -> None:
    if bit and os.fork() == 0:
        memory = b"." * (_PAGES * resource.getpagesize())
        for _ in range(_NAPS):
            time.sleep(0.0001)
        os._exit(7 if memory else 8)


CHANNELS = (
    Channel("signal to a process group", signal_group, lambda _: list(_got), ("verification",), (CHUNKS,)),
    Channel("exit status and usage", use_much, bury, (), ()),
)
