"""Removes what privid install has put into an existing PostgreSQL 15, and nothing else.

A server that preloads the library would not start without it, so it refuses while it can see one
that does, or a database that has the extension. Of servers that do not run, and of those that do
not let it in, it cannot tell; then it says what to look at.
"""

from __future__ import annotations

import argparse

from privid.closed import user_name

from .install import build_option
from .library import PostgresBuild, postgres_build
from .servers import Server, running_servers
from .terminal import CommandFailed

__all__ = ["SUMMARY", "arguments", "run"]

SUMMARY = "remove what privid install has put into a PostgreSQL"


def arguments(parser: argparse.ArgumentParser) -> None:
    build_option(parser)
    parser.add_argument("--dry-run", action="store_true",
                        help="tell what would be removed, and remove nothing")


def run(options: argparse.Namespace) -> int:
    build = postgres_build(options.pg_config)
    extension = build.sharedir / "extension"
    # also scripts of other versions, which an earlier install may have left
    candidates = (build.pkglibdir / "privid.so", extension / "privid.control",
                  *sorted(extension.glob("privid--[0-9]*.sql")))
    found = [place for place in candidates if place.exists()]
    if not found:
        print(f"Nothing of privid is installed in {build.pkglibdir} and {extension}.")
        return 0
    unknown = _check_unused(build)
    for place in found:
        if not options.dry_run:
            try:
                place.unlink(missing_ok=True)
            except OSError as error:
                raise CommandFailed(f'could not remove "{place}": {error.strerror}',
                                    "Run the command as root.") from None
        print(f"{'would remove' if options.dry_run else 'removed'} {place}")
    for server in unknown:
        print((f"Could not ask the server in {server.data}" if server.trusted else
               f"Did not ask the server in {server.data}, which {user_name(server.account.uid)} runs")
              + ": a database of it may have the extension, which DROP EXTENSION privid removes.")
    print("A server that is not running must not name privid in shared_preload_libraries, or it "
          "will not start.")
    return 0


def _check_unused(build: PostgresBuild) -> list[Server]:
    """The servers that could not be asked; raises when one needs the files."""
    unknown = []
    for server in running_servers(build):
        loaded = server.preloaded("privid.so")
        if loaded and build.pkglibdir.resolve() / "privid.so" not in loaded:
            continue  # a stack, which has a copy of its own
        databases = server.databases_with("privid")
        if loaded or databases:
            where = f" in {', '.join(databases)}" if databases else ""
            raise CommandFailed(f'the server in "{server.data}" uses the library'
                                + (f"; the extension is{where}" if where else ""),
                                f"Run DROP EXTENSION privid CASCADE{where}, which ends all budgets "
                                "there; take privid out of shared_preload_libraries; restart the "
                                "server.")
        if databases is None:
            unknown.append(server)
    return unknown
