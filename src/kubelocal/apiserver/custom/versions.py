"""Custom resources at another version than the one they are kept in: the None conversion.

Only `apiVersion` changes; then the schema of the version asked for prunes and defaults, which
also brings objects written under an earlier schema of the same version up to date.
"""

from __future__ import annotations

from kubelocal.apiserver.custom.schema import apply_defaults, prune
from kubelocal.apiserver.kinds.table import Resource
from kubelocal.apiserver.storage.entries import Object, decode, encode

__all__ = ["at_version", "convert"]


def at_version(resource: Resource, body: bytes) -> bytes:
    """Return a stored body as this version of the resource shows it."""
    if resource.custom is None or not resource.custom.rereads:
        return body
    return encode(convert(resource, decode(body)))


def convert(resource: Resource, value: Object) -> Object:
    """Return a stored object as this version of the resource shows it; changes it in place."""
    if resource.custom is not None and resource.custom.rereads:
        value["apiVersion"] = resource.api_version
        prune(resource.custom.schema, value)
        apply_defaults(resource.custom.schema, value)
    return value
