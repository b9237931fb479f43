"""A lane's own root directory: a copy of the runtime, in RAM when the scratch directory is.

Programs of different lanes share no file, so that none can tell from the time an access takes what another has touched.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from contextlib import suppress
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import numpy as np

from privid.errors import SandboxFailed

from . import filter as system_calls
from .chunk import FRAMES_FILE, write_chunk_json
from .runtime import Runtime

__all__ = ["LAUNCHER", "ZYGOTE", "devices", "make_root", "remove_tree"]

#: The launcher of modules, inside the sandbox.
LAUNCHER = Path("/usr/lib/privid/launcher.py")
ZYGOTE = LAUNCHER.with_name("zygote.py")
#: What zygotes call, built from the C file of that name.
LITTER = LAUNCHER.with_name("litter.so")

#: Read when the engine starts: it may step down to a user who cannot reach its own source.
_SOURCES = {path.name: Path(__file__).with_name(path.name).read_bytes() for path in (LAUNCHER, ZYGOTE, LITTER)}

#: What there is in /dev. The machine's own tell everybody on it, who can watch a file, how often they are opened: so each lane has its own
#: where it can.
_DEVICES = {"/dev/null": (1, 3), "/dev/zero": (1, 5), "/dev/urandom": (1, 9)}

#: Fields of /proc/cpuinfo that are the same at all times; libraries read them to choose their code.
_CPU_FIELDS = ("vendor_id", "cpu family", "model", "model name", "stepping", "cache size", "flags", "bugs", "address sizes",
               "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision", "Features")


def make_root(runtime: Runtime, root: Path) -> None:
    """Copy the runtime to root and add what is of this machine and of this version of the engine."""
    root.mkdir()
    # without holes: who reads one makes a page for everybody
    command = ["cp", "-a", "--no-preserve=ownership", "--sparse=never", f"{runtime.root}/.", str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        remove_tree(root)
        raise SandboxFailed("could not copy the runtime for a lane", detail=done.stderr.strip()[-500:] or None,
                            hint="Each lane needs about 300 MB in its scratch directory, by default in /dev/shm.")
    root.chmod(0o755)
    own = root / LAUNCHER.parent.relative_to("/")
    own.mkdir(parents=True)
    for name, content in {**_SOURCES, "filter": system_calls.export_for_child()}.items():
        (own / name).write_bytes(content)
    _add_rehearsal(own / "rehearsal")
    _add_devices(root)
    (root / "app/files").mkdir(parents=True, exist_ok=True)
    # the number that the kernel shows for a user who has none in a namespace, as in warm starts
    (root / "etc/passwd").write_text("root:x:0:0::/:/bin/sh\nprogram:x:65534:65534::/tmp:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\nprogram:x:65534:\n")
    (root / "proc/cpuinfo").write_text(_cpu_facts())
    for name in ("online", "possible", "present"):
        (root / "sys/devices/system/cpu" / name).write_text("0\n")
    for path in (own, *own.rglob("*"), root / "app/files", root / "proc/cpuinfo", *(root / "sys/devices/system/cpu").iterdir()):
        path.chmod(0o755 if path.is_dir() else 0o644)


def _add_rehearsal(directory: Path) -> None:
    """A chunk of one black picture, which a zygote reads so that its children find everything loaded that reading a chunk takes."""
    directory.mkdir()
    write_chunk_json(directory, start=datetime(2000, 1, 1, tzinfo=UTC), fps=Fraction(1), camera="", region="", width=1, height=1, frames=1)
    np.save(directory / FRAMES_FILE, np.zeros((1, 1, 1, 3), np.uint8))


def _add_devices(root: Path) -> None:
    """Root may make devices, in a file system that has them."""
    if os.statvfs(root).f_flag & os.ST_NODEV:
        return
    for name, (major, minor) in _DEVICES.items():
        new = root / f".{Path(name).name}"
        with suppress(PermissionError):
            os.mknod(new, 0o600 | stat.S_IFCHR, os.makedev(major, minor))
            new.chmod(0o666)
            new.replace(root / name.lstrip("/"))


def devices(root: Path) -> dict[str, str]:
    """What is mounted in /dev of a sandbox: the lane's own devices, or the machine's."""
    own = {name: root / name.lstrip("/") for name in _DEVICES}
    return {name: str(path) if path.is_char_device() else name for name, path in own.items()}


def remove_tree(path: Path) -> None:
    """Remove a directory that may be half made."""
    if path.exists():
        shutil.rmtree(path, ignore_errors=True)


def _cpu_facts() -> str:
    """One processor, without its clock rate, which changes with load."""
    try:
        host = Path("/proc/cpuinfo").read_text().split("\n\n")[0]
    except OSError:
        host = ""
    kept = [line for line in host.splitlines() if line.partition("\t")[0].rstrip(" :") in _CPU_FIELDS]
    fixed = ["processor\t: 0", "physical id\t: 0", "core id\t: 0", "siblings\t: 1", "cpu cores\t: 1"]
    return os.linesep.join([fixed[0], *kept, *fixed[1:]]) + "\n\n"
