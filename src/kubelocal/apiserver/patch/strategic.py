"""Strategic merge patch, driven by x-kubernetes-patch-strategy and -patch-merge-key of the schema.

Directives: `$patch` (delete, replace, merge) in objects and list items, `$retainKeys`,
`$deleteFromPrimitiveList/<field>` and `$setElementOrder/<field>`.
"""

from __future__ import annotations

import copy
from typing import Any

from kubelocal.apiserver.causes import go_value

__all__ = ["PatchError", "strategic_merge"]

_DELETE_FROM = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"
_RETAIN = "$retainKeys"
_PATCH = "$patch"


class PatchError(Exception):
    """A patch that does not fit its document; carries the status and reason of the response."""

    def __init__(self, message: str, *, status: int = 422, reason: str = "Invalid") -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.reason = reason


def strategic_merge(schema: dict[str, Any], document: Any, patch: Any) -> Any:
    """Merge a patch into a document by the strategies of its schema."""
    if not isinstance(patch, dict):
        text = "error decoding patch: it must be an object"
        raise PatchError(text, status=400, reason="BadRequest")
    return _merge_objects(schema, document if isinstance(document, dict) else {}, patch)


def _merge_objects(
    schema: dict[str, Any], document: dict[str, Any], patch: dict[str, Any]
) -> dict[str, Any]:
    directive = patch.get(_PATCH)
    if directive == "replace":
        rest = {name: value for name, value in patch.items() if name != _PATCH}
        kept: dict[str, Any] = _without_directives(rest)
        return kept
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise _bad_directive(patch)
    result = dict(document)
    _retain(result, patch)
    for name, value in patch.items():
        if not name.startswith("$"):
            _merge_field(schema, result, name, patch)
        elif name.startswith(_DELETE_FROM):
            _delete_primitives(result, name.removeprefix(_DELETE_FROM), value)
        elif name.startswith(_ORDER) and name.removeprefix(_ORDER) not in patch:
            _order_only(schema, result, name.removeprefix(_ORDER), value)
    return result


def _bad_directive(patch: dict[str, Any]) -> PatchError:
    text = f"unknown patch type: {patch[_PATCH]} in map: {go_value(patch)}"
    return PatchError(text, status=500, reason="InternalError")


def _retain(result: dict[str, Any], patch: dict[str, Any]) -> None:
    keep = patch.get(_RETAIN)
    if keep is None:
        return
    if not isinstance(keep, list):
        text = f"{_RETAIN} must be a list of field names"
        raise PatchError(text, status=400, reason="BadRequest")
    for name in list(result):
        if name not in keep:
            del result[name]


def _sub(schema: dict[str, Any], name: str) -> dict[str, Any]:
    rest = schema.get("additionalProperties")
    found = schema.get("properties", {}).get(name, rest if isinstance(rest, dict) else {})
    return found if isinstance(found, dict) else {}


def _strategies(schema: dict[str, Any]) -> set[str]:
    return set(schema.get("x-kubernetes-patch-strategy", "").split(","))


def _merge_field(
    schema: dict[str, Any], result: dict[str, Any], name: str, patch: dict[str, Any]
) -> None:
    sub, value = _sub(schema, name), patch[name]
    old = result.get(name)
    if value is None:
        result.pop(name, None)
    elif isinstance(value, dict):
        if "replace" in _strategies(sub) and isinstance(old, dict) and _PATCH not in value:
            result[name] = _without_directives(value)
        else:
            result[name] = _merge_objects(sub, old if isinstance(old, dict) else {}, value)
            if value.get(_PATCH) == "delete":
                del result[name]
    elif isinstance(value, list):
        result[name] = _merge_lists(sub, old, value, patch.get(f"{_ORDER}{name}"))
    else:
        result[name] = value


def _merge_lists(
    schema: dict[str, Any], old: Any, patch: list[Any], order: list[Any] | None
) -> list[Any]:
    before = old if isinstance(old, list) else []
    if "merge" not in _strategies(schema):
        return [copy.deepcopy(item) for item in patch if not _is_directive(item)]
    key = schema.get("x-kubernetes-patch-merge-key")
    if order is not None:
        _check_order(patch, order, key)
    if key is None or not any(isinstance(item, dict) for item in [*patch, *before]):
        return _merge_primitives(before, patch, order)
    return _merge_items(schema.get("items", {}), key, before, patch, order)


def _check_order(patch: list[Any], order: list[Any], key: str | None) -> None:
    """Check that the items of the patch are in the requested order."""

    def identity(item: Any) -> str:
        return _named(item.get(key) if isinstance(item, dict) else item)

    rest = iter([identity(item) for item in order])
    for item in patch:
        if not _is_directive(item) and identity(item) not in rest:
            text = f"The order in patch list:\n{go_value(patch)}\n doesn't match $setElementOrder"
            text = f"{text} list:\n{go_value(order)}\n"
            raise PatchError(text, status=500, reason="InternalError")


def _is_directive(item: Any) -> bool:
    return isinstance(item, dict) and _PATCH in item


def _named(value: Any) -> str:
    """Return a text that identifies a value."""
    return f'"{value}"' if isinstance(value, str) else go_value(value)


def _merge_primitives(before: list[Any], patch: list[Any], order: list[Any] | None) -> list[Any]:
    seen = {_named(item) for item in before}
    result = list(before)
    for item in patch:
        if _named(item) not in seen:
            seen.add(_named(item))
            result.append(copy.deepcopy(item))
    return _ordered(result, before, [_named(item) for item in order or patch], _named)


def _delete_primitives(result: dict[str, Any], name: str, doomed: Any) -> None:
    if not isinstance(result.get(name), list) or not isinstance(doomed, list):
        return
    gone = {_named(item) for item in doomed}
    result[name] = [item for item in result[name] if _named(item) not in gone]


def _merge_items(
    items: dict[str, Any],
    key: str,
    before: list[Any],
    patch: list[Any],
    order: list[Any] | None,
) -> list[Any]:
    if any(isinstance(item, dict) and item.get(_PATCH) == "replace" for item in patch):
        rest = [item for item in patch if not _is_directive(item)]
        return [_without_directives(item) for item in rest]
    result = list(before)
    for item in patch:
        _merge_item(items, key, result, item)

    def identity(item: Any) -> str:
        return _named(item.get(key) if isinstance(item, dict) else item)

    return _ordered(result, before, [identity(item) for item in order or patch], identity)


def _merge_item(items: dict[str, Any], key: str, result: list[Any], item: Any) -> None:
    if not isinstance(item, dict) or key not in item:
        text = f"map: {go_value(item)} does not contain declared merge key: {key}"
        raise PatchError(text, status=500, reason="InternalError")
    directive = item.get(_PATCH)
    if directive not in (None, "merge", "delete"):
        raise _bad_directive(item)
    places = [
        place
        for place, old in enumerate(result)
        if isinstance(old, dict) and old.get(key) == item[key]
    ]
    if directive == "delete":
        for place in reversed(places):
            del result[place]
    elif places:
        result[places[0]] = _merge_objects(items, result[places[0]], item)
    else:
        result.append(_merge_objects(items, {}, item))


def _order_only(schema: dict[str, Any], result: dict[str, Any], name: str, order: Any) -> None:
    """Reorder a list that the patch does not change otherwise."""
    if not isinstance(result.get(name), list) or not isinstance(order, list):
        return
    sub = _sub(schema, name)
    result[name] = _merge_lists(sub, result[name], [], order)


def _ordered(result: list[Any], before: list[Any], order: list[str], identity: Any) -> list[Any]:
    """Put items in the requested order; others keep their place among their old neighbours."""
    place = {name: index for index, name in enumerate(order)}
    live = {identity(item): index for index, item in enumerate(before)}
    wanted = sorted(
        (item for item in result if identity(item) in place),
        key=lambda item: place[identity(item)],
    )
    others = [item for item in result if identity(item) not in place]
    merged: list[Any] = []
    while wanted and others:
        ahead, other = wanted[0], others[0]
        before_place = live.get(identity(ahead))
        if before_place is not None and live.get(identity(other), len(before)) < before_place:
            merged.append(others.pop(0))
        else:
            merged.append(wanted.pop(0))
    return merged + wanted + others


def _without_directives(value: Any) -> Any:
    """Copy a value of the patch into the document without its directives."""
    if isinstance(value, dict):
        return {
            name: _without_directives(item)
            for name, item in value.items()
            if not name.startswith("$")
        }
    if isinstance(value, list):
        return [_without_directives(item) for item in value if not _is_directive(item)]
    return value
