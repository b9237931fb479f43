"""Tells whether a text is a Python module that binds `process` at its top level: a process of its own, which gives up all rights before
it reads one. To parse what somebody wrote can take a thousand times its size in memory.

In: the text. Out: a JSON object with "process" (whether it is bound), or with "line" and "said" where it is no Python.
"""

from __future__ import annotations

import ast
import json
import sys

from .confine import NOBODY, Confinement, confine
from .confined_calls import COMPUTE, DESCRIPTORS, only

#: bytes of memory and seconds of processor time: some hundred times what a module of ordinary making takes
_MEMORY, _SECONDS = 512 << 20, 10


def binds_process(body: list[ast.stmt]) -> bool:
    """Whether a name process is bound at the top level, also inside if, try and with."""
    for statement in body:
        match statement:
            case ast.FunctionDef(name="process") | ast.ClassDef(name="process"):
                return True
            case ast.Assign(targets=targets) if any(isinstance(t, ast.Name) and t.id == "process" for t in targets):
                return True
            case ast.AnnAssign(target=ast.Name(id="process"), value=ast.expr()):
                return True
            case ast.ImportFrom(names=names) | ast.Import(names=names) if any((a.asname or a.name) == "process" for a in names):
                return True
            case ast.If(body=inner, orelse=other) if binds_process(inner + other):
                return True
            case ast.Try(body=inner, orelse=other, finalbody=last, handlers=handlers):
                if binds_process(inner + other + last) or any(binds_process(h.body) for h in handlers):
                    return True
            case ast.With(body=inner) if binds_process(inner):
                return True
    return False


def examine(content: bytes) -> dict[str, object]:
    try:
        return {"process": binds_process(ast.parse(content).body)}
    except SyntaxError as error:
        return {"line": error.lineno, "said": error.msg}
    except (ValueError, RecursionError, MemoryError):
        return {"line": None, "said": None}


if __name__ == "__main__":
    confine(Confinement(only((*DESCRIPTORS, *COMPUTE)), _MEMORY, int(sys.argv[1] or NOBODY), seconds=_SECONDS))
    json.dump(examine(sys.stdin.buffer.read()), sys.stdout)
