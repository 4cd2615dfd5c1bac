"""What every Kubernetes object has: metadata, owners, conditions, and how objects are named.

Values only. Structs here are projections: they hold the fields that an operator uses and drop the
rest, which is why they are read from the API and never written back to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, Protocol, TypeAlias, cast

import msgspec
from msgspec import UNSET, Struct, UnsetType

__all__ = [
    "Condition",
    "HasMetadata",
    "Key",
    "ListMeta",
    "Manifest",
    "ObjectMeta",
    "OwnerReference",
    "Part",
    "Projected",
    "Ref",
    "controller_of",
    "find_condition",
    "is_at_least",
    "key_of",
    "meta_of",
    "parse_version",
]

Key: TypeAlias = tuple[str, str]
"""Namespace and name; the namespace of a cluster-scoped object is the empty string."""

Manifest: TypeAlias = dict[str, Any]
"""A whole object as plain JSON values: what may be written to the API."""


class OwnerReference(Struct, frozen=True, gc=False, rename="camel"):
    """The owner of an object; garbage collection deletes the object after its owner."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None

    @property
    def group(self) -> str:
        """The API group, without the version: owners are matched by group and kind."""
        group, slash, _ = self.api_version.partition("/")
        return group if slash else ""


class ObjectMeta(Struct, frozen=True, gc=False, rename="camel"):
    """The metadata of one object, without managedFields."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: Mapping[str, str] | None = None
    annotations: Mapping[str, str] | None = None
    owner_references: tuple[OwnerReference, ...] | None = None
    finalizers: tuple[str, ...] | None = None
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    generate_name: str = ""

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return (self.namespace, self.name)

    @property
    def is_deleting(self) -> bool:
        """Whether deletion has begun; finalizers or a grace period may still keep the object."""
        return self.deletion_timestamp is not None

    def label(self, name: str, default: str = "") -> str:
        """Return a label's value."""
        return self.labels.get(name, default) if self.labels else default

    def annotation(self, name: str, default: str = "") -> str:
        """Return an annotation's value."""
        return self.annotations.get(name, default) if self.annotations else default


class ListMeta(Struct, frozen=True, gc=False, rename="camel"):
    """The metadata of a list: its resourceVersion, and the token of its next page."""

    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")
    remaining_item_count: int | None = None


class Condition(Struct, frozen=True, gc=False, rename="camel"):
    """One observation about an object, as `True`, `False` or `Unknown`."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    observed_generation: int = 0
    last_transition_time: datetime | None = None

    @property
    def is_true(self) -> bool:
        """Whether the status is `True`; `Unknown` is not."""
        return self.status == "True"


class Projected(Struct, frozen=True, gc=False, rename="camel", kw_only=True):
    """The base of object types that keep only some fields of their kind."""

    metadata: ObjectMeta = ObjectMeta()


class Part(Struct, frozen=True, gc=False, rename="camel"):
    """The base of the types of object fields."""


class HasMetadata(Protocol):
    """An object whose metadata is an attribute."""

    @property
    def metadata(self) -> ObjectMeta:
        """The object's metadata."""
        ...


class Ref(Struct, frozen=True):
    """An object's full name for messages and log lines."""

    kind: str
    namespace: str = ""
    name: str = ""

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return (self.namespace, self.name)

    def __str__(self) -> str:
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {place}" if place else self.kind


class _OnlyMeta(Struct, frozen=True):
    metadata: ObjectMeta | UnsetType | None = UNSET


_EMPTY: Final = ObjectMeta()
_MOST_DIGITS: Final = 4000


def meta_of(obj: HasMetadata | Mapping[str, Any]) -> ObjectMeta:
    """Return an object's metadata, from a Struct or a plain value."""
    if isinstance(obj, Projected):  # first, because it is the quickest test and the usual case
        return obj.metadata
    if type(obj) is dict or isinstance(obj, Mapping):  # a test of an abstract class is slow
        found = msgspec.convert(obj, _OnlyMeta).metadata
        return found if isinstance(found, ObjectMeta) else _EMPTY
    return obj.metadata


def key_of(obj: HasMetadata | Mapping[str, Any]) -> Key:
    """Return an object's namespace and name, cheaply."""
    if type(obj) is dict or isinstance(obj, Mapping):
        meta = cast("Mapping[str, str]", obj.get("metadata") or {})
        return (meta.get("namespace", ""), meta.get("name", ""))
    return obj.metadata.key


def controller_of(meta: ObjectMeta) -> OwnerReference | None:
    """Return the one owner that controls the object, if any."""
    for owner in meta.owner_references or ():
        if owner.controller:
            return owner
    return None


def find_condition(conditions: tuple[Condition, ...] | None, kind: str) -> Condition | None:
    """Return the condition of that type; absent is not the same as false."""
    for condition in conditions or ():
        if condition.type == kind:
            return condition
    return None


def parse_version(text: str) -> int | None:
    """Return a resourceVersion as a number, or nothing when it is not comparable.

    Comparable versions are positive decimals without leading zeros. Python converts no number of
    more than 4,300 digits; servers use twenty at most.
    """
    if len(text) <= _MOST_DIGITS and text.isascii() and text.isdigit() and text[0] != "0":
        return int(text)
    return None


def is_at_least(version: str, wanted: str) -> bool | None:
    """Return whether one resourceVersion is as new as another of the same resource.

    Nothing when either cannot be compared: the caller decides what that means.
    """
    left, right = parse_version(version), parse_version(wanted)
    if left is None or right is None:
        return None
    return left >= right
