"""The bubblewrap command of one run."""

from __future__ import annotations

import shutil
from pathlib import Path

from privid.errors import SandboxFailed

from .executable import Kind
from .program import Program
from .root import LAUNCHER, devices

__all__ = ["ENVIRONMENT", "Descriptors", "find_bwrap", "sandbox_command"]

#: All that a program finds in its environment. One thread per library: lanes are as many as cores.
#: The seed of Python's string hashes is fixed, so that a program that iterates over a set gives the same rows each time.
ENVIRONMENT: dict[str, str] = {
    "HOME": "/tmp", "TMPDIR": "/tmp", "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "TZ": "UTC0",
    "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONNOUSERSITE": "1", "PYTHONSAFEPATH": "1", "PYTHONUTF8": "1",
    "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "NUMEXPR_NUM_THREADS": "1",
    "OPENCV_FOR_THREADS_NUM": "1", "OPENCV_OPENCL_RUNTIME": "disabled", "OPENCV_LOG_LEVEL": "ERROR",
}

#: Numbers of the descriptors that bubblewrap itself reads and writes: gate, status, filter.
Descriptors = tuple[int, int, int]


def find_bwrap() -> str:
    """Where bubblewrap is."""
    found = shutil.which("bwrap", path="/usr/bin:/bin:/usr/local/bin")
    if found is None:
        raise SandboxFailed("could not find bubblewrap", hint="Install Debian's package bubblewrap.")
    return found


def sandbox_command(*, root: Path, program: Program, chunk: Path, tmpfs_bytes: int, rlimits: dict[str, int],
                    descriptors: Descriptors) -> list[str]:
    """Everything read-only but a private /tmp of bounded size; no /proc, no terminals, no network, no capability.

    The gate holds the program back after all mounts are made, until its slot begins. A shell inside then sets the limits and becomes the
    program: inside, because a limit on processes set there counts those of the sandbox's own user namespace alone.
    """
    gate, status, seccomp = descriptors
    command = [find_bwrap(), "--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--clearenv",
               "--uid", "65534", "--gid", "65534", "--hostname", "privid", "--cap-drop", "ALL",
               "--block-fd", str(gate), "--json-status-fd", str(status), "--seccomp", str(seccomp),
               "--ro-bind", str(root), "/"]
    for name, device in devices(root).items():
        command += ["--dev-bind", device, name]
    inside = "/app/program" if program.kind is Kind.PROGRAM else "/app/module.py"
    command += ["--ro-bind", str(chunk), "/chunk", "--ro-bind", str(program.path), inside]
    if program.files is not None:
        command += ["--ro-bind", str(program.files), "/app/files"]
    command += ["--size", str(tmpfs_bytes), "--tmpfs", "/tmp", "--remount-ro", "/", "--chdir", "/tmp"]
    for name, value in ENVIRONMENT.items():
        command += ["--setenv", name, value]
    limit = " && ".join(f"ulimit -{option} {value}" for option, value in rlimits.items())
    command += ["--", "/bin/sh", "-c", f'{limit} && exec "$@"', "sh"]
    if program.kind is Kind.PROGRAM:
        return [*command, inside, "/chunk"]
    return [*command, "/usr/bin/python3", "-s", "-B", str(LAUNCHER), "/chunk", inside]
