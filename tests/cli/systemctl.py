"""Stands in for systemctl where no systemd runs: starts and stops the one unit that the page makes.

It does what systemd would: makes the runtime directory, runs ExecStart apart from the caller, waits
for its READY=1, ends it by SIGTERM.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

UNITS, RUN, LOG = Path("/etc/systemd/system"), Path("/run"), Path("/var/log/postgresql/journal")


def main(verb: str, *rest: str) -> int:
    name = next((word for word in rest if not word.startswith("-")), "")
    if verb in ("start", "enable"):
        return start(name)
    if verb in ("stop", "disable"):
        return stop(name)
    return int(verb != "daemon-reload")


def start(name: str) -> int:
    lines = (UNITS / f"{name}.service").read_text().splitlines()
    unit = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    assert unit["Type"] == "notify"
    (RUN / unit["RuntimeDirectory"]).mkdir(parents=True)
    # quotes are as in a shell, "%%" and "$$" mean single ones
    words = shlex.split(unit["ExecStart"])
    command = [word.replace("%%", "%").replace("$$", "$") for word in words]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener, LOG.open("a") as log:
        listener.bind(f"\0privid-test-{os.getpid()}")
        listener.settimeout(0.2)
        environment = {"PATH": os.environ["PATH"], "NOTIFY_SOCKET": f"@privid-test-{os.getpid()}"}
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                   start_new_session=True, cwd="/", env=environment)
        (RUN / f"{name}.pid").write_text(str(process.pid))
        while process.poll() is None:
            with contextlib.suppress(TimeoutError):
                return int(listener.recv(4096) != b"READY=1")
    sys.stderr.write(LOG.read_text())
    return 1


def stop(name: str) -> int:
    file = RUN / f"{name}.pid"
    pid = int(file.read_text())
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + 20
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    file.unlink()
    shutil.rmtree(RUN / "privid-engine")
    return int(Path(f"/proc/{pid}").exists())


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
