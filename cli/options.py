"""Options that several commands share."""

from __future__ import annotations

import argparse
from pathlib import Path

from .layout import default_data
from .target import read_dsn

__all__ = ["data_option", "database_options", "dsn_option", "lane_count", "port_number", "role_option",
           "shortened", "whole_number"]

Parser = argparse.ArgumentParser | argparse._MutuallyExclusiveGroup


def data_option(parser: Parser) -> None:
    """--data DIR, for commands that are about an embedded stack."""
    usual = str(default_data()).replace("%", "%%")
    parser.add_argument("--data", metavar="DIR", type=Path, default=None,
                        help=f"data directory of the stack (default: {usual})")


def dsn_option(parser: Parser, what: str) -> None:
    """--dsn CONNINFO."""
    parser.add_argument("--dsn", metavar="CONNINFO", type=read_dsn, default=None, help=what)


def database_options(parser: argparse.ArgumentParser) -> None:
    """--data DIR or --dsn CONNINFO, for commands that speak to a database, wherever it is."""
    either = parser.add_mutually_exclusive_group()
    data_option(either)
    dsn_option(either, "a database elsewhere, as PostgreSQL's connection string or URI; without "
                       "--dsn and --data, PostgreSQL's own variables count (PGHOST, PGSERVICE, "
                       "...) where they are set")


def role_option(parser: argparse.ArgumentParser, what: str, usual: str) -> None:
    """-U ROLE: on a stack a usual one by itself, elsewhere whoever --dsn or the variables name."""
    parser.add_argument("-U", "--username", metavar="ROLE", default=None,
                        help=f"{what} (default: {usual} on a stack, elsewhere as PostgreSQL finds "
                             "it)")


def lane_count(text: str) -> int:
    """How many lanes; 0 means as many as fit the machine."""
    return whole_number(text, 0, 512, "a number of lanes: it must be between 0 and 512")


def port_number(text: str) -> int:
    """A TCP port; 0 means none."""
    return whole_number(text, 0, 65535, "a port: it must be between 0 and 65535")


def whole_number(text: str, low: int, high: int, what: str) -> int:
    """A number between bounds; one of thousands of digits is not even read."""
    if not text.isascii() or not text.isdigit() or len(text) > 18 or not low <= int(text) <= high:
        raise argparse.ArgumentTypeError(f'"{shortened(text)}" is not {what}')
    return int(text)


def shortened(text: str) -> str:
    """What was given, as far as it is worth showing."""
    return text if len(text) <= 100 else text[:100] + "..."
