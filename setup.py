"""Installs the rooms of this repository as the Python package privid, with the C libraries that PostgreSQL loads."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
from pathlib import Path

from setuptools import Command, Distribution, setup
from setuptools.command.build import build

HERE = Path(__file__).resolve().parent

#: every room is a top-level folder; core/ is the package itself
ROOMS = ("calculus", "cli", "engine", "fdw", "language", "ledger", "room", "sandbox", "udf", "video")

#: what the served database loads, and what the engine's own PostgreSQL loads
LIBRARIES = ("privid.so", "privid_room.so")

#: what the engine needs at run time; constraints.txt names the exact versions that are tested together
REQUIRES = ("av", "numpy", "opencv-python-headless<5", "opendp>=0.16", "psycopg[binary]>=3.2", "pyseccomp", "sqlglot")
DEVELOPMENT = ("hypothesis", "mypy", "pytest", "pytest-xdist", "ruff", "scipy", "scipy-stubs", "setuptools", "wheel")


def rooms() -> dict[str, str]:
    """Package name -> folder. Folders below a room are packages of their own when they hold Python files."""
    found = {"privid": "core"}
    for room in ROOMS:
        for folder in [HERE / room, *sorted(p for p in (HERE / room).rglob("*") if p.is_dir() and p.name != "__pycache__")]:
            if folder == HERE / room or (folder / "__init__.py").exists():
                found[".".join(("privid", *folder.relative_to(HERE).parts))] = folder.relative_to(HERE).as_posix()
    return found


def version() -> str:
    """__version__ of core/__init__.py, read without importing it."""
    for node in ast.parse((HERE / "core" / "__init__.py").read_text()).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == "__version__":
            return str(ast.literal_eval(node.value))
    raise SystemExit("core/__init__.py has no __version__")


def pg_config() -> str:
    """pg_config of PostgreSQL 15: $PG_CONFIG, Debian's place, or the one on the path."""
    debian = "/usr/lib/postgresql/15/bin/pg_config"
    return os.environ.get("PG_CONFIG") or (debian if Path(debian).exists() else shutil.which("pg_config") or debian)


class BuildLibrary(Command):  # type: ignore[misc]
    """Runs fdw/Makefile (PGXS) and sandbox/Makefile and, for an ordinary install, copies what was built into the package."""

    description = "build the C libraries, two of them against PostgreSQL 15"
    user_options = [("build-lib=", "d", "directory to build to")]  # noqa: RUF012 (setuptools' own form)
    editable_mode = False

    def initialize_options(self) -> None:
        self.build_lib: str | None = None

    def finalize_options(self) -> None:
        self.set_undefined_options("build", ("build_lib", "build_lib"))

    def run(self) -> None:
        subprocess.run(["make", "-C", str(HERE / "fdw"), f"PG_CONFIG={pg_config()}"], check=True)
        subprocess.run(["make", "-C", str(HERE / "sandbox")], check=True)
        if not self.editable_mode:
            package = Path(self.build_lib or "build/lib") / "privid"
            target = package / "fdw"
            (target / "sql").mkdir(parents=True, exist_ok=True)
            (package / "sandbox").mkdir(parents=True, exist_ok=True)
            shutil.copy2(HERE / "sandbox" / "litter.so", package / "sandbox")
            for library in LIBRARIES:
                shutil.copy2(HERE / "fdw" / library, target)
            for script in [HERE / "sql" / "privid.control", *sorted((HERE / "sql").glob("privid--*.sql"))]:
                shutil.copy2(script, target / "sql")

    def get_source_files(self) -> list[str]:
        return [p.relative_to(HERE).as_posix()
                for p in [HERE / "fdw" / "Makefile", HERE / "fdw" / "exports.map", *(HERE / "fdw").glob("*.[ch]"),
                          *(HERE / "sql").glob("privid*"),
                          HERE / "sandbox" / "Makefile", HERE / "sandbox" / "litter.c"] if p.exists()]

    def get_outputs(self) -> list[str]:
        built = (*(f"fdw/{library}" for library in LIBRARIES), "sandbox/litter.so")
        return [] if self.editable_mode else [f"{self.build_lib}/privid/{name}" for name in built]

    def get_output_mapping(self) -> dict[str, str]:
        return {}


class Build(build):  # type: ignore[misc]
    """The library is part of every build."""

    sub_commands = [*build.sub_commands, ("build_library", None)]  # noqa: RUF012 (setuptools' own form)


class PlatformDistribution(Distribution):  # type: ignore[misc]
    """The package holds a compiled library, so that it is not one for all machines, though setuptools did not compile it."""

    def has_ext_modules(self) -> bool:
        return True


setup(
    name="privid",
    version=version(),
    description="Duration-private answers about video, in PostgreSQL",
    license="Apache-2.0",
    python_requires=">=3.11",
    packages=sorted(rooms()),
    package_dir=rooms(),
    package_data={"privid": ["py.typed"], "privid.fdw": [*LIBRARIES, "sql/*"], "privid.sandbox": ["litter.so"],
                  "privid.cli": ["*.conf"], "privid.room": ["*.sql"]},
    install_requires=list(REQUIRES),
    extras_require={"dev": list(DEVELOPMENT)},
    entry_points={"console_scripts": ["privid = privid.cli.main:main"]},
    distclass=PlatformDistribution,
    cmdclass={"build": Build, "build_library": BuildLibrary},
    zip_safe=False,
)
