"""What an uploaded file is: a program, a Python module with process(chunk), or nothing that can run."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import threading
from enum import Enum
from pathlib import Path
from typing import Any

from privid.errors import ExecutableInvalid

from .confine import environment
from .users import helpers_user

__all__ = ["MAX_MODULE_BYTES", "MAX_PROGRAM_BYTES", "Kind", "classify", "install"]

MAX_PROGRAM_BYTES = 64 * 1024 * 1024
MAX_MODULE_BYTES = 1024 * 1024
#: one text at a time, for each may take some hundred megabytes
_examining = threading.Lock()

_ELF_MACHINES = {"x86_64": 62, "aarch64": 183}
_CONTRACT = ("Upload a Python module that defines process(chunk), or a program: an ELF file or a script whose first line "
             "starts with #!.")


class Kind(Enum):
    """How a file is run."""

    PROGRAM = "program"
    MODULE = "module"


def classify(content: bytes, name: str) -> Kind:
    """The kind of a file; refuses what could never produce a row."""
    if not content:
        raise ExecutableInvalid(f'executable "{name}" is empty', hint=_CONTRACT)
    if len(content) > MAX_PROGRAM_BYTES:
        raise ExecutableInvalid(f'executable "{name}" has {len(content)} bytes, more than the {MAX_PROGRAM_BYTES} allowed',
                                hint="Strip debugging information, or compress large tables inside the file.")
    if content.startswith(b"\x7fELF"):
        _check_elf(content, name)
        return Kind.PROGRAM
    if content.startswith(b"#!"):
        _check_script(content, name)
        return Kind.PROGRAM
    _check_module(content, name)
    return Kind.MODULE


def install(content: bytes, name: str, path: Path) -> Kind:
    """Classify a file and write it where lanes can read and execute it."""
    kind = classify(content, name)
    path.write_bytes(content)
    path.chmod(0o555)
    return kind


def _check_elf(content: bytes, name: str) -> None:
    expected = _ELF_MACHINES.get(platform.machine())
    order = "big" if content[5:6] == b"\x02" else "little"
    kind = int.from_bytes(content[16:18], order)  # type: ignore[arg-type]
    machine = int.from_bytes(content[18:20], order)  # type: ignore[arg-type]
    if len(content) < 64 or kind not in (2, 3):  # ET_EXEC, ET_DYN
        raise ExecutableInvalid(f'executable "{name}" is an ELF file that cannot be executed',
                                hint="Upload the linked program, not an object file or a core dump.")
    if expected is not None and machine != expected:
        raise ExecutableInvalid(f'executable "{name}" is built for another processor',
                                detail=f"The ELF machine number is {machine}; this server runs {expected} ({platform.machine()}).",
                                hint=f"Build it for {platform.machine()}.")


def _check_script(content: bytes, name: str) -> None:
    first = content.split(b"\n", 1)[0]
    if first.endswith(b"\r"):
        raise ExecutableInvalid(f'executable "{name}" has a first line that ends with a carriage return',
                                detail="The kernel would look for an interpreter whose name ends with that character.",
                                hint="Save the script with Unix line endings.")
    interpreter = first[2:].split()
    if len(first) > 255 or not interpreter or not interpreter[0].startswith(b"/"):
        raise ExecutableInvalid(f'executable "{name}" names no interpreter in its first line',
                                hint="Start the script with a line such as #!/usr/bin/env python3 or #!/bin/sh.")


def _check_module(content: bytes, name: str) -> None:
    if len(content) > MAX_MODULE_BYTES:
        raise ExecutableInvalid(f'executable "{name}" has {len(content)} bytes, more than the {MAX_MODULE_BYTES} allowed for a module',
                                detail="The file is neither an ELF program nor a script, so it can only be a Python module.",
                                hint=_CONTRACT)
    found = _examined(content)
    if "process" not in found:
        where = f"Line {found['line']}: {found['said']}." if found.get("line") else None
        raise ExecutableInvalid(f'executable "{name}" is not a program', detail=where, hint=_CONTRACT)
    if not found["process"]:
        raise ExecutableInvalid(f'executable "{name}" defines no function process',
                                detail="The file is Python source, but nothing at its top level is named process.",
                                hint="Define process(chunk) that yields one dict per row, or start the file with #! to run it whole.")


def _examined(content: bytes) -> dict[str, Any]:
    """What the examiner says; nothing where it died of the text."""
    command = [sys.executable, "-P", "-m", "privid.sandbox.examiner", str(helpers_user() or "")]
    with _examining:
        done = subprocess.run(command, input=content, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/", env=environment(),
                              check=False, start_new_session=True)
    try:
        found: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        return {}
    return found
