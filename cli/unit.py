"""A unit for systemd that runs the engine, and the place of its socket."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from .terminal import CommandFailed

__all__ = ["unit_file", "usual_socket"]

#: below it each engine has a directory with its socket, named after the database
_SOCKETS = Path("/run/privid-engine")
#: what ProtectHome= hides
_HOMES = ("/home", "/root", "/run/user")

_UNIT = """\
# Written by privid engine --print-unit. Put it into /etc/systemd/system; systemctl daemon-reload
[Unit]
Description=privid engine
After=postgresql.service network.target
Wants=postgresql.service

[Service]
Type=notify
ExecStart={command}
{directory}# PostgreSQL may not be up yet, or be down for a while
Restart=on-failure
RestartSec=2
TimeoutStartSec=120
# control groups of its own, below which the engine makes one per run
Delegate=memory pids
KillMode=control-group
# what the engine does not need
{home}CapabilityBoundingSet=~CAP_SYS_MODULE CAP_SYSLOG CAP_SYS_BOOT CAP_SYS_TIME CAP_WAKE_ALARM
# Sandboxes need that none of these is added: PrivateUsers, PrivateDevices, ProtectControlGroups,
# RestrictNamespaces, NoNewPrivileges; and warm starts, nothing by which systemd filters system calls
# (SystemCallFilter, RestrictAddressFamilies, LockPersonality, ProtectKernelModules and the like).

[Install]
WantedBy=multi-user.target
"""


def usual_socket(database: str) -> Path:
    """Where the engine of a database listens unless it is told otherwise."""
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,63}", database):
        raise CommandFailed(f'no socket can be named after database "{database}"',
                            "Choose one with --socket.")
    return _SOCKETS / database / "engine.sock"


def unit_file(arguments: Sequence[str], data: Path, videos: Path, socket: Path) -> str:
    """The unit that runs privid engine with these arguments."""
    script = Path(sys.argv[0]).absolute()
    module = [sys.executable, "-m", "privid.cli.main"]
    command = [str(script)] if script.name == "privid" else module
    # systemd makes the socket's directory before the engine starts and removes it afterwards
    directory = ""
    if socket.is_relative_to("/run"):
        directory = f"RuntimeDirectory={socket.parent.relative_to('/run')}\n"
    used = (Path(sys.prefix), Path(__file__), data, videos, socket)
    at_home = any(path.is_relative_to(home) for home in _HOMES for path in used)
    return _UNIT.format(command=" ".join(_word(word) for word in (*command, "engine", *arguments)),
                        directory=directory, home="" if at_home else "ProtectHome=yes\n")


def _word(text: str) -> str:
    """One argument as systemd reads it: % and $ stand for themselves."""
    text = text.replace("%", "%%").replace("$", "$$")
    if text and not re.search(r"[\s\"'\\;]", text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
