"""Values according to their schema: which fields they have, how two differ, how two merge.

Lists are atomic, sets or maps; objects are granular unless the schema says atomic. Parts without a
schema are deduced: objects granular, lists atomic. Pure; used only by server-side apply.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from json.encoder import encode_basestring
from typing import Any

import msgspec
from msgspec import Struct

from kubelocal.apiserver.apply.fieldset import FieldSet, is_member, path_text, union
from kubelocal.apiserver.causes import go_value
from kubelocal.apiserver.format.field_types import TYPES

__all__ = [
    "Comparison",
    "compare",
    "field_set",
    "merge",
    "misfits",
    "named",
    "remove",
    "without_emptied",
    "zero",
]

_ABSENT: Any = object()
_ITSELF = "."
_UNKNOWN: dict[str, Any] = {}
_CONTAINERS = (dict, list)


class Comparison(Struct, frozen=True):
    """How a value differs from an earlier one, as three sets of fields."""

    added: FieldSet
    modified: FieldSet
    removed: FieldSet

    @property
    def changed(self) -> FieldSet:
        """New or different fields, without removed ones."""
        return union(self.modified, self.added)

    @property
    def is_same(self) -> bool:
        """Whether nothing differs."""
        return not (self.added or self.modified or self.removed)


def _is_atomic_object(schema: dict[str, Any]) -> bool:
    return schema.get("x-kubernetes-map-type") == "atomic"


def _list_keys(schema: dict[str, Any]) -> list[str] | None:
    """Return the keys of a list of type map, none for a set, and nothing for an atomic list."""
    kind = schema.get("x-kubernetes-list-type")
    if kind == "map":
        keys: list[str] = schema.get("x-kubernetes-list-map-keys", [])
        return keys
    if kind == "set":
        return []
    if kind is None and "merge" in schema.get("x-kubernetes-patch-strategy", ""):
        key = schema.get("x-kubernetes-patch-merge-key")
        return [key] if key else []
    return None


def _is_atomic(schema: dict[str, Any], value: Any) -> bool:
    if isinstance(value, dict):
        return _is_atomic_object(schema)
    return isinstance(value, list) and _list_keys(schema) is None


def _sub(schema: dict[str, Any], name: str) -> tuple[dict[str, Any], bool]:
    """Return the schema of a field, and whether it is a named field of a struct."""
    properties = schema.get("properties")
    if properties is not None and name in properties:
        return properties[name], True
    rest = schema.get("additionalProperties")
    return (rest if isinstance(rest, dict) else _UNKNOWN), False


def _element(schema: dict[str, Any], keys: list[str], item: Any) -> str:
    """Return the path element of an item of a list of type set or map."""
    if not keys or not isinstance(item, dict):
        return "v:" + _compact(item)
    if len(keys) == 1 and isinstance(item.get(keys[0]), str):
        return f'k:{{"{keys[0]}":{encode_basestring(item[keys[0]])}}}'
    properties = (schema.get("items") or _UNKNOWN).get("properties", _UNKNOWN)
    found = {}
    for name in sorted(keys):
        if name in item:
            found[name] = item[name]
        elif "default" in properties.get(name, _UNKNOWN):
            found[name] = properties[name]["default"]
    return "k:" + _plainly.encode(found).decode()


_plainly = msgspec.json.Encoder()  # keys are texts, numbers or booleans, sorted above
_compact = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, sort_keys=True).encode


def _items(schema: dict[str, Any], keys: list[str], value: list[Any]) -> dict[str, list[Any]]:
    """Group the items of a list by their path elements; more than one means duplicates."""
    found: dict[str, list[Any]] = {}
    for item in value:
        found.setdefault(_element(schema, keys, item), []).append(item)
    return found


def field_set(schema: dict[str, Any], value: dict[str, Any]) -> FieldSet:
    """Return the fields of an applied object."""
    result: FieldSet = {}
    for name, item in value.items():
        sub, is_named = _sub(schema, name)
        node = _field_node(sub, item, member=not is_named)
        if node is not None:
            result[f"f:{name}"] = node
    return result


def _field_node(schema: dict[str, Any], value: Any, *, member: bool) -> FieldSet | None:
    if not isinstance(value, _CONTAINERS) or _is_atomic(schema, value):
        return {}
    if isinstance(value, dict):
        if not value:
            return {}
        children = field_set(schema, value)
    else:
        children = _item_set(schema, value)
    if not children:
        return {} if member else None
    return {_ITSELF: {}, **children} if member else children


def _item_set(schema: dict[str, Any], value: list[Any]) -> FieldSet:
    keys, items = _list_keys(schema) or [], schema.get("items") or _UNKNOWN
    result: FieldSet = {}
    for element, found in _items(schema, keys, value).items():
        node = _field_node(items, found[0], member=True) if len(found) == 1 else {}
        result[element] = node or {}
    return result


def compare(schema: dict[str, Any], old: dict[str, Any], new: dict[str, Any]) -> Comparison:
    """Return which fields a change adds, modifies and removes."""
    result = Comparison({}, {}, {})
    _compare_objects(schema, old, new, result)
    return result


def _compare_objects(
    schema: dict[str, Any], old: dict[str, Any], new: dict[str, Any], result: Comparison
) -> None:
    for name, value in new.items():
        before = old.get(name, _ABSENT)
        if before is not value and before != value:
            _compare(_sub(schema, name)[0], before, value, f"f:{name}", result)
    for name, value in old.items():
        if name not in new:
            _compare(_sub(schema, name)[0], value, _ABSENT, f"f:{name}", result)


def _compare(schema: dict[str, Any], old: Any, new: Any, key: str, result: Comparison) -> None:
    if old is _ABSENT:
        result.added[key] = _everything(schema, new)
        return
    if new is _ABSENT:
        result.removed[key] = _everything(schema, old)
        return
    if _is_atomic(schema, old) or _is_atomic(schema, new) or not (old or new):
        result.modified[key] = {}
        return
    below = Comparison({}, {}, {})
    if _are(dict, old, new):
        _compare_objects(schema, old or {}, new or {}, below)
    elif _are(list, old, new):
        _compare_lists(schema, old or [], new or [], below)
    else:
        result.modified[key] = {}
        _compare_kinds(schema, old, new, below)
    for found, children in zip(_parts(result), _parts(below), strict=True):
        if children:
            found[key] = children


def _are(kind: type, old: Any, new: Any) -> bool:
    """Return whether both are objects (or lists); null counts as an empty one."""
    return isinstance(old, kind | None) and isinstance(new, kind | None)


def _compare_kinds(schema: dict[str, Any], old: Any, new: Any, below: Comparison) -> None:
    """Compare a scalar that became an object, or the reverse: all below is removed or added."""
    below.removed.update(_below(schema, old))
    below.added.update(_below(schema, new))


def _below(schema: dict[str, Any], value: Any) -> FieldSet:
    node = _everything(schema, value)
    return {key: child for key, child in node.items() if key != _ITSELF}


def _parts(comparison: Comparison) -> tuple[FieldSet, FieldSet, FieldSet]:
    return comparison.added, comparison.modified, comparison.removed


def _compare_lists(
    schema: dict[str, Any], old: list[Any], new: list[Any], result: Comparison
) -> None:
    keys, items = _list_keys(schema) or [], schema.get("items") or _UNKNOWN
    before, after = _items(schema, keys, old), _items(schema, keys, new)
    for element, found in after.items():
        past = before.get(element, [])
        if past == found:
            continue
        if len(found) == 1:
            _compare(items, past[0] if len(past) == 1 else _ABSENT, found[0], element, result)
        elif len(past) > 1:
            result.modified[element] = {}
        else:
            result.added[element] = {}
    for element, past in before.items():
        found = after.get(element, [])
        if len(past) > 1 and len(found) < 2:
            result.removed[element] = {}
        elif len(past) == 1 and len(found) != 1:
            result.removed[element] = _everything(items, past[0])


def _everything(schema: dict[str, Any], value: Any) -> FieldSet:
    """Return a value with everything below it, each node a member."""
    if not value:
        return {}
    if isinstance(value, dict):
        return {} if _is_atomic_object(schema) else _every_field(schema, value)
    keys = _list_keys(schema) if isinstance(value, list) else None
    return {} if keys is None else _every_item(schema, keys, value)


def _every_field(schema: dict[str, Any], value: dict[str, Any]) -> FieldSet:
    properties = schema.get("properties") or _UNKNOWN
    result: FieldSet = {_ITSELF: {}}
    for name, item in value.items():
        if item and isinstance(item, _CONTAINERS):
            sub = properties.get(name) or _sub(schema, name)[0]
            result["f:" + name] = _everything(sub, item)
        else:
            result["f:" + name] = {}
    return result


def _every_item(schema: dict[str, Any], keys: list[str], value: list[Any]) -> FieldSet:
    items = schema.get("items") or _UNKNOWN
    result: FieldSet = {_ITSELF: {}}
    for item in value:
        element = _element(schema, keys, item)
        result[element] = {} if element in result else _everything(items, item)
    return result


def merge(schema: dict[str, Any], live: Any, intent: Any) -> Any:
    """Merge an applied value into a live one: applied scalars and atomic parts win."""
    if isinstance(live, dict) and isinstance(intent, dict | None) and live:
        if not _is_atomic_object(schema):
            result = dict(live)
            for name, value in (intent or {}).items():
                before = live.get(name, _ABSENT)
                if before is _ABSENT:
                    result[name] = value
                elif before != value:
                    result[name] = merge(_sub(schema, name)[0], before, value)
            return result
    elif isinstance(live, list) and isinstance(intent, list | None) and live:
        keys = _list_keys(schema)
        if keys is not None:
            return _merge_lists(schema, keys, live, intent or [])
    return intent


def _merge_lists(
    schema: dict[str, Any], keys: list[str], live: list[Any], intent: list[Any]
) -> list[Any]:
    """Merge items by key: those of the intent in its order, others stay near their old place."""
    items = schema.get("items") or _UNKNOWN
    before, after = _items(schema, keys, live), _items(schema, keys, intent)
    queue = list(after)
    shared = [element for element in queue if element in before]
    result: list[Any] = []
    done: set[str] = set()

    def take() -> None:
        element = queue.pop(0)
        done.add(element)
        past = before.get(element, [])
        found = after[element][0]
        result.append(merge(items, past[0], found) if len(past) == 1 else found)
        if shared and shared[0] == element:
            shared.pop(0)

    for item in live:
        element = _element(schema, keys, item)
        if element not in after:
            result.append(item)
            continue
        if element in done or (shared and shared[0] != element):
            continue
        while queue and element not in done:
            take()
    while queue:
        take()
    return result


def named(schema: dict[str, Any], fields: FieldSet) -> FieldSet:
    """Make the named fields on the path to a member members too, so that they can be removed."""
    result: FieldSet = {}
    for key, node in fields.items():
        if not node:
            result[key] = node
        elif key.startswith("f:"):
            sub, is_named = _sub(schema, key[2:])
            below = named(sub, node)
            result[key] = {_ITSELF: {}, **below} if is_named else below
        else:
            result[key] = named(schema.get("items") or _UNKNOWN, node)
    return result


def remove(schema: dict[str, Any], value: Any, fields: FieldSet) -> Any:
    """Remove the members of a set from a value; a part that becomes empty is null."""
    if isinstance(value, dict):
        if _is_atomic_object(schema):
            return value
        result = {}
        for name, item in value.items():
            node = fields.get(f"f:{name}")
            kept = item if node is None else _without(_sub(schema, name)[0], item, node)
            if kept is not _ABSENT:
                result[name] = kept
        return result
    if isinstance(value, list):
        keys = _list_keys(schema)
        if keys is None:
            return value
        items = schema.get("items") or _UNKNOWN
        rest = []
        for item in value:
            node = fields.get(_element(schema, keys, item))
            kept = item if node is None else _without(items, item, node)
            if kept is not _ABSENT:
                rest.append(kept)
        return rest
    return value


def _without(schema: dict[str, Any], value: Any, node: FieldSet) -> Any:
    if is_member(node):
        return _ABSENT
    rest = remove(schema, value, node)
    return None if isinstance(rest, dict | list) and not rest else rest


def without_emptied(before: Any, after: Any) -> Any:
    """Drop the nulls that `remove` left where it removed everything."""
    if isinstance(after, dict) and isinstance(before, dict):
        return {
            name: without_emptied(before.get(name), value)
            for name, value in after.items()
            if value is not None or before.get(name) is None
        }
    if isinstance(after, list) and isinstance(before, list) and len(after) == len(before):
        return [without_emptied(past, value) for past, value in zip(before, after, strict=True)]
    return after


def zero(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the empty object of a built-in kind: with its structs."""
    result: dict[str, Any] = {}
    for name, sub in schema.get("properties", {}).items():
        default = sub.get("default", _ABSENT)
        if default == {} and "properties" in sub:
            result[name] = zero(sub)
        elif default is not _ABSENT and default in ("", 0, False):
            result[name] = default
        elif sub.get("x-write-null"):
            result[name] = None
    return result


def misfits(schema: dict[str, Any], value: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield why an applied value cannot be tracked by its schema: unknown fields, duplicates."""
    if isinstance(value, dict):
        yield from _object_misfits(schema, value, path)
    elif isinstance(value, list):
        yield from _list_misfits(schema, value, path)
    elif value is not None:
        yield from _scalar_misfits(schema, value, path)


def _object_misfits(
    schema: dict[str, Any], value: dict[str, Any], path: tuple[str, ...]
) -> Iterator[str]:
    if schema.get("type") not in (None, "object"):
        yield _mismatch(schema, value, path)
        return
    is_closed = (
        bool(schema.get("properties"))
        and not schema.get("additionalProperties")
        and not schema.get("x-kubernetes-preserve-unknown-fields")
    )
    for name, item in value.items():
        sub, is_named = _sub(schema, name)
        below = (*path, f"f:{name}")
        if is_closed and not is_named:
            yield f"{path_text(below)}: field not declared in schema"
        else:
            yield from misfits(sub, item, below)


def _list_misfits(schema: dict[str, Any], value: list[Any], path: tuple[str, ...]) -> Iterator[str]:
    if schema.get("type") not in (None, "array"):
        yield _mismatch(schema, value, path)
        return
    keys, items = _list_keys(schema), schema.get("items") or _UNKNOWN
    seen: set[str] = set()
    for index, item in enumerate(value):
        element = f"i:{index}" if keys is None else _element(schema, keys, item)
        if keys and element == "k:{}":
            yield f"{path_text(path)}: element {index} omits all key fields ({', '.join(keys)})"
            return
        if element in seen:
            yield f"{path_text(path)}: duplicate entries for key {path_text((element,))}"
        seen.add(element)
        yield from misfits(items, item, (*path, element))


def _scalar_misfits(schema: dict[str, Any], value: Any, path: tuple[str, ...]) -> Iterator[str]:
    kind = schema.get("type", "")
    wanted = TYPES.get("number" if kind == "integer" else kind)
    if wanted is None or schema.get("format") == "int-or-string":
        return
    if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
        yield _mismatch(schema, value, path)


def _mismatch(schema: dict[str, Any], value: Any, path: tuple[str, ...]) -> str:
    return f"{path_text(path)}: expected {schema['type']}, got {go_value(value)}"
