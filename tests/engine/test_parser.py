"""Whoever takes the parser over, with whatever a program printed, has the rows of that run and nothing else."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from privid.engine import parsing
from privid.engine.pace import Pace
from privid.engine.parser import Task
from privid.engine.parsing import Parsing
from privid.engine.rows import decode_columns
from privid.model import Column
from privid.room.priority import QUICK, priority_of
from privid.sandbox.confine import environment
from privid.sandbox.printed import Printed

from .planted import LAYERS, PROBES, Targets, command

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user has no other user to be")

WORD = Column("word", 1, "text", "text", False, "")
TIME = 200_000_000
STEPS = [layer for layer in LAYERS if layer not in ("closing", "children")]


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Targets]:
    """Of everything one that is there to be reached."""
    place = tmp_path_factory.mktemp("reached")
    for above in (place, *list(place.parents)[:-1]):
        above.chmod(above.stat().st_mode | 0o055)
    public, private, writable, path = place / "public", place / "private", place / "writable", place / "sock"
    for file in (public, private):
        file.write_text("x")
    public.chmod(0o644)
    private.chmod(0o600)
    writable.mkdir()
    writable.chmod(0o777)
    name = f"\0privid-test-{os.getpid()}"
    with ExitStack() as stack:
        by_path, by_name = (stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(2))
        by_path.bind(str(path))
        path.chmod(0o777)
        by_name.bind(name)
        by_port = stack.enter_context(socket.socket(socket.AF_INET))
        by_port.bind(("127.0.0.1", 0))
        for sock in (by_path, by_name, by_port):
            sock.listen(64)
        yield Targets(str(public), str(private), str(writable), str(path), name, by_port.getsockname()[1], os.getpid())


def reached(monkeypatch: pytest.MonkeyPatch, targets: Targets, kept: Collection[str]) -> set[str]:
    """What the second of two outputs reaches, with these protections."""
    monkeypatch.setattr(parsing, "_START", command(targets, kept))
    parser = Parsing()
    try:
        for content in (b"first", b"second"):
            printed = Printed.of(content)
            found = parser.parse(Task([WORD], 1, TIME, TIME), printed.fileno(), printed.size, Pace(TIME, TIME))
            printed.close()
        assert found is not None
        return set(str(decode_columns([WORD], found[1], found[0])[0][0]).split(",")) - {""}
    finally:
        parser.close()


def test_a_parser_that_was_taken_over_reaches_nothing(monkeypatch: pytest.MonkeyPatch, targets: Targets) -> None:
    assert reached(monkeypatch, targets, LAYERS) == set()


def test_without_protections_it_reaches_everything(monkeypatch: pytest.MonkeyPatch, targets: Targets) -> None:
    """But what each output has by being parsed in a process of its own, which is shown below."""
    assert reached(monkeypatch, targets, ("closing", "children")) == set(PROBES) - {"another descriptor", "the output before"}


@pytest.mark.parametrize("layer", STEPS)
def test_each_protection_alone_stops_what_it_is_for_and_nothing_else(monkeypatch: pytest.MonkeyPatch, targets: Targets, layer: str) -> None:
    stopped = {name for name, (_, layers) in PROBES.items() if layers & {layer, "closing", "children"}}
    assert reached(monkeypatch, targets, (layer, "closing", "children")) == set(PROBES) - stopped


@pytest.mark.parametrize(("layer", "thing"), [("closing", "another descriptor"), ("children", "the output before")])
def test_without_it_an_output_reaches_what_is_of_another(monkeypatch: pytest.MonkeyPatch, targets: Targets, layer: str, thing: str) -> None:
    assert thing in reached(monkeypatch, targets, [one for one in LAYERS if one != layer])


def test_it_comes_before_sessions_that_compute() -> None:
    """Its parent is gone where it has pids of its own; it is known by its user."""
    parser = Parsing()
    try:
        assert parser._user is not None
        own = [int(process.name) for process in Path("/proc").glob("[0-9]*") if process.stat().st_uid == parser._user.uid]
        assert own and {priority_of(pid) for pid in own} == {QUICK}
    finally:
        parser.close()


def test_a_parser_that_says_nothing_is_ended_and_the_next_output_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    hangs = "from privid.engine import parser; import time; real = parser.answer; " \
            "parser.answer = lambda *given: time.sleep(60) if given[3] == 3 else real(*given); parser.main()"
    monkeypatch.setattr(parsing, "_START", hangs)
    parser, task = Parsing(), Task([WORD], 1, 1_000_000, 10_000_000)
    try:
        for content, wanted in ((b"...", False), (b'{"word": "a"}', True), (b"...", False)):
            printed, begun = Printed.of(content), time.monotonic()
            assert (parser.parse(task, printed.fileno(), printed.size, Pace(1, 1)) is not None) == wanted
            assert time.monotonic() - begun < 5
            printed.close()
    finally:
        parser.close()


@pytest.mark.parametrize("body", [b"", b"\0" * 100, b"\xff" * 4096], ids=["nothing", "zeros", "more than it may"])
@pytest.mark.parametrize("head", [b"", b"\1\0\0\0\x08\0\0\0", b"\xff" * 8, b"\1\0\0\0\0\0\0\0"], ids=["none", "right", "huge", "empty"])
def test_what_is_no_block_is_taken_for_nothing(monkeypatch: pytest.MonkeyPatch, head: bytes, body: bytes) -> None:
    says = f"import os; from privid.engine import parser; parser.answer = lambda *given: os.write(given[0], {head + body!r}); parser.main()"
    monkeypatch.setattr(parsing, "_START", says)
    parser, printed = Parsing(), Printed.of(b"")
    try:
        assert parser.parse(Task([WORD], 1, TIME, TIME), printed.fileno(), 0, Pace(TIME, TIME)) is None or body == b"\0" * 100
    finally:
        printed.close()
        parser.close()


def test_the_examiner_of_uploads_has_given_up_the_same() -> None:
    """Looked at from outside while it waits for a text."""
    process = subprocess.Popen([sys.executable, "-P", "-m", "privid.sandbox.examiner", "64001"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, cwd="/", env=environment())
    try:
        status, deadline = Path(f"/proc/{process.pid}/status"), time.monotonic() + 20
        while "Seccomp:\t2" not in status.read_text() and time.monotonic() < deadline:
            time.sleep(0.02)
        found = dict(line.split(":\t", 1) for line in status.read_text().splitlines() if ":\t" in line)
        assert (found["Seccomp"], found["NoNewPrivs"], found["CapEff"].strip("0"), found["Groups"].strip()) == ("2", "1", "", "")
        assert set(found["Uid"].split()) == {"64001"}
        assert list(Path(f"/proc/{process.pid}/root").iterdir()) == []
        assert Path(f"/proc/{process.pid}/ns/net").stat().st_ino != Path("/proc/self/ns/net").stat().st_ino
    finally:
        out, _ = process.communicate(b"def process(chunk): pass", timeout=20)
    assert out == b'{"process": true}'
