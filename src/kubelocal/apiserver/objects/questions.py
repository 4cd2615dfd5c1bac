"""What a kind has beyond its row in the table: its schema, defaults and own rules.

Built-in and custom resources have the same functions here, so that the write path is the same for
both.
"""

from __future__ import annotations

from kubelocal.apiserver.causes import Cause, invalid
from kubelocal.apiserver.custom.cel.rules import find_violations
from kubelocal.apiserver.custom.schema import Schema, apply_defaults, prune
from kubelocal.apiserver.kinds.filling import default
from kubelocal.apiserver.kinds.schemas import schema_of
from kubelocal.apiserver.kinds.table import Resource
from kubelocal.apiserver.objects.prepare import prepare
from kubelocal.apiserver.objects.validation.kinds import problems
from kubelocal.apiserver.storage.entries import Object, value_at

__all__ = ["complete", "drop_unknown", "fill_defaults", "find_problems", "schema_for"]


def schema_for(resource: Resource) -> Schema:
    """Return the structural schema of a resource."""
    if resource.custom is not None:
        return resource.custom.schema
    return schema_of(resource.group, resource.version, resource.kind)


def drop_unknown(resource: Resource, value: Object) -> list[str]:
    """Drop fields that the schema does not know; return their paths."""
    return prune(schema_for(resource), value)


def fill_defaults(resource: Resource, value: Object) -> None:
    """Set defaults; the writer owns them."""
    if resource.custom is not None:
        apply_defaults(resource.custom.schema, value)
    else:
        default(resource.group, resource.kind, value)


def complete(resource: Resource, value: Object) -> None:
    """Set the fields of a new object that the server sets and no field manager owns."""
    if resource.custom is None:
        prepare(resource.group, resource.kind, value)


def find_problems(resource: Resource, value: Object, old: Object | None) -> list[Cause]:
    """Return every rule of the kind that an object violates."""
    if resource.custom is None:
        return problems(resource.group, resource.kind, value, old)
    found = find_violations(resource.custom.schema, value, old)
    for path in (resource.custom.scale or {}).values():
        replicas = value_at(value, str(path).lstrip("."))
        if isinstance(replicas, int) and replicas < 0:
            found.append(invalid(str(path), replicas, "should be a non-negative integer"))
    return found
