"""Every word that a condition or an event may carry is explained."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from redis_operator.planning.modes import MODES

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
TOLD_BY = (
    "redis_operator/planning/reporting/announcements.py",
    "redis_operator/planning/reporting/conditions.py",
    "redis_operator/planning/copies.py",
    "redis_operator/planning/reporting/inventory.py",
    "redis_operator/planning/backups/precautions.py",
    "redis_operator/planning/reporting/status.py",
    "redis_operator/planning/reporting/degradations.py",
    "redis_operator/operator/passwords.py",
    "redis_operator/operator/passes.py",
    "redis_operator/operator/reconcile.py",
    "redis_operator/operator/redis_failovers.py",
    "redis_operator/translation/status.py",
    "redis_operator/operator/rotation.py",
    "redis_operator/operator/servers/sources.py",
    "redis_operator/operator/report.py",
    "kubecontroller/runtime/manager.py",
)
# Calls that carry a reason, and which of their arguments it is.
CARRIERS = {
    "Degradation": 0,
    "Hindrance": 0,
    "NotFollowed": 0,
    "SourceSilent": 0,
    "warning": 1,
}


def words_in(node: ast.expr) -> Iterator[str]:
    """Yield the words an expression can be: one constant, or one of several."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from words_in(node.body)
        yield from words_in(node.orelse)


def reasons_in(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            yield from _carried(node)
        elif isinstance(node, ast.Assign):
            yield from _assigned(node.targets[0], node.value)


def _assigned(target: ast.expr, value: ast.expr) -> Iterator[str]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for one, other in zip(target.elts, value.elts, strict=True):
            yield from _assigned(one, other)
    elif _name(target) in ("reason", "kind"):
        yield from words_in(value)


def _carried(call: ast.Call) -> Iterator[str]:
    place = CARRIERS.get(_name(call.func))
    if place is not None and len(call.args) > place:
        yield from words_in(call.args[place])
    for keyword in call.keywords:
        if keyword.arg == "reason":
            yield from words_in(keyword.value)


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def test_every_reason_is_explained_and_none_that_is_never_told() -> None:
    page = (ROOT / "docs" / "conditions.md").read_text()
    told = {reason for name in TOLD_BY for reason in reasons_in(SOURCE / name)}
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    explained = {cells[1] for cells in rows if len(cells) == 4}
    explained |= {cells[0] for cells in rows if len(cells) == 2}
    explained = {word for words in explained for word in words.split(", ")}
    told |= {row.event for mode in MODES.values() for row in mode.rules if row.event}
    told |= {mode.served[0] for mode in MODES.values()}
    explained = {word for word in explained if re.fullmatch(r"[A-Z][A-Za-z]+", word)}
    assert len(told) > 25
    assert told == explained
