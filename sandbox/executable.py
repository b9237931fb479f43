"""What an uploaded file is: a program, a Python module with process(chunk), or nothing that can run."""

from __future__ import annotations

import json
import platform
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from privid.clients import client
from privid.errors import EngineUnavailable, ExecutableInvalid

from .confine import environment
from .users import helpers_user

__all__ = ["MAX_MODULE_BYTES", "MAX_PROGRAM_BYTES", "Flaw", "Kind", "classify", "install", "is_module", "look"]

MAX_PROGRAM_BYTES = 64 * 1024 * 1024
MAX_MODULE_BYTES = 1024 * 1024
#: seconds after which an examiner that has its processor time bounded must have ended, on a busy machine too
_PATIENCE = 60

_ELF, _SCRIPT = b"\x7fELF", b"#!"
_ELF_MACHINES = {"x86_64": 62, "aarch64": 183}
_CONTRACT = ("Upload a Python module that defines process(chunk), or a program: an ELF file or a script whose first line "
             "starts with #!.")


class Kind(Enum):
    """How a file is run."""

    PROGRAM = "program"
    MODULE = "module"


@dataclass(frozen=True)
class Flaw:
    """Why a file could never produce a row, whatever it is called."""

    what: str
    detail: str | None = None
    hint: str = _CONTRACT
    lasting: bool = True  # it is the file's own fault beyond doubt

    def told(self, name: str) -> ExecutableInvalid:
        return ExecutableInvalid(f'executable "{name}" {self.what}', detail=self.detail, hint=self.hint)


def is_module(head: bytes) -> bool:
    """Whether a file that is no other program would be one."""
    return not head.startswith((_ELF, _SCRIPT))


def look(head: bytes, size: int, read: Callable[[], bytes]) -> Kind | Flaw:
    """What a file is, by what it begins with and its size; the whole is read where it can only be a module."""
    if not size:
        return Flaw("is empty")
    if size > MAX_PROGRAM_BYTES:
        return Flaw(f"has {size} bytes, more than the {MAX_PROGRAM_BYTES} allowed",
                    hint="Strip debugging information, or compress large tables inside the file.")
    if head.startswith(_ELF):
        return _elf_flaw(head) or Kind.PROGRAM
    if head.startswith(_SCRIPT):
        return _script_flaw(head) or Kind.PROGRAM
    if size > MAX_MODULE_BYTES:
        return Flaw(f"has {size} bytes, more than the {MAX_MODULE_BYTES} allowed for a module",
                    "The file is neither an ELF program nor a script, so it can only be a Python module.")
    return _module_flaw(read()) or Kind.MODULE


def classify(content: bytes, name: str) -> Kind:
    """The kind of a file; refuses what could never produce a row."""
    found = look(content, len(content), lambda: content)
    if isinstance(found, Flaw):
        raise found.told(name)
    return found


def install(content: bytes, name: str, path: Path) -> Kind:
    """Classify a file and write it where lanes can read and execute it."""
    kind = classify(content, name)
    path.write_bytes(content)
    path.chmod(0o555)
    return kind


def _elf_flaw(head: bytes) -> Flaw | None:
    expected = _ELF_MACHINES.get(platform.machine())
    order = "big" if head[5:6] == b"\x02" else "little"
    kind = int.from_bytes(head[16:18], order)  # type: ignore[arg-type]
    machine = int.from_bytes(head[18:20], order)  # type: ignore[arg-type]
    if len(head) < 64 or kind not in (2, 3):  # ET_EXEC, ET_DYN
        return Flaw("is an ELF file that cannot be executed", hint="Upload the linked program, not an object file or a core dump.")
    if expected is not None and machine != expected:
        return Flaw("is built for another processor",
                    f"The ELF machine number is {machine}; this server runs {expected} ({platform.machine()}).",
                    f"Build it for {platform.machine()}.")
    return None


def _script_flaw(head: bytes) -> Flaw | None:
    first = head.split(b"\n", 1)[0]
    if first.endswith(b"\r"):
        return Flaw("has a first line that ends with a carriage return",
                    "The kernel would look for an interpreter whose name ends with that character.",
                    "Save the script with Unix line endings.")
    interpreter = first[2:].split()
    if len(first) > 255 or not interpreter or not interpreter[0].startswith(b"/"):
        return Flaw("names no interpreter in its first line",
                    hint="Start the script with a line such as #!/usr/bin/env python3 or #!/bin/sh.")
    return None


def _module_flaw(content: bytes) -> Flaw | None:
    found, killed = _examined(content)
    if "process" not in found:
        where = f"Line {found['line']}: {found['said']}." if found.get("line") else None
        return Flaw("is not a program", where, lasting=not killed)
    if not found["process"]:
        return Flaw("defines no function process", "The file is Python source, but nothing at its top level is named process.",
                    "Define process(chunk) that yields one dict per row, or start the file with #! to run it whole.")
    return None


def _examined(content: bytes) -> tuple[dict[str, Any], bool]:
    """What the examiner says; nothing where it died of the text. And whether it was killed, be it for want of the machine's memory."""
    command = [sys.executable, "-P", "-m", "privid.sandbox.examiner", str(helpers_user() or "")]
    try:
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/",
                              env=environment(), start_new_session=True) as examiner:
            try:
                with client().calling(examiner.kill):
                    said, _ = examiner.communicate(content, _PATIENCE)
            except BaseException:
                examiner.kill()
                raise
    except (OSError, subprocess.TimeoutExpired):
        raise EngineUnavailable("could not look at the executable", detail="The machine is too busy.", hint="Try again.") from None
    client().check()  # it was killed because nobody waits
    try:
        found: dict[str, Any] = json.loads(said)
    except ValueError:
        return {}, examiner.returncode == -signal.SIGKILL
    return found, False
