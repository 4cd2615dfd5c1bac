"""Checks of CustomResourceDefinitions beyond single fields."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kubelocal.apiserver.causes import Cause, invalid, not_supported, required
from kubelocal.apiserver.custom.cel.cost import cost_problems
from kubelocal.apiserver.custom.cel.rules import compile_rules
from kubelocal.apiserver.custom.validation import go_pattern
from kubelocal.apiserver.objects.validation.checks import CHECKS, Object, find, immutable

__all__ = ["check_definition"]

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_COMBINATIONS = ("allOf", "anyOf", "oneOf", "not")
_UNTYPED = ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-int-or-string")


def check_definition(crd: Object, old: Object | None) -> Iterator[Cause]:
    """Check a definition: its name, its versions and their schemas, and forbidden changes."""
    spec, metadata = crd.get("spec") or {}, crd.get("metadata") or {}
    names, group = spec.get("names") or {}, spec.get("group", "")
    if metadata.get("name") != f"{names.get('plural', '')}.{group}":
        text = 'must be spec.names.plural+"."+spec.group'
        yield invalid("metadata.name", metadata.get("name", ""), text)
    yield from _check_versions(spec, old)
    if old is not None:
        yield from _check_change(spec, old)


def _check_versions(spec: Object, old: Object | None) -> Iterator[Cause]:
    versions = spec.get("versions") or []
    stored = [version.get("name", "") for version in versions if version.get("storage")]
    if len(stored) != 1:
        text = "must have exactly one version marked as storage version"
        yield invalid("spec.versions", stored, text)
    before = ((old or {}).get("spec") or {}).get("versions") or ()
    known = {version["name"]: version.get("schema") for version in before}
    for index, version in enumerate(versions):
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        path = f"spec.versions[{index}].schema.openAPIV3Schema"
        if not schema:
            yield required(path)
            continue
        if known.get(version.get("name")) == version["schema"]:
            continue  # it was checked when it was new
        found = list(_structure(schema, path)) or compile_rules(schema, at=path)
        yield from found or cost_problems(schema, path)


def _structure(schema: Object, path: str) -> Iterator[Cause]:
    """Check what the server relies on: types of values, items and keys of lists, patterns."""
    kind, is_map = schema.get("type", ""), schema.get("x-kubernetes-list-type") == "map"
    if kind and kind not in _TYPES:
        yield not_supported(f"{path}.type", kind, _TYPES)
    elif not kind and not any(schema.get(word) for word in _UNTYPED):
        yield required(f"{path}.type", "must not be empty")
    if kind == "array" and not isinstance(schema.get("items"), dict):
        yield required(f"{path}.items", "must be specified")
    if is_map and not schema.get("x-kubernetes-list-map-keys"):
        yield required(f"{path}.x-kubernetes-list-map-keys", "must not be empty for a map")
    yield from _pattern(schema, path)
    for sub, place in _below(schema, path):
        yield from _structure(sub, place)


def _below(schema: Object, path: str) -> Iterator[tuple[Object, str]]:
    for name, sub in (schema.get("properties") or {}).items():
        yield sub, f"{path}.properties[{name}]"
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            yield schema[word], f"{path}.{word}"


def _pattern(schema: Object, path: str, *, is_nested: bool = False) -> Iterator[Cause]:
    """Check that patterns compile, also in combinations, whose parts need no type."""
    try:
        go_pattern(schema.get("pattern", ""))
    except re.error as error:
        yield invalid(f"{path}.pattern", schema["pattern"], f"does not compile: {error}")
    for word in _COMBINATIONS:
        given = schema.get(word) or []
        for sub in given if isinstance(given, list) else [given]:
            yield from _pattern(sub, f"{path}.{word}", is_nested=True)
    for sub, place in _below(schema, path) if is_nested else ():
        yield from _pattern(sub, place, is_nested=True)


def _check_change(spec: Object, old: Object) -> Iterator[Cause]:
    """Once names are accepted, group, kind, scope and plural stay."""
    before, conditions = old.get("spec") or {}, (old.get("status") or {}).get("conditions") or ()
    names, old_names = spec.get("names") or {}, before.get("names") or {}
    yield from immutable("spec.group", spec.get("group"), before.get("group"))
    yield from immutable("spec.names.plural", names.get("plural"), old_names.get("plural"))
    if any(one.get("type") == "Established" and one.get("status") == "True" for one in conditions):
        yield from immutable("spec.scope", spec.get("scope"), before.get("scope"))
        yield from immutable("spec.names.kind", names.get("kind"), old_names.get("kind"))


def _group(path: str, group: str) -> Iterator[Cause]:
    yield from find("subdomain", path, group)
    if "." not in group:
        yield invalid(path, group, "should be a domain with at least one dot")


def _mixed_case(path: str, value: str) -> Iterator[Cause]:
    return find("name", path, value.lower())


def _path_under(root: str) -> Any:
    def check(path: str, value: str) -> Iterator[Cause]:
        if not value.startswith(f"{root}."):
            yield invalid(path, value, f"should be a json path under {root}")

    return check


CHECKS |= {
    "group": _group,
    "mixed case": _mixed_case,
    "spec path": _path_under(".spec"),
    "status path": _path_under(".status"),
}
