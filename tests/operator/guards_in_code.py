"""The guards that the code has, found by reading it, with the words of their refusals."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from msgspec import Struct

import redis_operator

__all__ = ["ELSEWHERE", "INDIRECT", "Guard", "find_guards", "guards_in", "guards_of_failover"]

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Guard(Struct, frozen=True):
    """A place that refuses: a pattern of what it says, and the type of its first argument."""

    pattern: str
    kind: str


@cache
def find_guards() -> dict[str, Guard]:
    """Return every guard in the source, by module, function and number."""
    found: dict[str, Guard] = {}
    for file in sorted(Path(redis_operator.__file__).parent.rglob("*.py")):
        source = file.read_text()
        # Parsing all files takes a third of a second.
        if file.stem == "preconditions" or "Refused" in source or "require(" in source:
            found |= guards_in(source, _module(file))
    return found


def guards_of_failover() -> set[str]:
    """Return the reasons of mode Failover: rows of `planning/test_failover_preconditions.py`."""
    return {guard for guard in find_guards() if guard.startswith("failover.")}


def _module(file: Path) -> str:
    if file.stem == "actions":
        return file.parent.name
    inner = file.stem == "preconditions" and file.parent.name != "planning"
    return f"{file.parent.name}.{file.stem}" if inner else file.stem


def guards_in(source: str, module: str) -> dict[str, Guard]:
    """The guards of one module: reasons, `raise Refused`, and calls of `require`."""
    found: dict[str, Guard] = {}
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, _FUNCTIONS):
            continue
        nodes, name, kind = _own_nodes(function), f"{module}.{function.name}", _kind(function)
        said = [text for node in nodes for text in _texts_of(node, module)]
        for number, text in enumerate(said, 1):
            found[f"{name}#{number}"] = Guard(_pattern(text), kind)
        for number, _ in enumerate(filter(_is_require, nodes), 1):
            found[f"{name}#require{number}"] = Guard(".+", kind)
    return found


def _own_nodes(function: ast.AST) -> list[ast.AST]:
    """The nodes of a function in the order of the source, without those of functions in it."""
    found: list[ast.AST] = []
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, _FUNCTIONS):
            found += [child, *_own_nodes(child)]
    return found


def _kind(function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    first = next((one.annotation for one in function.args.args), None)
    return ast.unparse(first) if first is not None else ""


def _texts_of(node: ast.AST, module: str) -> list[ast.expr]:
    """What a guard says: the argument of `Refused`, or a reason that a precondition returns."""
    if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
        name = node.exc.func
        if isinstance(name, ast.Name) and name.id == "Refused":
            return [node.exc.args[0]]
    is_reason = module.endswith("preconditions") and isinstance(node, ast.Return)
    return _reasons(node.value) if is_reason and isinstance(node, ast.Return) else []


def _reasons(value: ast.expr | None) -> list[ast.expr]:
    match value:
        case ast.IfExp():
            return _reasons(value.body) + _reasons(value.orelse)
        case ast.BoolOp():
            return [reason for one in value.values for reason in _reasons(one)]
        case ast.JoinedStr() | ast.Constant(value=str()):
            return [value]
    return []


def _is_require(node: ast.AST) -> bool:
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    return is_call and node.func.id == "require"


def _pattern(text: ast.expr) -> str:
    match text:
        case ast.Constant():
            return re.escape(str(text.value))
        case ast.JoinedStr():
            parts = [
                re.escape(str(part.value)) if isinstance(part, ast.Constant) else ".*"
                for part in text.values
            ]
            return "".join(parts)
    return ".+"


# Not guards of one action: the words come from a predicate that is one itself.
INDIRECT = {"effects.require#1", "preconditions._unanswered#1", "preconditions._unmet#1"}

_REAL = "operator/servers/test_replication.py::"
_SOURCES = "operator/servers/test_source_steps.py::"
_STEPS = "operator/servers/test_server_steps.py::"
_FAILOVER_STEPS = "operator/servers/test_replication_steps.py::"
_FENCE = f"{_STEPS}test_a_fence_is_checked_again_right_before"
_COPIES = f"{_SOURCES}test_a_copy_is_promoted_only_with_everything_that_its_source_has"
_WANTED = f"{_SOURCES}test_a_source_is_followed_only_while_the_api_says_that_it_is_wanted"
_HOLDS_KEYS = f"{_STEPS}test_a_primary_that_holds_keys_is_not_replaced_and_not_left_paused"

# Shown by tests of their own: before all actions, and on servers of other kinds.
ELSEWHERE = {
    "wiring.before#1": (
        "operator/test_leadership.py::test_steps_are_refused_once_the_lease_is_lost"
    ),
    "effects.carry_out#require1": (
        "operator/test_guards.py::"
        "test_action_is_refused_when_the_world_moved_on_and_nothing_is_sent"
    ),
    "objects._delete_claim#require1": (
        "operator/objects/test_object_steps.py::test_files_stay_where_anything_is_not_as_planned"
    ),
    "preconditions._leads_again#1": _FENCE,
    "servers.reach#require1": f"{_STEPS}test_only_the_server_that_was_seen_is_reached",
    "servers.check_fence#require1": _FENCE,
    "servers._pause_empty#require1": (
        f"{_STEPS}test_an_empty_primary_without_a_pod_is_not_replaced"
    ),
    "servers._pause_empty#require2": _HOLDS_KEYS,
    "servers._pause_empty#require3": _HOLDS_KEYS,
    "replication._sentinel#require1": (
        f"{_FAILOVER_STEPS}test_another_sentinel_in_the_same_pod_is_told_nothing"
    ),
    "replication._follow#require1": (f"{_FAILOVER_STEPS}test_a_server_follows_only_who_leads_now"),
    "replication._watch#require1": (
        f"{_FAILOVER_STEPS}test_no_sentinel_monitors_a_server_that_does_not_lead"
    ),
    "replication._switch#require1": (
        f"{_FAILOVER_STEPS}test_a_primary_that_does_not_lead_any_more_is_not_paused"
    ),
    "replication._pause#1": (
        f"{_REAL}test_a_primary_whose_writes_cannot_be_paused_keeps_its_place"
    ),
    "replication._win#1": f"{_REAL}test_sentinels_that_do_not_vote_are_told_nothing",
    "replication._demotable#1": (
        f"{_REAL}test_a_primary_that_would_not_let_itself_be_demoted_keeps_its_place"
    ),
    "replication._arrived#1": (
        f"{_FAILOVER_STEPS}test_all_of_a_source_must_be_asked_for_before_a_promotion"
    ),
    "replication._arrived#2": _COPIES,
    "replication._arrived#3": _COPIES,
    "replication._follow_source#1": _WANTED,
    "sources.check#1": _WANTED,
    "sources.check#2": _WANTED,
    "sources.check#3": _WANTED,
    "sources.offset#1": _COPIES,
}
