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
#: of code that was called: whether it judges
_JUDGES: dict[CodeType, bool] = {}


@dataclass
class Way:
    """The code that was called; and, of the calculus, the answers of its yes-or-no questions, where it refused, and the lines that ran."""

    #: None where nobody looked
    code: set[CodeType] | None = None
    steps: set[tuple[CodeType, object]] = field(default_factory=set)

    def places(self) -> set[str]:
        """The code by the files and lines where it stands."""
        return {where for code in self.code or () for where in (code.co_filename, f"{code.co_filename}:{code.co_firstlineno}")}


def walk(judge: Callable[[], object]) -> Way:
    """The way of one judgement, whether it accepts or refuses."""
    way, met = Way(), set[CodeType]()

    def within(frame: FrameType, event: str, given: Any) -> Any:
        if event in ("line", "exception"):
            way.steps.add((frame.f_code, frame.f_lineno))
        elif event == "return" and (given is None or isinstance(given, bool | Enum)):
            way.steps.add((frame.f_code, str(given)))
        return within

    def called(frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        met.add(code)
        if code not in _JUDGES:
            _JUDGES[code] = code.co_filename.startswith(_CALCULUS) and not code.co_filename.endswith(_ASIDE)
        return within if _JUDGES[code] else None

    before = sys.gettrace()
    sys.settrace(called)
    try:
        judge()
    except Exception:  # the search itself has counted it
        pass
    finally:
        sys.settrace(before)
        way.code = met
    return way
