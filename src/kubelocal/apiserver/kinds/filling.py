"""Brings an object of a built-in kind into the form that Go would write, with defaults.

Nulls and empty optional fields are dropped, structs are added, quantities get their canonical form,
and each definition gets its defaults. A schema is prepared once as a `_Plan` that names only what
may have to be done, so that a walk touches little of an object that has that form already.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubelocal.apiserver.kinds.defaults import DEFAULTS, SPECIAL
from kubelocal.apiserver.kinds.quantities import canonical_quantity
from kubelocal.apiserver.kinds.schemas import schema_of

__all__ = ["default", "writable"]

_EMPTY: tuple[Any, ...] = ("", 0, [], {}, None)
_NOTHING: Any = object()


class _Plan:
    """The work for values of one schema."""

    __slots__ = (
        "absent",
        "children",
        "defaults",
        "is_text_map",
        "items",
        "known",
        "omitted",
        "quantity",
        "replaced",
        "rest",
        "special",
    )

    def __init__(self, schema: dict[str, Any]) -> None:
        properties: dict[str, Any] = schema.get("properties", {})
        rest = schema.get("additionalProperties")
        name = schema.get("x-definition", "")
        self.quantity = bool(schema.get("x-quantity"))
        self.known = frozenset(properties)
        self.absent = {
            field: written
            for field, sub in properties.items()
            if (written := _written(sub)) is not _NOTHING
        }
        self.omitted = frozenset(
            field
            for field, sub in properties.items()
            if sub.get("x-omit-empty") and not _is_struct(sub) and field != "managedFields"
        )
        self.replaced = {
            field: sub["default"]
            for field, sub in properties.items()
            if sub.get("default") not in _EMPTY and field not in self.omitted
        }
        self.defaults = tuple(
            (field, default, "default" in properties[field] or field in self.omitted)
            for field, default in DEFAULTS.get(name, {}).items()
        )
        self.special: Callable[[dict[str, Any]], None] | None = SPECIAL.get(name)
        self.is_text_map = isinstance(rest, dict) and rest.get("type") == "string"
        self.children: dict[str, _Plan] = {}
        self.rest: _Plan | None = None
        self.items: _Plan | None = None

    def link(self, schema: dict[str, Any]) -> None:
        """Add the plans of the parts below; a plan may be below itself."""
        for field, sub in schema.get("properties", {}).items():
            below = _plan(sub)
            if below is not None:
                self.children[field] = below
        if isinstance(schema.get("additionalProperties"), dict):
            self.rest = _plan(schema["additionalProperties"])
        if isinstance(schema.get("items"), dict):
            self.items = _plan(schema["items"])


_plans: dict[int, tuple[dict[str, Any], _Plan | None]] = {}
"""By the identity of schemas, which are kept alive here."""


def _plan(schema: dict[str, Any]) -> _Plan | None:
    """Return the plan of a schema; there is none where there is never any work."""
    found = _plans.get(id(schema))
    if found is not None:
        return found[1]
    if schema.get("x-kubernetes-preserve-unknown-fields") and not schema.get("x-quantity"):
        _plans[id(schema)] = (schema, None)
        return None
    if not any(word in schema for word in ("properties", "additionalProperties", "items")):
        plan = _Plan(schema) if schema.get("x-quantity") else None
        _plans[id(schema)] = (schema, plan)
        return plan
    made = _Plan(schema)
    _plans[id(schema)] = (schema, made)
    made.link(schema)
    return made


def _is_struct(schema: dict[str, Any]) -> bool:
    return schema.get("default") == {} and "properties" in schema


def _written(schema: dict[str, Any]) -> Any:
    """Return what Go always writes for a field that is not set, if anything."""
    if schema.get("x-write-null"):
        return None
    if "default" in schema and not isinstance(schema["default"], dict):
        return schema["default"]
    return {} if _is_struct(schema) else _NOTHING


def default(group: str, kind: str, document: dict[str, Any]) -> None:
    """Set the defaults of Kubernetes' Go code in place; unserved kinds are not changed."""
    try:
        schema = schema_of(group, "v1", kind)
    except KeyError:
        return
    plan = _plan(schema)
    if plan is not None:
        _fill(plan, document)


def writable(schema: dict[str, Any], value: dict[str, Any]) -> None:
    """Drop nulls and empty optional fields of an object; add the fields that Go always writes."""
    plan = _plan(schema)
    if plan is not None:
        _write(plan, value)


def _fill(plan: _Plan, value: Any) -> Any:
    if plan.quantity:
        return canonical_quantity(str(value)) if isinstance(value, str | int | float) else value
    if isinstance(value, dict):
        _fill_object(plan, value)
    elif isinstance(value, list) and plan.items is not None:
        items = plan.items
        value[:] = [_fill(items, item) for item in value]
    return value


def _fill_object(plan: _Plan, value: dict[str, Any]) -> None:
    _write(plan, value)
    for field, default, is_unset in plan.defaults:
        if value.get(field) in (None, "") and (field not in value or is_unset):
            value[field] = dict(default) if isinstance(default, dict) else default
    children, rest = plan.children, plan.rest
    for field, item in value.items():
        if item is None:
            if plan.is_text_map:
                value[field] = ""
            continue
        below = children.get(field)
        if below is None and rest is not None and field not in plan.known:
            below = rest
        if below is not None:
            value[field] = _fill(below, item)
    if plan.special is not None:
        plan.special(value)


def _write(plan: _Plan, value: dict[str, Any]) -> None:
    idle: list[str] = []
    for field, item in value.items():
        if item:
            continue
        if item is None:
            if field in plan.known and field not in plan.absent:
                idle.append(field)
        elif field in plan.omitted:
            idle.append(field)
        elif item == "" and field in plan.replaced:
            value[field] = plan.replaced[field]
    for field, written in plan.absent.items():
        if value.get(field) is None:
            value[field] = {} if written == {} else written
    for field in idle:
        del value[field]
