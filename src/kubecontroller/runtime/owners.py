"""Owner references: which object owns another, for lookup and garbage collection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from kubecontroller.client.api import Client
from kubecontroller.client.errors import Conflict, KubeError, NotFound
from kubecontroller.client.meta import (
    HasMetadata,
    Key,
    Manifest,
    ObjectMeta,
    Ref,
    controller_of,
    meta_of,
)
from kubecontroller.client.patches import JsonPatch
from kubecontroller.client.scheme import Kind

__all__ = [
    "NotOwned",
    "adopt",
    "adoption_limitation",
    "control_limitation",
    "owned",
    "owner_reference",
    "ownership_limitation",
    "write_own",
]

T = TypeVar("T")
R = TypeVar("R")
_TRIES = 5
_LIVE_SECONDS = 10.0


class NotOwned(KubeError):  # noqa: N818 - the state of affairs
    """An object of that name has another owner or none; it is not changed."""

    def __init__(self, ref: Ref, limitation: str) -> None:
        super().__init__(f"{ref} {limitation}")
        self.ref = ref
        self.limitation = limitation


def owner_reference(
    kind: Kind[Any], owner: HasMetadata | Mapping[str, Any], *, controller: bool = True
) -> Manifest:
    """Return the owner reference to an object; one owner controls, others may own."""
    meta = meta_of(owner)
    if not meta.uid:
        raise ValueError(f"{kind.ref(meta.key)} has no uid: only an object read back can own")
    reference: Manifest = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": meta.name,
        "uid": meta.uid,
    }
    if controller:
        reference |= {"controller": True, "blockOwnerDeletion": True}
    return reference


def ownership_limitation(
    kind: Kind[Any], owner: HasMetadata | Mapping[str, Any], child: Mapping[str, Any]
) -> str | None:
    """Return why the owner cannot own the child, or nothing.

    Owners are in the child's namespace or cluster-scoped; a child has one controller.
    """
    meta, child_meta = meta_of(owner), meta_of(child)
    if kind.namespaced and meta.namespace != child_meta.namespace:
        place = child_meta.namespace or "no namespace"
        return (
            f"the owner is in {meta.namespace}, the child in {place}:"
            " an owner must be in the namespace of its child"
        )
    holder = controller_of(child_meta)
    if holder is not None and holder.uid != meta.uid:
        return f"it is controlled by {holder.kind} {holder.name} already"
    return None


def owned(
    kind: Kind[Any], owner: HasMetadata | Mapping[str, Any], child: Mapping[str, Any]
) -> Manifest:
    """Return the child with the owner as its controller.

    Errors: `ValueError` with the limitation.
    """
    limitation = ownership_limitation(kind, owner, child)
    if limitation is not None:
        raise ValueError(f"{meta_of(child).name}: {limitation}")
    metadata = dict(child.get("metadata") or {})
    uid = meta_of(owner).uid
    others = [r for r in metadata.get("ownerReferences") or () if r.get("uid") != uid]
    metadata["ownerReferences"] = [*others, owner_reference(kind, owner)]
    return {**child, "metadata": metadata}


def adoption_limitation(
    owner: ObjectMeta, live: ObjectMeta | None, orphan: ObjectMeta
) -> str | None:
    """Return why an orphan must not be adopted, or nothing.

    `live` is the owner read from the API just now: a cache may hold an owner that was deleted and
    created again; the garbage collector would delete a child adopted for the old one.
    """
    if live is None:
        return "the owner is gone"
    if live.uid != owner.uid:
        return "the owner is another object of the same name now"
    if live.is_deleting:
        return "the owner is being deleted"
    if orphan.is_deleting:
        return "it is being deleted"
    if controller_of(orphan) is not None:
        return "it has a controller"
    return None


def control_limitation(owner: ObjectMeta, found: ObjectMeta) -> str | None:
    """Return why the owner may not change an existing object, or nothing if it controls it."""
    holder = controller_of(found)
    if holder is None:
        return "exists already, and no owner controls it: delete it, or choose another name"
    if holder.uid == owner.uid:
        return None
    return f"exists already and is controlled by {holder.kind} {holder.name}: choose another name"


async def write_own(
    client: Client,
    kind: Kind[T],
    key: Key,
    *,
    observed: T | None,
    limitation: Callable[[ObjectMeta], str | None],
    write: Callable[[T | None], Awaitable[R]],
) -> R | None:
    """Create or change an object that the owner must own; nothing while it is being deleted.

    An object that is not in the cache is read from the API: it may lack the label that the cache
    selects, or have another owner. `limitation` says why an existing object may not be changed.
    `write` gets the existing object, and is called again when that changed meanwhile.

    Errors: `NotOwned` with the limitation; `Conflict` when the object keeps changing.
    """
    found = observed if observed is not None else await _live(client, kind, key)
    tries = _TRIES
    while True:
        if found is not None:
            meta = meta_of(found)  # type: ignore[arg-type]  # an object of the API
            reason = limitation(meta)
            if reason is not None:
                raise NotOwned(kind.ref(key), reason)
            if meta.is_deleting:
                return None  # its deletion is reported as an event
        try:
            return await write(found)
        except Conflict:
            tries -= 1
            if not tries:
                raise
            found = await _live(client, kind, key)


async def _live(client: Client, kind: Kind[T], key: Key) -> T | None:
    try:
        return await client.get(kind, key, timeout=_LIVE_SECONDS)
    except NotFound:
        return None


async def adopt(
    client: Client,
    kind: Kind[Any],
    owner: HasMetadata | Mapping[str, Any],
    child_kind: Kind[Any],
    orphan: HasMetadata | Mapping[str, Any],
) -> str | None:
    """Set the owner of an orphan after a live read of the owner; why not, or nothing if done.

    Errors: `Conflict` or `Invalid` when the orphan changed meanwhile.
    """
    meta, orphan_meta = meta_of(owner), meta_of(orphan)
    try:
        live = meta_of(await client.get(kind, meta.key))
    except NotFound:
        live = None
    limitation = adoption_limitation(meta, live, orphan_meta)
    if limitation is not None:
        return limitation
    reference = owner_reference(kind, owner)
    add = (
        {"op": "add", "path": "/metadata/ownerReferences/-", "value": reference}
        if orphan_meta.owner_references
        else {"op": "add", "path": "/metadata/ownerReferences", "value": [reference]}
    )
    same = {"op": "test", "path": "/metadata/uid", "value": orphan_meta.uid}
    version = {
        "op": "test",
        "path": "/metadata/resourceVersion",
        "value": orphan_meta.resource_version,
    }
    await client.patch(child_kind, orphan_meta.key, JsonPatch([same, version, add]))
    return None
