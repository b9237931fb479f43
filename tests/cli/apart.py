"""A machine of its own for a test that follows the page for operators, word for word and as root.

Mount and network namespaces: where PostgreSQL's packages and the page's commands write, there are
private directories, and all ports are free. So no cluster of the machine is seen or touched, and
nothing is left, however the test ends: this file is also the process that holds the namespaces. It
waits until its standard input ends (its owner closes it, or dies), ends what runs inside, and goes.

Process numbers are the machine's own: engines tell each other's control groups by them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

__all__ = ["Apart", "apart"]

#: private directory -> what of the machine's own is kept in it: locks and runtimes of all engines
EMPTY: dict[str, tuple[str, ...]] = {
    "/etc/postgresql": (), "/etc/systemd/system": (), "/run": ("privid",), "/srv": (),
    "/usr/local/bin": (), "/var/lib/postgresql": (), "/var/lib/privid": ("runtime",),
    "/var/log/postgresql": (),
}
#: private copy
COPIED = ("/usr/lib/postgresql/15/lib", "/usr/share/postgresql/15/extension")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Apart:
    """Runs commands inside."""

    def __init__(self, holder: int, directory: Path) -> None:
        self.directory = directory
        self.home = directory / "home"
        self._enter = ["nsenter", *(f"--{kind}=/proc/{holder}/ns/{name}"
                                    for kind, name in (("mount", "mnt"), ("net", "net")))]

    def path(self, inside: str) -> Path:
        """Where the machine outside has a file below one of the private directories."""
        place = next(place for place in (*EMPTY, *COPIED) if inside.startswith(place + "/"))
        return _private(self.directory, place) / inside[len(place) + 1:]

    def run(self, *command: str, check: bool = True, cwd: Path | None = None,
            env: Mapping[str, str] = MappingProxyType({})) -> subprocess.CompletedProcess[str]:
        """A command of root's, without a terminal; both its outputs are in stdout."""
        done = subprocess.run([*self._enter, f"--wdns={cwd or self.home}", "--", *command],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.STDOUT, timeout=120,
                              env={"PATH": PATH, "LANG": "C.UTF-8", "HOME": str(self.home),
                                   **env})
        assert not check or done.returncode == 0, f"{command}: {done.stdout}"
        return done


@contextlib.contextmanager
def apart() -> Iterator[Apart]:
    """Such a machine, for as long as the block lasts."""
    directory = Path(tempfile.mkdtemp(prefix="privid-apart-"))
    directory.chmod(0o755)
    command = ["unshare", "--mount", "--net", "--propagation", "private", "--",
               sys.executable, "-I", __file__, str(directory)]
    # a session of its own, so that Ctrl-C in a terminal ends the tests and not their clean-up
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              start_new_session=True)
    assert holder.stdin is not None and holder.stdout is not None
    try:
        assert holder.stdout.readline() == b"ready\n", "the namespaces could not be made"
        yield Apart(holder.pid, directory)
    finally:
        holder.stdin.close()
        code = holder.wait()
        holder.stdout.close()
    assert code == 0 and not directory.exists()


def _private(directory: Path, place: str) -> Path:
    return directory / place.strip("/").replace("/", "-")


# The holder, inside

def main(directory: Path) -> int:
    (directory / "home").mkdir()
    _hide(directory)
    _raise_loopback()
    print("ready", flush=True)
    sys.stdin.read()
    _end_others()
    for place in ("/etc/hosts", *COPIED, *EMPTY):
        subprocess.run(["umount", "--recursive", "--lazy", place], check=True)
    shutil.rmtree(directory)
    return 0


def _hide(directory: Path) -> None:
    kept = directory / "kept"
    kept.mkdir()
    _bind(Path("/"), kept)  # the machine as it is, until everything is bound
    for place, inside in EMPTY.items():
        private = _private(directory, place)
        _make_like(private, Path(place))
        _bind(private, place)
        for name in inside:
            (private / name).mkdir()
            _bind(kept / place.lstrip("/") / name, f"{place}/{name}")
    for place in COPIED:
        shutil.copytree(place, _private(directory, place), symlinks=True)
        _bind(_private(directory, place), place)
    _make_like(Path("/run/postgresql"), kept / "run" / "postgresql")
    hosts = directory / "hosts"
    hosts.write_text("127.0.0.1 localhost db.example.org\n::1 localhost\n")
    _bind(hosts, "/etc/hosts")
    subprocess.run(["umount", str(kept)], check=True)


def _bind(source: Path, target: str | Path) -> None:
    subprocess.run(["mount", "--bind", str(source), str(target)], check=True)


def _make_like(directory: Path, other: Path) -> None:
    directory.mkdir()
    os.chown(directory, other.stat().st_uid, other.stat().st_gid)
    directory.chmod(other.stat().st_mode & 0o7777)


def _raise_loopback() -> None:
    siocsifflags, iff_up = 0x8914, 1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, siocsifflags, struct.pack("16sh22x", b"lo", iff_up))


def _end_others() -> None:
    """All else in this mount namespace was started by the test; sandboxes end with their engine."""
    for number, patience in ((signal.SIGTERM, 10.0), (signal.SIGKILL, 5.0)):
        deadline = time.monotonic() + patience
        for pid in _others():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        while _others() and time.monotonic() < deadline:
            time.sleep(0.05)


def _others() -> list[int]:
    found, mine = [], Path("/proc/self/ns/mnt").stat().st_ino
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if (entry / "ns" / "mnt").stat().st_ino == mine:
                    found.append(int(entry.name))
    return found


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
