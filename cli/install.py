"""Puts the C library and the extension's scripts where an existing PostgreSQL 15 looks for them.

It does nothing else to that server. Only one beside which an engine is to run needs this
(docs/operators.md); privid up gives each stack a copy of its own. Each file is replaced at once: a
running server has the old one or the new one, and goes on with the library that it loaded until it
is restarted.
"""

from __future__ import annotations

import argparse
import contextlib
import os
from pathlib import Path

import privid

from .library import offered_version, postgres_build, server_places
from .servers import running_servers
from .terminal import CommandFailed

__all__ = ["SUMMARY", "arguments", "build_option", "run"]

SUMMARY = "put the library and the extension where an existing PostgreSQL looks"

_NEXT = """\
Next, for each server that shall use it (docs/operators.md has every step):
  shared_preload_libraries = 'privid'   beside what stands there, and a restart
  CREATE EXTENSION privid               in the database, as a superuser
  privid engine                         on this machine"""


def build_option(parser: argparse.ArgumentParser) -> None:
    """--pg-config PATH."""
    parser.add_argument("--pg-config", metavar="PATH", default=None,
                        help="pg_config of the server's PostgreSQL (default: $PG_CONFIG, or "
                             "Debian's of PostgreSQL 15)")


def arguments(parser: argparse.ArgumentParser) -> None:
    build_option(parser)
    parser.add_argument("--dry-run", action="store_true",
                        help="tell what would be written, and write nothing")


def run(options: argparse.Namespace) -> int:
    build = postgres_build(options.pg_config)
    if offered_version() != privid.__version__:
        raise CommandFailed(f"the extension's script is of version {offered_version()}, this "
                            f"package of {privid.__version__}",
                            "Run make setup in the checkout, or install the package again.")
    places = server_places(build)
    changed = [place for place, file in places.items() if _content(place) != file.read_bytes()]
    if not options.dry_run:
        _replace({place: places[place] for place in changed})
    for place in places:
        did = "same" if place not in changed else "would write" if options.dry_run else "wrote"
        print(f"{did:<11} {place}")
    library = next(iter(places))
    using = [server for server in running_servers(build)
             if library in changed and library.resolve() in server.preloaded(library.name)]
    for server in using:
        print(f"The server in {server.data} goes on with the library it loaded: restart it, then "
              "run ALTER EXTENSION privid UPDATE in its databases.")
    if changed and not using:
        print(_NEXT)
    return 0


def _content(place: Path) -> bytes | None:
    try:
        return place.read_bytes()
    except FileNotFoundError:
        return None


def _replace(places: dict[Path, Path]) -> None:
    """All are written beside their places before the first takes its own: all, or nothing."""
    new: dict[Path, Path] = {}
    try:
        for place, file in places.items():
            new[place] = place.with_name(f".{place.name}.{os.getpid()}")
            with new[place].open("xb") as stream:
                stream.write(file.read_bytes())
                os.fchmod(stream.fileno(), 0o644)  # whatever the umask
                os.fsync(stream.fileno())
        for place, written in new.items():
            written.rename(place)
    except OSError as error:
        where = Path(error.filename or place).parent
        raise CommandFailed(f'could not write to "{where}": {error.strerror}',
                            _remedy(error)) from None
    finally:
        for written in new.values():
            with contextlib.suppress(OSError):
                written.unlink(missing_ok=True)


def _remedy(error: OSError) -> str | None:
    if isinstance(error, PermissionError):
        return "It belongs to root where PostgreSQL is a package: run the command as root."
    if isinstance(error, FileNotFoundError):
        return "Is the server of this PostgreSQL installed? Give its pg_config with --pg-config."
    return None
