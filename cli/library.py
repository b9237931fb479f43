"""The C library and the extension's scripts: where this package has them, and a private copy of them for each stack.

PostgreSQL is told by extension_destdir to look below the stack's own directory first, so that nothing is installed
system-wide and stacks of several versions live side by side. The copy is named by its content: a running server keeps
the very file that it loaded, whatever is built or upgraded meanwhile.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from privid.postgres_build import PostgresBuild, library_files, postgres_build, room_library

from .terminal import CommandFailed

__all__ = ["PostgresBuild", "copy_into", "library_files", "offered_version", "postgres_build", "prune",
           "room_library", "server_places"]


def offered_version() -> str:
    """default_version of the control file (PostgreSQL's own list of what is available leaves extension_destdir out)."""
    control = library_files()[1][0].read_text()
    for line in control.splitlines():
        name, _, value = line.partition("=")
        if name.strip() == "default_version":
            return value.strip().strip("'")
    raise CommandFailed("privid.control has no default_version")


def server_places(build: PostgresBuild) -> dict[Path, Path]:
    """Where a server of this build looks for each of our files: place -> file."""
    library, scripts = library_files()
    return {build.pkglibdir / library.name: library, **{build.sharedir / "extension" / script.name: script for script in scripts}}


def copy_into(target: Path, build: PostgresBuild) -> Path:
    """Copies what PostgreSQL loads below the target and returns the directory for extension_destdir."""
    library, scripts = library_files()
    digest = hashlib.sha256()
    for file in (library, *scripts):
        content = file.read_bytes()
        digest.update(f"{file.name} {len(content)}\n".encode() + content)
    place = target / digest.hexdigest()[:16]
    if not place.exists():
        new = target / f"{place.name}.{os.getpid()}"
        for file, below in ((library, build.pkglibdir), *((s, build.sharedir / "extension") for s in scripts)):
            folder = new / below.relative_to("/")
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, folder / file.name)
            (folder / file.name).chmod(0o644)
        for folder in (new, *(p for p in new.rglob("*") if p.is_dir())):
            folder.chmod(0o755)
        new.rename(place)
    return place


def prune(target: Path, place: Path) -> None:
    """Removes copies that no server uses any more."""
    for old in target.iterdir():
        if old != place:
            shutil.rmtree(old)
