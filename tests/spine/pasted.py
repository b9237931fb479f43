"""Finds statements in Python source that are put together from texts: SQL comes from constants, psycopg.sql and parameters alone.

A text is *fixed* when it is written in the source: a constant, a choice among constants, a name that stands for nothing else, or a
parameter that is declared `LiteralString`, whose callers are then looked at in the same way. What psycopg.sql makes of fixed texts is
as good: it quotes whatever it is given.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePath

#: what sends its first argument to a database
_SENDING = {"execute", "executemany", "executescript", "stream", "exec_", "exec_params", "send_query", "send_query_params", "send_prepare"}
_QUOTING = {"SQL", "Identifier", "Literal", "Placeholder", "Composed", "Composable"}
_STATEMENT = re.compile(r"\s*(SELECT|INSERT INTO|UPDATE|DELETE FROM|MERGE INTO|CREATE|ALTER|DROP|GRANT|REVOKE|SET|RESET|COPY|EXPLAIN"
                        r"|DECLARE|WITH|PRAGMA|CALL|DO|LOCK|TRUNCATE|REFRESH|EXECUTE"
                        r"|PREPARE|LISTEN|NOTIFY|VACUUM|ANALYZE|BEGIN|COMMENT ON)\s+\S")


@dataclass
class Module:
    """One source file: its tree, and the values that names stand for, by the function in which they do ("" outside of all)."""

    path: str
    tree: ast.Module
    within: dict[ast.AST, str] = field(default_factory=dict)
    values: dict[tuple[str, str], list[ast.expr | None]] = field(default_factory=dict)
    imported: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom):
                self.imported |= {one.name for one in node.names}
        self._enter(self.tree, "")

    def _enter(self, node: ast.AST, scope: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = scope
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = f"{scope}.{child.name}".lstrip(".")
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                for one in (*child.args.posonlyargs, *child.args.args, *child.args.kwonlyargs):
                    self.values.setdefault((inner, one.arg), []).append(ast.Constant("") if is_declared(one.annotation) else None)
            self._bind(child, scope)
            self.within[child] = scope
            self._enter(child, inner)

    def _bind(self, node: ast.AST, scope: str) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._note(target, node.value, scope)
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr):
            self._note(node.target, node.value, scope)
        elif isinstance(node, ast.AugAssign):
            self._note(node.target, None, scope)
        elif isinstance(node, ast.For | ast.comprehension):
            listed = node.iter
            if isinstance(listed, ast.Name):
                listed = next((one for one in self.values.get(("", listed.id), []) if one is not None), listed)
            for one in listed.elts if isinstance(listed, ast.Tuple | ast.List) else [None]:
                self._note(node.target, one, scope)

    def _note(self, target: ast.expr, value: ast.expr | None, scope: str) -> None:
        if isinstance(target, ast.Name):
            self.values.setdefault((scope, target.id), []).append(value)
        elif isinstance(target, ast.Tuple):
            values = value.elts if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts) else [None] * len(target.elts)
            for one, part in zip(target.elts, values, strict=True):
                self._note(one, part, scope)


def is_declared(annotation: ast.expr | None) -> bool:
    """Whether a parameter or a result is one of psycopg.sql's, or a text of which callers must give a constant."""
    words = set(re.findall(r"\w+", ast.unparse(annotation))) - {"sql", "str", "None"} if annotation is not None else set()
    return bool(words) and words <= _QUOTING | {"LiteralString"}


class Finder:
    """Looks through modules that call each other."""

    def __init__(self, modules: list[Module]) -> None:
        self._modules = modules
        # by module and function: places and names of arguments that must be fixed; whether the result is one of psycopg.sql's
        self._asking: dict[tuple[str, str], dict[int | str, None]] = {}
        self._making: set[tuple[str, str]] = set()
        for module in modules:
            for node in ast.walk(module.tree):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    self._learn(node, module)

    def _learn(self, function: ast.FunctionDef | ast.AsyncFunctionDef, module: Module) -> None:
        if is_declared(function.returns) and "LiteralString" not in ast.unparse(function.returns or ast.Constant("")):
            self._making.add((module.path, function.name))
        arguments = [*function.args.posonlyargs, *function.args.args]
        shift = 1 if arguments and arguments[0].arg in ("self", "cls") else 0
        for place, one in enumerate(arguments + function.args.kwonlyargs):
            if one.annotation is not None and "LiteralString" in ast.unparse(one.annotation):
                places: list[int | str] = [place - shift, one.arg] if one in arguments else [one.arg]
                self._asking.setdefault((module.path, function.name), {}).update(dict.fromkeys(places))

    def _homes(self, name: str, module: Module) -> list[tuple[str, str]]:
        """The functions that a name can mean: the module's own, or those of others that it imports."""
        homes = [path for path, one in (*self._asking, *self._making) if one == name]
        return [(path, name) for path in homes if path == module.path or {name, PurePath(path).stem} & module.imported]

    def findings(self) -> Iterator[tuple[str, int, str]]:
        """Where a text that is not fixed is, or looks like, a statement, or something is quoted by hand: "path::function", line, source."""
        for module in self._modules:
            for node in ast.walk(module.tree):
                if isinstance(node, ast.Call | ast.JoinedStr | ast.BinOp) and (bad := self._judge(node, module)) is not None:
                    scope = module.within[node]
                    yield f"{module.path}::{scope}" if scope else module.path, bad.lineno, ast.unparse(bad)

    def _judge(self, node: ast.Call | ast.JoinedStr | ast.BinOp, module: Module) -> ast.expr | None:
        scope = module.within.get(node, "")
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id if isinstance(node.func, ast.Name) else ""
            if name == "replace" and [one.value for one in node.args if isinstance(one, ast.Constant)] in (["'", "''"], ['"', '""']):
                return node
            must: dict[int | str, None] = {}
            for home in self._homes(name, module):
                must.update(self._asking.get(home, {}))
            if name in _SENDING or name == "SQL" or (name == "copy" and "cursor" in ast.unparse(node.func)):
                must[0] = None
            for place, argument in [*enumerate(node.args), *((one.arg, one.value) for one in node.keywords)]:
                if place in must and not self._is_fixed(argument, module, scope):
                    return argument
            if name != "format" or not isinstance(node.func, ast.Attribute):
                return None
        text = self._beginning(node, module, scope)
        return node if text is not None and _STATEMENT.match(text) and not self._is_fixed(node, module, scope) else None

    def _is_fixed(self, node: ast.expr | None, module: Module, scope: str, depth: int = 0) -> bool:
        if node is None or depth > 20:
            return False
        if isinstance(node, ast.Constant):
            return True
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return all(self._is_fixed(one, module, scope, depth + 1) for one in (node.left, node.right))
        if isinstance(node, ast.IfExp):
            return all(self._is_fixed(one, module, scope, depth + 1) for one in (node.body, node.orelse))
        if isinstance(node, ast.JoinedStr):
            parts = [one.value if isinstance(one, ast.FormattedValue) else one for one in node.values]
            return all(self._is_fixed(one, module, scope, depth + 1) for one in parts)
        if isinstance(node, ast.Name):
            return self._is_fixed_name(node.id, module, scope, depth + 1)
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):  # one of a table of constants
            table = module.values.get(("", node.value.id), [])
            return len(table) == 1 and isinstance(table[0], ast.Dict) and all(
                self._is_fixed(one, module, "", depth + 1) for one in table[0].values)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if ast.unparse(node.func.value) == "sql" and node.func.attr in _QUOTING:
                return True  # of SQL the argument is judged where it stands
            if self._makes(node.func.attr, module):
                return True
            if node.func.attr == "encode":
                return self._is_fixed(node.func.value, module, scope, depth + 1)
            # what psycopg.sql makes of the like; a text's own format and join are none of it
            return node.func.attr in ("format", "join") and not isinstance(node.func.value, ast.Constant) and self._is_composed(
                node.func.value, module, scope, depth + 1)
        return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and (
            node.func.id in _QUOTING or self._makes(node.func.id, module))

    def _makes(self, name: str, module: Module) -> bool:
        return not self._making.isdisjoint(self._homes(name, module))

    def _is_composed(self, node: ast.expr, module: Module, scope: str, depth: int) -> bool:
        """Whether it is one of psycopg.sql's, and not a text."""
        if isinstance(node, ast.Name):
            values = self._values(node.id, module, scope)
            return bool(values) and all(one is not None and self._is_composed(one, module, scope, depth + 1) for one in values)
        return isinstance(node, ast.Call) and (re.match(r"(sql\.)?SQL\(", ast.unparse(node)) is not None) and self._is_fixed(
            node, module, scope, depth)

    def _values(self, name: str, module: Module, scope: str) -> list[ast.expr | None]:
        while (scope, name) not in module.values and scope:
            scope = scope.rpartition(".")[0]
        return module.values.get((scope, name), [])

    def _is_fixed_name(self, name: str, module: Module, scope: str, depth: int) -> bool:
        values = self._values(name, module, scope)
        if not values:  # perhaps another module's constant
            values = [one for other in self._modules for one in other.values.get(("", name), []) if name.strip("_").isupper()]
        return bool(values) and all(self._is_fixed(one, module, scope, depth) for one in values)

    def _beginning(self, node: ast.expr | None, module: Module, scope: str, depth: int = 0) -> str | None:
        """The text with which a formatted text begins."""
        if node is None or depth > 20:
            return None
        if isinstance(node, ast.Constant):
            text = node.value.decode(errors="replace") if isinstance(node.value, bytes) else node.value
            return text if isinstance(text, str) else None
        if isinstance(node, ast.Name):
            values = self._values(node.id, module, scope)
            return self._beginning(values[0], module, scope, depth + 1) if len(values) == 1 else None
        if isinstance(node, ast.FormattedValue):
            return self._beginning(node.value, module, scope, depth + 1)
        if isinstance(node, ast.JoinedStr) and node.values:
            return (self._beginning(node.values[0], module, scope, depth + 1) or "") + (" x" if len(node.values) > 1 else "")
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mod):
            before = self._beginning(node.left, module, scope, depth + 1)
            return None if before is None else before + " x"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
            return self._beginning(node.func.value, module, scope, depth + 1)
        return None
