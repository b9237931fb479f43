"""Tells what of a stack is running. The exit code is 0 when all of it is, and 3 when something is not."""

from __future__ import annotations

import argparse

from .options import data_option
from .stack import Stack

__all__ = ["SUMMARY", "arguments", "run"]

SUMMARY = "tell whether a stack is running"


def arguments(parser: argparse.ArgumentParser) -> None:
    data_option(parser)


def run(options: argparse.Namespace) -> int:
    stack = Stack(options.data)
    if not stack.layout.exists:
        print(f"There is no stack in {stack.layout.data}.")
        return 3
    pieces = stack.pieces()
    for piece in pieces:
        print(f"{piece.name:<11} {'running' if piece.running else 'stopped'}  ({piece.detail})")
    print(f"{'data':<11} {stack.layout.data}")
    print(f"{'videos':<11} {stack.layout.videos}")
    if all(piece.running for piece in pieces):
        print(f"{'psql':<11} {stack.psql_line()}")
        return 0
    return 3
