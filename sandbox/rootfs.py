"""What a runtime's root directory holds: Debian's own Python and shell with the libraries they load, and nothing else of the host."""

from __future__ import annotations

import functools
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from privid.errors import SandboxFailed

__all__ = ["PACKAGES", "PYTHON", "add_shell", "add_skeleton", "add_system", "copy_libraries", "python_version"]

#: Debian's interpreter, in the sandbox and outside.
PYTHON = Path("/usr/bin/python3")
#: Where packages of a runtime live: on the default path of Debian's interpreter, so that #! scripts find them too.
PACKAGES = Path("usr/lib/python3/dist-packages")

#: Small tools that scripts expect. One that the host lacks is left out.
_TOOLS = ("sh", "bash", "env", "[", "awk", "basename", "cat", "chmod", "cmp", "cp", "cut", "date", "dd", "dirname", "echo", "expr",
          "false", "find", "grep", "gzip", "head", "id", "ln", "ls", "mkdir", "mktemp", "mv", "od", "paste", "printf", "pwd", "readlink",
          "rm", "rmdir", "sed", "seq", "sleep", "sort", "tail", "tee", "test", "timeout", "touch", "tr", "true", "uname", "uniq", "wc",
          "xargs")
#: Libraries that programs built elsewhere are linked with, though nothing in the runtime needs them.
_LIBRARIES = ("libc.so.6", "libdl.so.2", "libgcc_s.so.1", "libgomp.so.1", "libm.so.6", "libpthread.so.0", "librt.so.1",
              "libstdc++.so.6", "libz.so.1")
#: Parts of the standard library that no program over frames needs; they would only fill RAM.
_UNUSED = ("__phello__", "config-*", "ensurepip", "idlelib", "lib2to3", "pydoc_data", "test", "tests", "tkinter", "turtledemo",
           "turtle.py", "LICENSE.txt", "EXTERNALLY-MANAGED")


@functools.cache
def python_version() -> str:
    """Major and minor version of Debian's interpreter, for example 3.11."""
    try:
        command = [str(PYTHON), "-I", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as error:
        raise SandboxFailed(f"could not run {PYTHON}: {error}", hint="Install Debian's package python3.") from None


def add_system(root: Path) -> None:
    """Copy interpreter, standard library, tools and the dynamic loader below root."""
    version = python_version()
    binaries = root / "usr/bin"
    binaries.mkdir(parents=True)
    shutil.copy2(PYTHON.resolve(), binaries / f"python{version}")
    (binaries / "python3").symlink_to(f"python{version}")
    for tool in _TOOLS:
        found = shutil.which(tool, path="/usr/bin:/bin")
        if found:
            shutil.copy2(Path(found).resolve(), binaries / tool)
    shutil.copytree(f"/usr/lib/python{version}", root / f"usr/lib/python{version}", symlinks=False, ignore_dangling_symlinks=True,
                    ignore=shutil.ignore_patterns(*_UNUSED))
    (root / PACKAGES).mkdir(parents=True, exist_ok=True)
    locale = Path("/usr/lib/locale/C.utf8")
    if locale.is_dir():
        shutil.copytree(locale, root / locale.relative_to("/"))


def add_shell(root: Path) -> None:
    """The shell alone."""
    (root / "usr/bin").mkdir(parents=True)
    shutil.copy2(Path("/bin/sh").resolve(), root / "usr/bin/sh")


def add_skeleton(root: Path) -> None:
    """The directories and small files around it, among them the points where a run's own things are mounted."""
    for directory in ("app", "chunk", "dev", "etc", "proc", "sys/devices/system/cpu", "tmp", "var/tmp"):
        (root / directory).mkdir(parents=True, exist_ok=True)
    for device in ("null", "zero", "urandom"):
        (root / "dev" / device).touch()
    for mount_point in ("program", "module.py"):
        (root / "app" / mount_point).touch()
    for link, target in (("bin", "usr/bin"), ("sbin", "usr/bin"), ("lib", "usr/lib"), ("lib64", "usr/lib64")):
        (root / link).symlink_to(target)
    (root / "etc/passwd").write_text("root:x:0:0::/:/bin/sh\nprogram:x:1000:1000::/tmp:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\nprogram:x:1000:\n")
    (root / "etc/nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files\n")
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n")


def copy_libraries(root: Path) -> None:
    """Copy every shared library that an ELF file below root loads from the host."""
    loaders = sorted(Path("/lib64").glob("ld-linux-*.so.*")) + sorted(Path("/lib").glob("ld-linux-*.so.*"))
    if not loaders:
        raise SandboxFailed("could not find the dynamic loader", hint="The sandbox supports Debian's C library on x86-64 and arm64.")
    loader = loaders[0]
    _copy_as(root, loader)
    for library in _resolve(loader, [p for p in sorted(root.rglob("*")) if _is_elf(p)], root):
        _copy_as(root, library)
    home = _multiarch_directory()
    for name in _LIBRARIES:
        if (home / name).exists():
            _copy_as(root, home / name)


def _resolve(loader: Path, files: Iterable[Path], root: Path) -> set[Path]:
    found: set[Path] = set()
    for file in files:
        listing = subprocess.run([str(loader), "--list", str(file)], capture_output=True, text=True, check=False).stdout
        for line in listing.splitlines():
            target = line.partition("=>")[2].split("(")[0].strip()
            if target.startswith("/") and not Path(target).is_relative_to(root):
                found.add(Path(target))
    return found


def _copy_as(root: Path, library: Path) -> None:
    """Copy a library under the name by which it is asked for, in its directory after links such as /lib -> /usr/lib."""
    target = root / library.parent.resolve().relative_to("/") / library.name
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists():
        shutil.copy2(library.resolve(), target)


def _multiarch_directory() -> Path:
    libc = sorted(Path("/usr/lib").glob("*-linux-gnu/libc.so.6"))
    return libc[0].parent if libc else Path("/usr/lib")


def _is_elf(path: Path) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"
