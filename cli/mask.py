"""Offers the tables of a camera a mask, made from an image: what is black (or dark) in it will be black in every picture.

The image has the camera's size. RHO is the longest that one visible piece of an appearance lasts behind the mask; an appearance that is
visible in several pieces needs --pieces, and --visible says how long all of them last together, if that is less than --pieces times RHO.
Without it nothing is promised of that. A mask is never changed: privid.drop_mask withdraws it, and its name stays taken."""

from __future__ import annotations

import argparse
from pathlib import Path

from .files import read_bounded
from .options import database_options, role_option
from .target import find_target, reported
from .terminal import CommandFailed

__all__ = ["SUMMARY", "arguments", "run"]

SUMMARY = "offer the tables of a camera a mask, made from an image"
_DARK = 128
#: bytes of an image, whatever its format
_LONGEST = 1 << 26


def arguments(parser: argparse.ArgumentParser) -> None:
    database_options(parser)
    role_option(parser, "role that owns the camera", "owner")
    parser.add_argument("--rho", metavar="RHO", required=True, help="the longest visible piece behind the mask, for example 10s")
    parser.add_argument("--pieces", metavar="N", type=int, default=1, help="visible pieces of one appearance (default: 1)")
    parser.add_argument("--visible", metavar="TIME", help="how long one appearance is visible in all its pieces together, for example 12s")
    parser.add_argument("camera", metavar="CAMERA", help="the camera")
    parser.add_argument("name", metavar="NAME", help="name of the mask")
    parser.add_argument("image", metavar="IMAGE", type=Path, help="an image of the camera's size; dark pixels are masked")


def run(options: argparse.Namespace) -> int:
    content, share = _bitmap(options.image)
    with find_target(options).connect(options.username, "owner") as connection, reported():
        connection.execute("SELECT privid.create_mask(%s, %s, rho => %s, image => %b, pieces => %s, visible => %s)",
                           (options.camera, options.name, options.rho, content, options.pieces, options.visible))
    print(f"mask {options.name} of camera {options.camera}: {share:.1%} of the picture is black, rho {options.rho}, "
          f"pieces {options.pieces}" + (f", visible {options.visible}" if options.visible else ""))
    return 0


def _bitmap(path: Path) -> tuple[bytes, float]:
    """The image as PBM, and how much of it is masked."""
    import cv2  # the other commands start without
    import numpy as np

    content = read_bounded(path, _LONGEST, "an image of a mask", "Use a PNG of the camera's size.")
    picture = cv2.imdecode(np.frombuffer(content, dtype=np.uint8), cv2.IMREAD_GRAYSCALE) if content else None
    if picture is None:
        raise CommandFailed(f'"{path}" is not an image', "Use a PNG or another common format.")
    dark = picture < _DARK
    return b"P4\n%d %d\n" % dark.shape[::-1] + np.packbits(dark, axis=1).tobytes(), float(dark.mean())
