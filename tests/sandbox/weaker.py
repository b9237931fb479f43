"""Warm starts without one or the other of their protections, which the product has no option to take away."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyseccomp
import pytest

from privid.sandbox import brood, verify
from privid.sandbox import filter as system_calls

__all__ = ["weaker"]

#: The nursery, with a /tmp in which a zygote can write.
_WRITABLE = """
from privid.sandbox import nursery, syscalls
real = syscalls.pivot_root
def pivot(new, old):
    syscalls.move_mount(syscalls.new_tmpfs({"size": "67108864", "mode": "1777"}, 0), "tmp")
    real(new, old)
syscalls.pivot_root = pivot
nursery.main()
"""
#: and where there are huge pages
_HUGE_PAGES = """
from privid.sandbox import nursery, syscalls
syscalls.no_huge_pages = lambda: None
nursery.main()
"""


@contextmanager
def weaker(*without: str) -> Iterator[None]:
    """Everything as it is but for these."""
    with pytest.MonkeyPatch.context() as patch:
        for protection in without:
            _TAKEN_AWAY[protection](patch)
        system_calls.export.cache_clear()
        yield
    system_calls.export.cache_clear()


def _nursery(patch: pytest.MonkeyPatch, text: str) -> None:
    real = subprocess.Popen

    def start(command: list[str], **more: Any) -> Any:
        if "privid.sandbox.nursery" in command:
            command = [command[0], "-I", "-c", text, command[-1]]
        return real(command, **more)

    patch.setattr(brood.subprocess, "Popen", start)  # type: ignore[attr-defined]


def _huge_pages(patch: pytest.MonkeyPatch) -> None:
    _nursery(patch, _HUGE_PAGES)
    real = verify.Allowed.__init__

    def allowed(self: verify.Allowed, *arguments: Any) -> None:
        real(self, *arguments)
        del self.status[b"THP_enabled"]

    patch.setattr(verify.Allowed, "__init__", allowed)


def _no_witness(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(brood, "_WITNESSES", 0)
    patch.setattr(brood, "check_pages", lambda *_: None)


def _limits(patch: pytest.MonkeyPatch) -> None:
    real = system_calls._rules

    def rules(*, zygote: bool) -> pyseccomp.SyscallFilter:
        found = real(zygote=zygote)
        found.add_rule(pyseccomp.ALLOW, "setrlimit")
        found.add_rule(pyseccomp.ALLOW, "prlimit64", pyseccomp.Arg(0, pyseccomp.EQ, 0))
        return found

    patch.setattr(system_calls, "_rules", rules)


def _signals(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(system_calls, "_REAL_TIME", 0)
    patch.setattr(system_calls, "_CLONE_SIGNAL", 0)
    patch.setattr(system_calls, "_CLONE_SIGNALS", (0,))


_TAKEN_AWAY: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "no place to write": lambda patch: _nursery(patch, _WRITABLE),
    "devices of mappings": lambda patch: patch.setattr(verify, "check_mappings", lambda *_: None),
    "fixed limits": _limits,
    "no real-time signals": _signals,
    "a witness": _no_witness,
    "no huge pages": _huge_pages,
}
