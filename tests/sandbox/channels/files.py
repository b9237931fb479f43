"""Files, what is known of them, and descriptors that were left open."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

from .channel import CHUNKS, FACTS, KEPT, TABLES, Channel


def own(name: str) -> Path:
    """A file that earlier runs of the test have not made, should /tmp be shared."""
    return Path(f"/tmp/{name}-{FACTS['key']}")


def leave_file(bit: int) -> None:
    if bit:
        own("mark").write_text("1")


def write_page(bit: int) -> None:
    own("page").write_bytes(bytes(4096))
    with own("page").open("r+b") as file:
        KEPT.append(page := mmap.mmap(file.fileno(), 4096))
    page[0] = bit


def read_page(_: object) -> int:
    with own("page").open("rb") as file, mmap.mmap(file.fileno(), 4096, access=mmap.ACCESS_READ) as page:
        return page[0]


def touch_devices(bit: int) -> None:
    """Who may write a file may set its times to now, device or not."""
    for name in FACTS["devices"] if bit else ():
        os.utime(name)


def device_times(_: object) -> list[str]:
    return [name for name, moment in FACTS["devices"].items() if Path(name).stat().st_mtime_ns != moment]


def read_root(bit: int) -> None:
    if bit:
        Path("/etc/hosts").read_bytes()
        list(Path("/var").iterdir())


def root_times(_: object) -> list[bool]:
    """The test has set them to 0, on both copies."""
    return [Path(path).stat().st_atime_ns != 0 for path in ("/etc/hosts", "/var")]


def _open_files() -> list[int]:
    found = []
    for descriptor in range(3, 1024):
        try:
            os.lseek(descriptor, 0, os.SEEK_CUR)
            found.append(descriptor)
        except OSError:
            continue
    return found


def move_offset(bit: int) -> None:
    for descriptor in _open_files():
        os.lseek(descriptor, 5 + bit, os.SEEK_SET)


def offsets(_: object) -> list[int]:
    return [os.lseek(descriptor, 0, os.SEEK_CUR) for descriptor in _open_files()]


CHANNELS = (
    Channel("file", leave_file, lambda _: own("mark").exists(), ("tmp",), (CHUNKS, TABLES)),
    Channel("shared map", write_page, read_page, ("filter", "tmp"), (TABLES,)),
    Channel("times of devices", touch_devices, device_times, ("filter",), (CHUNKS, TABLES), warm=False),
    Channel("access times of the root", read_root, root_times, ("read-only root",), (CHUNKS,)),
    Channel("offset of an inherited descriptor", move_offset, offsets, ("descriptors",), (CHUNKS, TABLES)),
)
