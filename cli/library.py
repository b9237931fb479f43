"""The C library and the extension's scripts: where this package has them, and a private copy of them for each stack.

PostgreSQL is told by extension_destdir to look below the stack's own directory first, so that nothing is installed
system-wide and stacks of several versions live side by side. The copy is named by its content: a running server keeps
the very file that it loaded, whatever is built or upgraded meanwhile.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import privid

from .terminal import CommandFailed

__all__ = ["PostgresBuild", "copy_into", "library_files", "offered_version", "postgres_build", "prune"]

_DEBIAN = Path("/usr/lib/postgresql/15/bin/pg_config")


@dataclass(frozen=True)
class PostgresBuild:
    """A PostgreSQL 15 on this machine."""

    version: str
    bindir: Path
    sharedir: Path
    pkglibdir: Path


@cache
def postgres_build() -> PostgresBuild:
    """The PostgreSQL that stacks use: $PG_CONFIG, Debian's place, or the one on the path."""
    found = os.environ.get("PG_CONFIG") or (str(_DEBIAN) if _DEBIAN.exists() else shutil.which("pg_config"))
    hint = "Install it: apt-get install postgresql-15, or make setup in a checkout. PG_CONFIG names the pg_config to use."
    if not found:
        raise CommandFailed("PostgreSQL 15 was not found", hint)
    try:
        told = subprocess.run([found, "--version", "--bindir", "--sharedir", "--pkglibdir"], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise CommandFailed(f'could not run "{found}": {error}', hint) from None
    version, bindir, sharedir, pkglibdir = told.stdout.splitlines()
    if not version.startswith("PostgreSQL 15"):
        raise CommandFailed(f'"{found}" is of {version}, not of PostgreSQL 15', hint)
    build = PostgresBuild(version, Path(bindir), Path(sharedir), Path(pkglibdir))
    if not (build.bindir / "postgres").exists():  # the development files came without the server
        raise CommandFailed(f'the PostgreSQL server is missing from "{bindir}"', hint)
    return build


def library_files() -> tuple[Path, list[Path]]:
    """privid.so, and the control file with the scripts: of a checkout, or of an installed package."""
    package = Path(privid.__file__).resolve().parent
    for fdw, sql in ((package / "fdw", package / "fdw" / "sql"), (package.parent / "fdw", package.parent / "sql")):
        if (sql / "privid.control").exists():
            if not (fdw / "privid.so").exists():
                raise CommandFailed("the C library is not built", "Run make setup in the checkout.")
            return fdw / "privid.so", [sql / "privid.control", *sorted(sql.glob("privid--*.sql"))]
    raise CommandFailed("the extension's scripts are not installed", "Run make setup in the checkout.")


def offered_version() -> str:
    """default_version of the control file (PostgreSQL's own list of what is available leaves extension_destdir out)."""
    control = library_files()[1][0].read_text()
    for line in control.splitlines():
        name, _, value = line.partition("=")
        if name.strip() == "default_version":
            return value.strip().strip("'")
    raise CommandFailed("privid.control has no default_version")


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
