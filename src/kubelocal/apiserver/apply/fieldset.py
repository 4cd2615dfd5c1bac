"""Sets of field paths, in the format in which managedFields stores them (FieldsV1).

A set is a tree of path elements: `f:name`, `k:{"name":"x"}`, `v:"x"`, `i:0`. A node that is empty,
or that holds `.`, is itself in the set. Sets are values: no function here changes its arguments,
and results may share parts with them. Pure; used only by server-side apply.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from kubelocal.apiserver.causes import go_value

__all__ = [
    "FieldSet",
    "difference",
    "from_paths",
    "intersection",
    "is_member",
    "members",
    "path_text",
    "recursive_difference",
    "union",
]

FieldSet = dict[str, Any]

_ITSELF = "."
_RANK = {".": 0, "f": 1, "k": 2, "v": 3, "i": 4}


def is_member(node: FieldSet) -> bool:
    """Return whether a node of a set is itself in the set."""
    return not node or _ITSELF in node


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    """Return the union of two sets."""
    if not left or left is right:
        return right
    if not right:
        return left
    result = dict(left)
    for key, node in right.items():
        mine = result.get(key)
        result[key] = node if mine is None else _union_nodes(mine, node)
    return result


def _union_nodes(left: FieldSet, right: FieldSet) -> FieldSet:
    if left == right:
        return left
    if not left:
        return {_ITSELF: {}, **right}
    if not right:
        return {_ITSELF: {}, **left}
    return union(left, right)


def _node(children: FieldSet, *, member: bool) -> FieldSet | None:
    """Return a node, or nothing if it has no children and is not a member."""
    if not children:
        return {} if member else None
    return {_ITSELF: {}, **children} if member else children


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """Remove the members of one set from another; members below a removed one stay."""
    if not right:
        return left
    result: FieldSet = {}
    for key, node in left.items():
        other = right.get(key)
        if key == _ITSELF:
            continue
        if other is None:
            result[key] = node
            continue
        rest = _node(
            _children(difference(node, other) if node else {}),
            member=is_member(node) and not is_member(other),
        )
        if rest is not None:
            result[key] = rest
    return result


def _children(node: FieldSet) -> FieldSet:
    if _ITSELF not in node:
        return node
    return {key: child for key, child in node.items() if key != _ITSELF}


def recursive_difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """Remove the members of one set, and everything below them, from another."""
    if not right:
        return left
    result: FieldSet = {}
    for key, node in left.items():
        other = right.get(key)
        if other is None:
            result[key] = node
        elif not is_member(other):
            below = recursive_difference(_children(node), other)
            rest = _node(below, member=is_member(node))
            if rest is not None:
                result[key] = rest
    return result


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    """Return the members that are in both sets."""
    result: FieldSet = {}
    for key, node in left.items():
        other = right.get(key)
        if other is None or key == _ITSELF:
            continue
        both = _node(
            intersection(node, other) if node and other else {},
            member=is_member(node) and is_member(other),
        )
        if both is not None:
            result[key] = both
    return result


def from_paths(paths: Iterable[str]) -> FieldSet:
    """Return the set of dotted field paths, such as `metadata.labels`."""
    result: FieldSet = {}
    for path in paths:
        node: FieldSet = {}
        for name in reversed(path.split(".")):
            node = {f"f:{name}": node}
        result = union(result, node)
    return result


def members(fields: FieldSet, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the members of a set: those of a level first, then those below."""
    names = sorted((key for key in fields if key != _ITSELF), key=_order)
    for key in names:
        if is_member(fields[key]):
            yield (*path, key)
    for key in names:
        yield from members(fields[key], (*path, key))


def _order(element: str) -> tuple[int, str]:
    return _RANK[element[0]], element


def path_text(path: tuple[str, ...]) -> str:
    """Format a path as conflicts do: `.spec.containers[name="web"].image`."""
    return "".join(_element_text(element) for element in path)


def _element_text(element: str) -> str:
    kind, _, rest = element.partition(":")
    if kind == "f":
        return f".{rest}"
    if kind == "k":
        keys = json.loads(rest)
        return "[" + ",".join(f"{name}={go_value(keys[name])}" for name in sorted(keys)) + "]"
    if kind == "v":
        return f"[={go_value(json.loads(rest))}]"
    return f"[{rest}]"
