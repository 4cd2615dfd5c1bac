"""The view of the caches that a controller gets, and the changes that it may return.

Objects are plain JSON values as the API server holds them. A controller never changes one of them;
it builds a changed copy.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Protocol, TypeAlias

from msgspec import Struct

from kubelocal.apiserver.kinds.selectors import matches, selector_of

__all__ = [
    "Bind",
    "Change",
    "Changes",
    "Create",
    "Delete",
    "Obj",
    "Update",
    "UpdateStatus",
    "View",
    "controller_of",
    "controller_reference",
    "edited",
    "labels_match",
    "parse_time",
    "timestamp",
]

Obj: TypeAlias = dict[str, Any]


class View(Protocol):
    """A read-only view of the caches, by resource name (plural)."""

    def get(self, resource: str, namespace: str, name: str) -> Obj | None:
        """Return one object, or None when there is none."""

    def list(self, resource: str, namespace: str | None = None) -> Sequence[Obj]:
        """Return all objects of a resource, of one namespace or of all."""

    def owned(self, resource: str, uid: str) -> Sequence[Obj]:
        """Return the objects of a resource that name this uid among their owners."""


class Create(Struct, frozen=True):
    """Create an object. Existing already is fine: names are deterministic or generated."""

    resource: str
    obj: Obj


class Update(Struct, frozen=True):
    """Replace an object; refused if it changed since it was seen (by resourceVersion)."""

    resource: str
    obj: Obj


class UpdateStatus(Struct, frozen=True):
    """Replace an object's status; refused if the object changed since it was seen."""

    resource: str
    obj: Obj


class Delete(Struct, frozen=True):
    """Delete exactly the object with this uid."""

    resource: str
    namespace: str
    name: str
    uid: str
    grace_seconds: int | None = None


class Bind(Struct, frozen=True):
    """Bind a pod to a node."""

    namespace: str
    name: str
    uid: str
    node: str


Change: TypeAlias = Create | Update | UpdateStatus | Delete | Bind


class Changes(Struct, frozen=True):
    """The changes to make now, and when to run again (None: on the next event)."""

    steps: tuple[Change, ...] = ()
    again_after: float | None = None


def edited(obj: Obj) -> Obj:
    """Return a copy that may be changed."""
    return copy.deepcopy(obj)


def controller_of(obj: Obj) -> Obj | None:
    """Return the owner reference of the object's controller, if it has one."""
    for reference in obj["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            return dict(reference)
    return None


def controller_reference(owner: Obj) -> Obj:
    """Return the owner reference of a child to its controller."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def labels_match(selector: Obj | None, labels: Obj | None) -> bool:
    """Return whether labels satisfy a LabelSelector (matchLabels and matchExpressions)."""
    if selector is None:
        return False
    have = labels or {}
    if any(have.get(k) != v for k, v in (selector.get("matchLabels") or {}).items()):
        return False
    rest = selector.get("matchExpressions")
    return not rest or matches(selector_of({"matchExpressions": rest}) or (), have)


def timestamp(now: datetime) -> str:
    """Format an instant as Kubernetes does, in whole seconds."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: str) -> datetime:
    """Parse an instant of Kubernetes, with or without fractions."""
    return datetime.fromisoformat(text)
