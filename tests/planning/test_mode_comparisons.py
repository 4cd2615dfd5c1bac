"""Modes differ in tables and in nothing else: no other code asks which mode a database has."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from redis_operator.api.redis import Mode
from redis_operator.manifests.layouts import LAYOUTS
from redis_operator.planning.modes import MODES

PRODUCT = Path(__file__).parents[2] / "src" / "redis_operator"
TABLES = {"manifests/layouts.py", "operator/servers/dialects.py", "planning/modes.py"}
EXCEPTIONS = {
    "operator/mode_change.py": "its subject is the change from one mode to another",
}
DEFAULTS = {
    "operator/observe.py": "the default of a request",
    "operator/servers/dialect.py": "the default of a question to a server",
    "planning/advice.py": "the default of what is wanted",
}
_NAMES = {mode.value for mode in Mode}
_OTHER_MODES = "FailoverMode"  # of the command FAILOVER, not of a database


def _modules() -> list[str]:
    found = (
        path
        for part in ("manifests", "operator", "planning")
        for path in (PRODUCT / part).rglob("*.py")
    )
    return sorted(str(path.relative_to(PRODUCT)) for path in found)


def _members(tree: ast.AST) -> Iterator[ast.Attribute]:
    """Where a mode is named: `Mode.CLUSTER`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in Mode.__members__:
            owner = node.value
            if isinstance(owner, ast.Name | ast.Attribute) and _last(owner) == "Mode":
                yield node


def _last(node: ast.expr) -> str:
    """The last name of an expression: `mode` of `redis.spec.mode`, also of its value."""
    if isinstance(node, ast.Attribute):
        return _last(node.value) if node.attr == "value" else node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _is_of_mode(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return node.value in _NAMES
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return any(_is_of_mode(element) for element in node.elts)
    return _last(node) in {"mode", "recorded_mode"} or any(_members(node))


def _comparisons(tree: ast.AST) -> Iterator[ast.AST]:
    """Where a mode is compared with something, or matched."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Match) and _is_of_mode(node.subject):
            yield node
        if not isinstance(node, ast.Compare) or _OTHER_MODES in ast.unparse(node):
            continue
        sides = [node.left, *node.comparators]
        if any(isinstance(side, ast.Constant) and side.value is None for side in sides):
            continue  # whether it is known at all
        if any(_is_of_mode(side) for side in sides):
            yield node


@pytest.mark.parametrize("module", sorted(set(_modules()) - TABLES - set(EXCEPTIONS)))
def test_a_module_outside_the_tables_does_not_ask_for_the_mode(module: str) -> None:
    tree = ast.parse((PRODUCT / module).read_text())
    found: list[ast.AST] = list(_comparisons(tree))
    if module not in DEFAULTS:
        found += list(_members(tree))
    asked = [f"{module}:{getattr(node, 'lineno', 0)}: {ast.unparse(node)}" for node in found]
    assert not asked, f"make it a column of MODES, LAYOUTS or DIALECTS: {asked}"


def test_exceptions_are_still_needed() -> None:
    for module in EXCEPTIONS:
        assert list(_comparisons(ast.parse((PRODUCT / module).read_text()))), module
    for module in DEFAULTS:
        assert list(_members(ast.parse((PRODUCT / module).read_text()))), module


@pytest.mark.parametrize(
    "line",
    [
        "spec.mode is Mode.CLUSTER",
        "redis.Mode.CLUSTER in (before, now)",
        "status.mode.value == text",
        "raw['mode'] == 'Cluster'",
        "mode in _SHARDED",
        "mode not in ('Failover', 'Standalone')",
        "self.children.recorded_mode != now",
    ],
)
def test_a_comparison_is_noticed(line: str) -> None:
    assert list(_comparisons(ast.parse(line)))


@pytest.mark.parametrize(
    "line", ["step.mode is FailoverMode.FORCE", "mode is None", "MODES[spec.mode].is_sharded"]
)
def test_other_questions_are_allowed(line: str) -> None:
    assert not list(_comparisons(ast.parse(line)))


@pytest.mark.parametrize("mode", Mode)
def test_tables_agree_on_what_a_mode_has(mode: Mode) -> None:
    assert MODES[mode].is_sharded == LAYOUTS[mode].is_sharded
    assert MODES[mode].lists_replicas == (LAYOUTS[mode].sentinels is not None)
