"""The metadata of objects: what clients may set, and what the server sets."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

__all__ = [
    "fill_new",
    "generate_name",
    "keep_identity",
    "new_uid",
    "timestamp",
]

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_LONGEST_BASE = 58

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
