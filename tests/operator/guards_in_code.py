"""The guards that the code has, found by reading it, with the words of their refusals."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import redis_operator
from redis_operator.planning import preconditions

__all__ = ["ELSEWHERE", "GUARDS", "INDIRECT"]


def _guards() -> dict[str, str]:
    """Every guard in the source with a pattern of what it says, by module, function and number."""
    found: dict[str, str] = {}
    root = Path(redis_operator.__file__).parent
    files = [Path(preconditions.__file__), *sorted((root / "operator").rglob("*.py"))]
    for file in files:
        source = file.read_text()
        module = file.parent.name if file.stem == "actions" else file.stem
        if module != "preconditions" and "Refused" not in source:
            continue  # every worker reads this module: parsing all files takes a third of a second
        for function in ast.walk(ast.parse(source)):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            said = [text for node in _own_nodes(function) if (text := _text_of(node, module))]
            for number, text in enumerate(said, 1):
                found[f"{module}.{function.name}#{number}"] = _pattern(text)
    return found


def _own_nodes(function: ast.AST) -> list[ast.AST]:
    """The nodes of a function in the order of the source, without those of functions in it."""
    found: list[ast.AST] = []
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            found += [child, *_own_nodes(child)]
    return found


def _text_of(node: ast.AST, module: str) -> ast.expr | None:
    """What a guard says: the argument of `Refused`, or the reason a precondition returns."""
    if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
        name = node.exc.func
        if isinstance(name, ast.Name) and name.id == "Refused":
            return node.exc.args[0]
    is_reason = isinstance(node, ast.Return) and isinstance(node.value, ast.JoinedStr)
    return node.value if module == "preconditions" and is_reason else None


def _pattern(text: ast.expr) -> str:
    if isinstance(text, ast.JoinedStr):
        parts = [
            re.escape(part.value) if isinstance(part, ast.Constant) else ".*"
            for part in text.values
        ]
        return "".join(str(part) for part in parts)
    return ".+"


GUARDS = _guards()
# Not guards of one action: the words come from a predicate that is one itself.
INDIRECT = {"effects.require#1", "preconditions._unanswered#1", "preconditions._unmet#1"}


# Shown by tests of their own: before all actions, and on real servers with replicas.
ELSEWHERE = {
    "wiring.before#1": "test_leadership.py",
    "replication._pause#1": "test_replication.py",
    "replication._win#1": "test_replication.py",
    "replication._demotable#1": "test_replication.py",
    "replication._arrived#1": "test_sources.py",
    "replication._arrived#2": "test_sources.py",
    "replication._arrived#3": "test_sources.py",
    "replication._follow_source#1": "test_sources.py",
    "sources.check#1": "test_sources.py",
    "sources.check#2": "test_sources.py",
    "sources.check#3": "test_sources.py",
    "sources.offset#1": "test_sources.py",
}
