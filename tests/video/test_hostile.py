"""A video file is data from outside: whatever is in it, the parent gets footage or an error, soon."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from privid.errors import VideoUnreadable
from privid.model import Footage
from privid.video import Decoder

Open = Callable[..., Footage]
Write = Callable[..., Path]


def _mutate(data: bytes, chance: random.Random) -> bytes:
    """Flips, holes, cuts and repeats; half of them in the first kilobyte, where headers are."""
    out = bytearray(data)
    for _ in range(chance.choice([1, 3, 30])):
        at = chance.randrange(min(len(out), 1024)) if chance.random() < 0.5 else chance.randrange(len(out))
        match chance.randrange(4):
            case 0:
                out[at] = chance.randrange(256)
            case 1:
                out[at:at + 8] = b"\xff" * len(out[at:at + 8])
            case 2:
                del out[at:at + chance.randrange(1, 64)]
            case 3:
                out[at:at] = out[at:at + 32]
    return bytes(out)


@pytest.mark.parametrize("name", ["a.mp4", "a.mkv", "a.avi"])
def test_mutated_files_are_read_exactly_or_refused_soon(footage: Open, write: Write, root: Path, tmp_path: Path, name: str) -> None:
    codec = "mpeg4" if name.endswith("avi") else "libx264"
    options = {"container": {"movflags": "faststart"}} if name.endswith("mp4") else {}
    good = write(name, 40, 10, codec=codec, **options).read_bytes()
    chance = random.Random(11)
    refused = 0
    for i in range(14):
        (root / name).write_bytes(_mutate(good, chance))
        begin = time.monotonic()
        try:
            found = footage(name)
            with Decoder(root, found) as decoder:
                decoder.read(0, found.frames, tmp_path)
        except VideoUnreadable as error:
            refused += 1
            assert error.message[0].islower(), f"mutation {i}"
        assert time.monotonic() - begin < 60, f"mutation {i}"
    assert refused > 3  # else the mutations are too kind to tell anything


def test_the_decoder_process_can_open_nothing_and_is_nobody(tmp_path: Path) -> None:
    """Run in a process of its own, because it cannot be undone."""
    secret = tmp_path / "secret"
    secret.write_text("x")
    script = f"""
import os, socket, sys
import privid.video.worker as worker
worker.confine(None)
def fails(action):
    try:
        action()
    except OSError:
        return True
    return False
assert fails(lambda: os.open({str(secret)!r}, os.O_RDONLY)), "open"
assert fails(lambda: os.open("/tmp/made", os.O_CREAT | os.O_WRONLY)), "create"
assert fails(lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM)), "socket"
assert fails(lambda: os.execv("/bin/true", ["true"])), "exec"
assert fails(os.fork), "fork"
assert fails(lambda: os.kill(os.getppid(), 0)), "kill"
assert fails(lambda: os.listdir("/")), "list"
assert os.getuid() != 0 and os.geteuid() != 0, "user"
try:
    bytearray(8 << 30)
except MemoryError:
    pass
else:
    raise AssertionError("memory")
os.write(1, b"confined")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60)
    assert done.stdout == b"confined", done.stderr.decode()


def test_the_decoder_process_ends_with_its_parent(write: Write, root: Path, tmp_path: Path) -> None:
    write("a.mp4", 20, 10)
    script = f"""
import os
from pathlib import Path
from privid.video import Decoder, open_footage
found = open_footage(Path({str(root)!r}), "a.mp4", None, Path({str(tmp_path)!r}))
decoder = Decoder(Path({str(root)!r}), found)
decoder.read(0, 5, Path({str(tmp_path)!r}))
os.write(1, str(decoder._worker.pid).encode())
os.kill(os.getpid(), 9)
"""
    pid = int(subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60).stdout)
    deadline = time.monotonic() + 20
    while Path(f"/proc/{pid}/exe").is_symlink() and _alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _alive(pid)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_a_source_swapped_for_a_link_between_probe_and_read_is_refused(footage: Open, write: Write, root: Path, tmp_path: Path) -> None:
    write("a.mp4", 20, 10)
    found = footage("a.mp4")
    (root / "a.mp4").rename(tmp_path / "b.mp4")
    (root / "a.mp4").symlink_to(tmp_path / "b.mp4")
    with Decoder(root, found) as decoder, pytest.raises(VideoUnreadable, match="symbolic link"):
        decoder.read(0, 5, tmp_path)
