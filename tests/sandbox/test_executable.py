"""Which files can be executables."""

from __future__ import annotations

import platform
import resource
from pathlib import Path

import pytest

from privid.errors import ExecutableInvalid
from privid.sandbox.executable import MAX_PROGRAM_BYTES, Kind, classify


@pytest.mark.parametrize(("content", "kind"), [
    (Path("/bin/true").read_bytes(), Kind.PROGRAM),
    (b"#!/bin/sh\necho\n", Kind.PROGRAM),
    (b"#! /usr/bin/env python3\n", Kind.PROGRAM),
    (b"def process(chunk):\n    yield {}\n", Kind.MODULE),
    (b"\xef\xbb\xbfdef process(chunk): return []\n", Kind.MODULE),
    (b"from functools import partial\nprocess = partial(print)\n", Kind.MODULE),
    (b"try:\n    import a\nexcept ImportError:\n    def process(c): pass\n", Kind.MODULE),
    (b"# -*- coding: latin-1 -*-\nx = '\xe4'\ndef process(chunk): pass\n", Kind.MODULE),
])
def test_a_program_and_a_module_are_told_apart(content: bytes, kind: Kind) -> None:
    assert classify(content, "x") is kind


@pytest.mark.parametrize(("content", "message"), [
    (b"", "is empty"),
    (b"hello world", "is not a program"),
    (b"\x00\x01\x02", "is not a program"),
    (b"def run(chunk): pass\n", "defines no function process"),
    (b"class A:\n    def process(self): pass\n", "defines no function process"),
    (b"async def process(chunk): pass\n", "defines no function process"),
    (b"#!/bin/sh\r\necho\r\n", "carriage return"),
    (b"#!\n", "names no interpreter"),
    (b"\x7fELF", "cannot be executed"),
    (b"\x7fELF\x02\x01\x01" + b"\x00" * 9 + b"\x02\x00\x08\x00" + b"\x00" * 60, "another processor"),
    (b"-" * 100_000 + b"1", "is not a program"),
    (b"a" + b".b" * 100_000, "is not a program"),
    (b"#" * 2_000_000, "allowed for a module"),
    (b"#!/bin/sh\n" + b"#" * MAX_PROGRAM_BYTES, "more than the 67108864 allowed"),
])
def test_what_cannot_run_is_refused_with_a_hint(content: bytes, message: str) -> None:
    assert platform.machine() in ("x86_64", "aarch64")
    with pytest.raises(ExecutableInvalid) as refusal:
        classify(content, "count_people")
    assert message in refusal.value.message
    assert '"count_people"' in refusal.value.message
    assert refusal.value.hint is not None
    assert refusal.value.hint.endswith(".")


def test_a_syntax_error_is_shown_with_its_line() -> None:
    with pytest.raises(ExecutableInvalid) as refusal:
        classify(b"def process(chunk):\n    yield (\n", "x")
    assert refusal.value.detail is not None
    assert refusal.value.detail.startswith("Line 2:")


WORST = {
    "a name of many parts": b"import " + b".".join([b"a"] * 25_000) + b"\n",
    "many short statements": b"a;" * 500_000,
    "deep brackets": b"(" * 500_000,
    "nested lists": b"[" * 190 + b"]" * 190,
    "one long sum": b"a+" * 500_000 + b"a",
    "a number of many digits": b"9" * 1_000_000,
    "no text at all": bytes(1_000_000),
}


@pytest.mark.parametrize("name", WORST)
def test_what_somebody_wrote_is_parsed_elsewhere(name: str) -> None:
    """It can take a thousand times its size in memory, and is none of the engine's."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ExecutableInvalid):
        classify(WORST[name], "worst")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20 << 10
