"""Which way a statement takes through the calculus: the lines that judge it, and what questions about it were answered.

Statements that take a way that few have taken are worth more variants. Nothing is known here of what is right or wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from privid import calculus

__all__ = ["Way", "walk"]

_CALCULUS = str(Path(calculus.__file__).parent)
#: what reads and writes statements and derivations, and judges nothing
_ASIDE = tuple(f"/{name}.py" for name in ("advice", "canonical", "deparse", "explanation", "normal", "reader", "show", "tree"))


@dataclass
class Way:
    """The code that was called; and, of the calculus, the lines that ran and the answers of its yes-or-no questions."""

    code: set[CodeType] = field(default_factory=set)
    steps: set[tuple[CodeType, object]] = field(default_factory=set)

    def places(self) -> set[str]:
        """The code by the files and lines where it stands."""
        return {where for code in self.code for where in (code.co_filename, f"{code.co_filename}:{code.co_firstlineno}")}


def walk(judge: Callable[[], object]) -> Way:
    """The way of one judgement, whether it accepts or refuses."""
    way = Way()

    def within(frame: FrameType, event: str, given: Any) -> Any:
        if event == "line":
            way.steps.add((frame.f_code, frame.f_lineno))
        elif event == "return" and (given is None or isinstance(given, bool | Enum)):
            way.steps.add((frame.f_code, str(given)))
        return within

    def called(frame: FrameType, event: str, _: Any) -> Any:
        way.code.add(frame.f_code)
        file = frame.f_code.co_filename
        return within if file.startswith(_CALCULUS) and not file.endswith(_ASIDE) else None

    before = sys.gettrace()
    sys.settrace(called)
    try:
        judge()
    except Exception:  # the search itself has counted it
        pass
    finally:
        sys.settrace(before)
    return way
