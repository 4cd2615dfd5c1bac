"""The metadata of objects: what clients may set, and what the server sets."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from kubelocal.apiserver.errors import bad_request
from kubelocal.apiserver.storage.entries import Object

__all__ = [
    "check_shape",
    "fill_new",
    "generate_name",
    "keep_identity",
    "new_uid",
    "prune_metadata",
    "timestamp",
]

_FIELDS: dict[str, type] = {
    "name": str,
    "generateName": str,
    "namespace": str,
    "selfLink": str,
    "uid": str,
    "resourceVersion": str,
    "generation": int,
    "creationTimestamp": str,
    "deletionTimestamp": str,
    "deletionGracePeriodSeconds": int,
    "labels": dict,
    "annotations": dict,
    "ownerReferences": list,
    "finalizers": list,
    "managedFields": list,
}
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_LONGEST_BASE = 58
_NAMES = {str: "string", bool: "boolean", int: "number", float: "number"}
_NAMES |= {dict: "object", list: "array"}

Bits = Callable[[int], int]
"""The source of randomness: a function from a number of bits to that many random bits."""


def timestamp(now: datetime) -> str:
    """Format an instant as in objects."""
    return f"{now.isoformat()[:19]}Z"


def new_uid(bits: Bits) -> str:
    """Return a random UUID."""
    number = bits(128)
    number = (number & ~(0xF << 76)) | (4 << 76)
    number = (number & ~(0x3 << 62)) | (2 << 62)
    text = f"{number:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def generate_name(base: str, bits: Bits) -> str:
    """Return a new name with this prefix."""
    suffix = "".join(_ALPHABET[bits(32) % len(_ALPHABET)] for _ in range(5))
    return base[:_LONGEST_BASE] + suffix


def check_shape(kind: str, version: str, value: Object) -> None:
    """Refuse metadata with values of wrong types."""
    metadata = value.get("metadata")
    if metadata is None:
        value["metadata"] = {}
        return
    if not isinstance(metadata, dict):
        raise _mistyped(kind, version, "metadata", metadata, dict)
    for key in list(metadata):
        item = metadata[key]
        if item is None:
            del metadata[key]
        elif key in _FIELDS and not _is(item, _FIELDS[key]):
            raise _mistyped(kind, version, f"metadata.{key}", item, _FIELDS[key])
    _check_inside(kind, version, metadata)


def _is(item: Any, wanted: type) -> bool:
    return isinstance(item, wanted) and not (wanted is int and isinstance(item, bool))


def _check_inside(kind: str, version: str, metadata: dict[str, Any]) -> None:
    for key in ("labels", "annotations"):
        pairs = metadata.get(key, {})
        for name, text in list(pairs.items()):
            if text is None:
                pairs[name] = ""
            elif not isinstance(text, str):
                raise _mistyped(kind, version, f"metadata.{key}", text, str)
    for text in metadata.get("finalizers", ()):
        if not isinstance(text, str):
            raise _mistyped(kind, version, "metadata.finalizers", text, str)
    for owner in metadata.get("ownerReferences", ()):
        if not isinstance(owner, dict):
            raise _mistyped(kind, version, "metadata.ownerReferences", owner, dict)


def _mistyped(kind: str, version: str, field: str, item: Any, wanted: type) -> Exception:
    return bad_request(
        f'{kind} in version "{version}" cannot be handled as a {kind}: {field}: expected'
        f" {_NAMES[wanted]}, got {_NAMES.get(type(item), 'null')}"
    )


def prune_metadata(metadata: dict[str, Any]) -> list[str]:
    """Drop unknown fields of metadata; return their names."""
    dropped = [key for key in metadata if key not in _FIELDS]
    for key in dropped:
        del metadata[key]
    return [f"metadata.{key}" for key in dropped]


def tidy(metadata: dict[str, Any]) -> None:
    """Drop empty fields, so that equal objects are equal."""
    for key in ("labels", "annotations", "ownerReferences", "finalizers"):
        if key in metadata and not metadata[key]:
            del metadata[key]
    for key in ("selfLink", "generateName", "resourceVersion", "namespace", "uid"):
        if key in metadata and not metadata[key]:
            del metadata[key]


def fill_new(metadata: dict[str, Any], *, now: datetime, bits: Bits) -> None:
    """Set the identity of a new object."""
    for key in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
        metadata.pop(key, None)
    metadata["uid"] = new_uid(bits)
    metadata["creationTimestamp"] = timestamp(now)


def keep_identity(new: dict[str, Any], old: dict[str, Any]) -> None:
    """Keep the identity and the deletion of an object on update."""
    for key in (
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generateName",
        "selfLink",
        "generation",
    ):
        if key in old:
            new[key] = old[key]
        else:
            new.pop(key, None)
