"""Runtimes: what sandboxed programs may import, each a root directory of its own, built once and never changed.

A runtime's directory is named by what it is made of, so that a new list of packages is a new directory beside the old.
`python -m privid.sandbox.runtime [NAME...]` builds what is missing of the named runtimes, by default "python" and "none", and prints
their paths.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from privid.errors import SandboxFailed

from .rootfs import PACKAGES, PYTHON, add_shell, add_skeleton, add_system, copy_libraries, python_version

__all__ = ["DEFAULT_RUNTIME", "EMPTY_RUNTIME", "RUNTIMES", "Runtime", "build_runtime", "find_runtime", "main", "runtime_label"]

#: Runtimes by name: the packages of each, exactly.
DEFAULT_RUNTIME = "python"
#: Nothing but the C library and the shell that sets a program's limits: for compiled programs.
EMPTY_RUNTIME = "none"
_PYTHON = ("numpy==2.4.6", "opencv-python-headless==4.14.0.94")
RUNTIMES: dict[str, tuple[str, ...]] = {
    "python": _PYTHON,
    EMPTY_RUNTIME: (),
    "torch": (*_PYTHON, "onnxruntime==1.31.1", "torch==2.13.0"),
}

#: Counts changes of how a root directory is laid out; part of its name.
_LAYOUT = 1
_MANIFEST = "privid-runtime.json"
_SYSTEM_HOME = Path("/var/lib/privid/runtime")


@dataclass(frozen=True)
class Runtime:
    """A finished runtime: its root directory is complete, readable by all and written by nobody."""

    name: str
    digest: str
    root: Path


def find_runtime(name: str = "python") -> Runtime:
    """The runtime of that name, already built."""
    digest = _digest(name)
    for home in _homes():
        root = home / f"{name}-{digest}"
        if (root / _MANIFEST).is_file():
            return Runtime(name, digest, root)
    raise SandboxFailed(f'runtime "{name}" is not built', detail=f"Looked in {' and '.join(str(h) for h in _homes())}.",
                        hint="Run: python -m privid.sandbox.runtime.")


@functools.cache
def runtime_label(name: str) -> str:
    """A runtime's name with what it is made of."""
    return f"{name}-{_digest(name)}"


def build_runtime(name: str = "python") -> Runtime:
    """Find the runtime, or build it beside its final place and rename it there, so that half a runtime is never seen."""
    try:
        return find_runtime(name)
    except SandboxFailed:
        pass
    digest = _digest(name)
    home = _homes()[0]
    _make_home(home)
    with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=home, ignore_cleanup_errors=True) as work:
        root = Path(work) / "root"
        _fill(root, name, digest)
        try:
            root.rename(home / f"{name}-{digest}")
        except OSError:
            # Somebody else finished first: theirs is as good as ours.
            return find_runtime(name)
    return find_runtime(name)


def _homes() -> list[Path]:
    """Where runtimes are, best first. What root runs comes only from where nobody else can write."""
    if os.geteuid() == 0:
        return [_SYSTEM_HOME]
    data = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local/share")
    return [Path(data) / "privid/runtime", _SYSTEM_HOME]


def _make_home(home: Path) -> None:
    try:
        home.mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0:
            for directory in (home, home.parent):
                directory.chmod(0o755)
    except OSError as error:
        raise SandboxFailed(f"could not create directory {home}: {error.strerror}",
                            hint="Make it writable, or set XDG_DATA_HOME to a directory that is.") from None


def _digest(name: str) -> str:
    if name not in RUNTIMES:
        raise SandboxFailed(f'runtime "{name}" does not exist', hint=f"Runtimes are: {', '.join(RUNTIMES)}.")
    made_of = {"layout": _LAYOUT, "requirements": RUNTIMES[name], "python": python_version(), "machine": platform.machine()}
    return hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()[:16]


def _fill(root: Path, name: str, digest: str) -> None:
    if name == EMPTY_RUNTIME:
        add_shell(root)
    else:
        add_system(root)
        _install_packages(root, RUNTIMES[name])
    add_skeleton(root)
    copy_libraries(root)
    if name != EMPTY_RUNTIME:
        _compile(root)
    manifest = {"name": name, "digest": digest, "requirements": RUNTIMES[name], "python": python_version()}
    (root / _MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
    root.chmod(0o755)
    for path in root.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o111 else 0o644)


def _install_packages(root: Path, requirements: tuple[str, ...]) -> None:
    """Wheels for Debian's interpreter, whichever interpreter the engine itself runs on."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-compile",
               "--only-binary", ":all:", "--python-version", python_version(), "--target", str(root / PACKAGES), *requirements]
    environment = os.environ | {"PIP_ROOT_USER_ACTION": "ignore"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        raise SandboxFailed(f"could not install {', '.join(requirements)} for sandboxed programs",
                            detail=done.stderr.strip()[-2000:] or None,
                            hint="Check that pip works and that the package registry can be reached.")
    for unused in [*(root / PACKAGES).rglob("tests"), root / PACKAGES / "bin"]:
        shutil.rmtree(unused, ignore_errors=True)


def _compile(root: Path) -> None:
    """Byte code for every module: a program's root is read-only, so Python could not keep what it compiles there."""
    command = [str(PYTHON), "-I", "-m", "compileall", "-q", "-s", str(root), "-p", "/", "--invalidation-mode", "unchecked-hash",
               str(root / "usr/lib")]
    # A package may ship a file for another version of Python; it stays uncompiled, which is no error.
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main(names: Sequence[str] = ()) -> int:
    """Build what is missing; print where it is."""
    try:
        for name in names or (DEFAULT_RUNTIME, EMPTY_RUNTIME):
            print(build_runtime(name).root)
    except SandboxFailed as error:
        print(f"privid: {error.message}", *(f"{label}: {text}" for label, text in (("detail", error.detail), ("hint", error.hint)) if text),
              sep="\n", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
