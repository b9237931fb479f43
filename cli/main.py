"""The command privid: one file per subcommand, each with a parser and a function."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Iterable, Sequence
from importlib import import_module

import privid
from privid.errors import PrividError

from .terminal import CommandFailed, harmless_output

__all__ = ["COMMANDS", "main", "parser"]

#: subcommand -> its module; the module has summary, arguments(parser) and run(options)
COMMANDS = {
    "up": "up",
    "down": "down",
    "status": "status",
    "psql": "psql",
    "upload": "upload",
    "mask": "mask",
    "query": "query",
    "progress": "progress",
    "try": "try_",
    "budget": "budget",
    "exposure": "exposure",
    "ledger": "ledger",
    "restore": "restore",
    "doctor": "doctor",
    "install": "install",
    "uninstall": "uninstall",
    "engine": "engine",
}


def parser(names: Iterable[str] = COMMANDS) -> argparse.ArgumentParser:
    """The whole command line, or that of some commands."""
    top = argparse.ArgumentParser(prog="privid", description="Duration-private answers about video, in PostgreSQL.",
                                  epilog="privid COMMAND --help tells more about a command.")
    top.add_argument("--version", action="version", version=f"privid {privid.__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in names:
        command = import_module(f".{COMMANDS[name]}", __package__)
        sub = commands.add_parser(name, help=command.SUMMARY, description=command.__doc__,
                                  formatter_class=argparse.RawDescriptionHelpFormatter)
        command.arguments(sub)
        sub.set_defaults(run=command.run)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code: 0 done, 1 failed, 2 wrong usage, 3 not running (status)."""
    with harmless_output():
        return _main(list(sys.argv[1:] if argv is None else argv))


def _main(given: list[str]) -> int:
    # a command that is named first is the only one that is wanted: to load them all takes longer than most of them do
    options = parser(given[:1] if given[:1] and given[0] in COMMANDS else COMMANDS).parse_args(given)
    try:
        return int(options.run(options))
    except (CommandFailed, PrividError) as failure:
        _tell(f"privid: error: {failure.message}")
        if isinstance(failure, PrividError) and failure.detail:
            _tell(f"DETAIL:  {failure.detail}")
        if failure.hint:
            _tell(f"HINT:  {failure.hint}")
        return 1
    except PermissionError as error:
        _tell(f'privid: error: could not use "{error.filename}": {error.strerror}')
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output went away, as in privid ... | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception:  # a fault of ours: what it says may have others' words in it, too
        traceback.print_exc()
        return 1


def _tell(line: str) -> None:
    print(line, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
