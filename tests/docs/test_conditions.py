"""Every word that a condition or an event may carry is explained."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from redis_operator.planning.modes import MODES

ROOT = Path(__file__).parents[2]
PRODUCT = sorted((ROOT / "src" / "redis_operator").rglob("*.py"))
LIBRARY = sorted((ROOT / "src" / "kubecontroller" / "runtime").rglob("*.py"))
WORD = re.compile(r"([A-Z][a-z]+)+")
# Parameters, fields and variables whose value is a reason.
REASONS = ("reason", "refusal", "kind")
# The methods of a recorder of events: about what, the reason, the message.
EVENTS = {"normal": {1}, "warning": {1}}

Places = dict[str, set[int]]


class Module:
    """The reasons in a module: where its functions take them, and what it passes or returns."""

    def __init__(self, path: Path) -> None:
        self.nodes = list(ast.walk(ast.parse(path.read_text())))
        self.assigned = [
            (target, node.value)
            for node in self.nodes
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        ]
        self.places: Places = {}
        for node in self.nodes:
            for number, name in enumerate(_parameters(node)):
                if name in ("reason", "refusal"):
                    self.places.setdefault(node.name, set()).add(number)

    def words(self, node: ast.expr, *, named: bool = True) -> Iterator[str]:
        """Yield the reasons that an expression can be: one, or one of several."""
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str) and WORD.fullmatch(node.value):
                yield node.value
        elif isinstance(node, ast.IfExp):
            for part in (node.body, node.orelse):
                yield from self.words(part, named=named)
        elif isinstance(node, ast.BoolOp):
            for part in node.values:
                yield from self.words(part, named=named)
        elif isinstance(node, ast.Name) and named:
            for target, value in self.assigned:
                if _name(target) == node.id:
                    yield from self.words(value, named=False)

    def reasons(self, everywhere: Places) -> Iterator[str]:
        """Yield every reason that is passed to a function, assigned, or returned with a message."""
        for node in self.nodes:
            if isinstance(node, ast.Assign):
                yield from self._assigned(node.targets[0], node.value)
            elif isinstance(node, ast.Call):
                name = _name(node.func)
                yield from self.passed(node, self.places.get(name) or everywhere.get(name, set()))
            elif isinstance(node, ast.Return) and len(getattr(node.value, "elts", ())) == 2:
                yield from self.words(node.value.elts[0], named=False)

    def passed(self, call: ast.Call, places: set[int]) -> Iterator[str]:
        for place in places:
            if len(call.args) > place:
                yield from self.words(call.args[place])
        for keyword in call.keywords:
            if keyword.arg in ("reason", "refusal"):
                yield from self.words(keyword.value)

    def _assigned(self, target: ast.expr, value: ast.expr) -> Iterator[str]:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for one, other in zip(target.elts, value.elts, strict=True):
                yield from self._assigned(one, other)
        elif _name(target) in REASONS:
            yield from self.words(value)


def _parameters(node: ast.AST) -> list[str]:
    """The parameters of a function, or the fields of a class, in the order of its call."""
    if isinstance(node, ast.ClassDef):
        for part in node.body:
            if isinstance(part, ast.FunctionDef) and part.name == "__init__":
                return _parameters(part)
        return [_name(part.target) for part in node.body if isinstance(part, ast.AnnAssign)]
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return []
    names = [each.arg for each in node.args.args if each.arg != "self"]
    if node.args.vararg is not None:  # and the names that its body gives them
        for part in node.body:
            if isinstance(part, ast.Assign) and _name(part.value) == node.args.vararg.arg:
                names += [_name(each) for each in getattr(part.targets[0], "elts", ())]
    return names


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


@cache
def _reported() -> frozenset[str]:
    modules = [Module(path) for path in PRODUCT]
    everywhere: Places = dict(EVENTS)
    for module in modules:
        for name, places in module.places.items():
            if not name.startswith("_"):
                everywhere[name] = everywhere.get(name, set()) | places
    found = {reason for module in modules for reason in module.reasons(everywhere)}
    for module in map(Module, LIBRARY):
        for node in module.nodes:
            if isinstance(node, ast.Call) and _name(node.func) in EVENTS:
                found |= set(module.passed(node, EVENTS[_name(node.func)]))
    return frozenset(found)


def test_every_reason_is_explained_and_none_that_is_never_told() -> None:
    page = (ROOT / "docs" / "conditions.md").read_text()
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    explained = {cells[1] for cells in rows if len(cells) == 4}
    explained |= {cells[0] for cells in rows if len(cells) == 2}
    explained = {word for words in explained for word in words.split(", ")}
    explained = {word for word in explained if re.fullmatch(r"[A-Z][A-Za-z]+", word)}
    told = set(_reported())
    told |= {row.event for mode in MODES.values() for row in mode.rules if row.event}
    told |= {mode.served[0] for mode in MODES.values()}
    assert sorted(told - explained) == []
    assert sorted(explained - told) == []


def test_reasons_of_every_kind_of_object_are_found() -> None:
    """One of each way in which the code passes them on."""
    assert {
        *("Hibernated", "StepFailed", "AuthSecret"),  # a condition, a variable, an error
        *("NoDatabase", "WorkerSilent", "BackupDamaged", "BackupCreated"),  # backups
        *("NotApproved", "OperatorDoesNotRun", "Unreadable"),  # an installation, the library
    } <= _reported()
