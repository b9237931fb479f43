"""Tells systemd that the engine is ready, so that starting its unit ends when it listens."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from pathlib import Path

from .processes import wait_until

__all__ = ["announce"]


def announce(path: Path) -> None:
    """Once somebody listens on the path; nothing where systemd did not start this process."""
    address = os.environ.pop("NOTIFY_SOCKET", "")
    if address:
        threading.Thread(target=_announce, args=(path, address), daemon=True).start()


def _announce(path: Path, address: str) -> None:
    if wait_until(lambda: _listens(path), 600):
        # "@" stands for the zero byte that an abstract name begins with
        name = "\0" + address[1:] if address.startswith("@") else address
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end, contextlib.suppress(OSError):
            end.sendto(b"READY=1", name)


def _listens(path: Path) -> bool:
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
        probe.connect(str(path))
        return True
    return False
