"""Stops the engine and PostgreSQL of a stack. The data stays, and privid up starts it again."""

from __future__ import annotations

import argparse

from .options import data_option
from .stack import Stack

__all__ = ["SUMMARY", "arguments", "run"]

SUMMARY = "stop a stack"


def arguments(parser: argparse.ArgumentParser) -> None:
    data_option(parser)


def run(options: argparse.Namespace) -> int:
    stack = Stack(options.data)
    ran = stack.down()
    print(f"The stack in {stack.layout.data} {'has stopped' if ran else 'was not running'}.")
    return 0
