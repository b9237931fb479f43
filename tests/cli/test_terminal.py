"""What acts on a terminal is not printed, whoever said it and wherever it goes."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable

import pytest

from privid.cli import main, terminal

ACTING = "\x1b]0;mine\x07\x1b[2J\u202e\x9b2J"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[object], int]], tuple[int, str, str]]:
    """What a command prints on a terminal."""
    def run(command: Callable[[object], int]) -> tuple[int, str, str]:
        monkeypatch.setattr("privid.cli.status.run", command)
        with monkeypatch.context() as patched:
            out, err = Terminal(), Terminal()
            patched.setattr(sys, "stdout", out)
            patched.setattr(sys, "stderr", err)
            return main.main(["status"]), out.getvalue(), err.getvalue()

    return run


def test_what_programs_say_is_written_out_on_both_outputs(said: Callable[..., tuple[int, str, str]]) -> None:
    def command(options: object) -> int:
        print(ACTING)
        print(ACTING, file=sys.stderr)
        return 0

    code, out, err = said(command)
    assert code == 0 and out == err == terminal.printable(ACTING) + "\n" and "\x1b" not in err


def test_a_fault_of_ours_tells_others_words_written_out(said: Callable[..., tuple[int, str, str]]) -> None:
    def command(options: object) -> int:
        raise ValueError(ACTING)

    code, _, err = said(command)
    assert code == 1 and "Traceback" in err and "ValueError: \\x1b]0;mine" in err and "\x1b" not in err


def test_a_bar_is_drawn_and_its_label_is_written_out(said: Callable[..., tuple[int, str, str]]) -> None:
    def command(options: object) -> int:
        with terminal.progress(2) as bar:
            bar.step(ACTING)
        return 0

    _, _, err = said(command)
    assert err.startswith("\r\x1b[K[") and err.endswith("\r\x1b[K") and err.count("\x1b") == 2 and "\\x1b]0;mine\\x07" in err
