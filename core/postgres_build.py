"""The PostgreSQL 15 of this machine, and the files of ours that it loads."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .errors import PrividError

__all__ = ["PostgresBuild", "library_files", "postgres_build", "room_library"]

_DEBIAN = Path("/usr/lib/postgresql/15/bin/pg_config")


@dataclass(frozen=True)
class PostgresBuild:
    """A PostgreSQL 15 on this machine."""

    version: str
    bindir: Path
    sharedir: Path
    pkglibdir: Path


@cache
def postgres_build(pg_config: str | None = None) -> PostgresBuild:
    """A PostgreSQL by its pg_config; without one, that of stacks and rooms: $PG_CONFIG, Debian's place, or the one on the path."""
    found = pg_config or os.environ.get("PG_CONFIG") or (str(_DEBIAN) if _DEBIAN.exists() else shutil.which("pg_config"))
    hint = ("Install it: apt-get install postgresql-15, or make setup in a checkout. PG_CONFIG names the pg_config to use."
            if not pg_config else "Give the pg_config of a PostgreSQL 15, which Debian has in /usr/lib/postgresql/15/bin.")
    if not found:
        raise PrividError("PostgreSQL 15 was not found", hint=hint)
    try:
        told = subprocess.run([found, "--version", "--bindir", "--sharedir", "--pkglibdir"], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise PrividError(f'could not run "{found}": {error}', hint=hint) from None
    try:
        version, bindir, sharedir, pkglibdir = told.stdout.splitlines()
    except ValueError:
        raise PrividError(f'"{found}" is no pg_config', hint=hint) from None
    if not version.startswith("PostgreSQL 15"):
        raise PrividError(f'"{found}" is of {version}, not of PostgreSQL 15', hint=hint)
    build = PostgresBuild(version, Path(bindir), Path(sharedir), Path(pkglibdir))
    if not (build.bindir / "postgres").exists():  # the development files came without the server
        raise PrividError(f'the PostgreSQL server is missing from "{bindir}"', hint=hint)
    return build


def library_files() -> tuple[Path, list[Path]]:
    """What a served database needs: privid.so, and the control file with the scripts."""
    fdw, sql = _folders()
    return _built(fdw / "privid.so"), [sql / "privid.control", *sorted(sql.glob("privid--*.sql"))]


def room_library() -> Path:
    """privid_room.so, which only the engine's own PostgreSQL loads. No served database is ever given it."""
    return _built(_folders()[0] / "privid_room.so")


def _folders() -> tuple[Path, Path]:
    """Where the libraries and the scripts are: of a checkout, or of an installed package."""
    package = Path(__file__).resolve().parent
    for fdw, sql in ((package / "fdw", package / "fdw" / "sql"), (package.parent / "fdw", package.parent / "sql")):
        if (sql / "privid.control").exists():
            return fdw, sql
    raise PrividError("the extension's scripts are not installed", hint="Run make setup in the checkout.")


def _built(library: Path) -> Path:
    if not library.exists():
        raise PrividError(f"the C library {library.name} is not built", hint="Run make setup in the checkout.")
    return library
