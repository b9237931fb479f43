"""Options that several commands share."""

from __future__ import annotations

import argparse
from pathlib import Path

from .layout import default_data

__all__ = ["data_option", "port_number"]


def data_option(parser: argparse.ArgumentParser) -> None:
    """--data DIR."""
    parser.add_argument("--data", metavar="DIR", type=Path, default=None,
                        help=f"data directory of the stack (default: {str(default_data()).replace('%', '%%')})")


def port_number(text: str) -> int:
    """A TCP port; 0 means none."""
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f'"{text}" is not a port: it must be between 0 and 65535')
    return int(text)
