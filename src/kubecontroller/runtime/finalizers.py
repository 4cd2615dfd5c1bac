"""Finalizers: work that must be done before an object may be deleted.

The order that never leaves anything behind: add the finalizer *by itself* before creating what
has to be cleaned up; when the object is being deleted, clean up first and remove the finalizer
last. Both are JSON patches that test what they assume, so that a finalizer that another client
changed meanwhile is never lost. `Finalizer` keeps that order around a reconcile.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, TypeVar

from kubecontroller.client.api import Client
from kubecontroller.client.errors import Conflict, Invalid, NotFound
from kubecontroller.client.meta import HasMetadata, Key, ObjectMeta, meta_of
from kubecontroller.client.patches import JsonPatch
from kubecontroller.client.scheme import Kind
from kubecontroller.runtime.outcomes import Done, Outcome

__all__ = ["Finalizer", "add_finalizer", "has_finalizer", "remove_finalizer"]

_TRIES = 3
T = TypeVar("T")


def has_finalizer(obj: HasMetadata | Mapping[str, Any], name: str) -> bool:
    """Whether an object has this finalizer."""
    return name in (meta_of(obj).finalizers or ())


async def add_finalizer(
    client: Client, kind: Kind[Any], obj: HasMetadata | Mapping[str, Any], name: str
) -> bool:
    """Add a finalizer, unless the object has it or is being deleted; whether it was added.

    Errors: `Conflict` or `Invalid` when the object changed meanwhile: read it again, decide again.
    `NotFound` when it is gone: there is nothing to protect, and nothing may be created for it.
    """
    meta = meta_of(obj)
    if meta.is_deleting or name in (meta.finalizers or ()):
        return False
    operations: list[dict[str, Any]] = [_same_version(meta)]
    if meta.finalizers:
        operations.append({"op": "add", "path": "/metadata/finalizers/-", "value": name})
    else:
        operations.append({"op": "add", "path": "/metadata/finalizers", "value": [name]})
    await client.patch(kind, meta.key, JsonPatch(operations))
    return True


async def remove_finalizer(
    client: Client, kind: Kind[Any], obj: HasMetadata | Mapping[str, Any], name: str
) -> bool:
    """Remove a finalizer; whether this call did it. An object that is gone is not an error.

    When the object changed meanwhile it is read again; it must still be the same one, by uid.

    Errors: `Conflict` when it keeps changing; `Invalid` when it is refused as it stands.
    """
    meta = meta_of(obj)
    for _ in range(_TRIES):
        if name not in (meta.finalizers or ()):
            return False
        try:
            await client.patch(kind, meta.key, JsonPatch(_removal(meta, name)))
        except NotFound:
            return False
        except (Conflict, Invalid) as refusal:
            fresh = await _fresh(client, kind, meta.key)
            if fresh is None or fresh.uid != meta.uid:
                return False
            if isinstance(refusal, Invalid) and fresh.resource_version == meta.resource_version:
                raise  # it did not change: an admission rule refuses the removal
            meta = fresh
        else:
            return True
    raise Conflict(
        f"the finalizer {name} could not be removed: the object keeps changing",
        status=409,
        reason="Conflict",
        ref=str(kind.ref(meta.key)),
    )


class Finalizer(Generic[T]):
    """A finalizer around the reconcile of one kind: it is added before, and removed after.

    Guarantees: `follow` runs only for objects that have the finalizer and are not being deleted;
    `clean_up` runs only for an object that is being deleted now according to the API server, with
    the uid that was observed, however old the cache is; the finalizer is removed only after it.
    """

    def __init__(self, client: Client, kind: Kind[T], name: str) -> None:
        self._client, self._kind, self.name = client, kind, name

    async def around(
        self,
        obj: HasMetadata | Mapping[str, Any],
        *,
        follow: Callable[[], Awaitable[Outcome]],
        clean_up: Callable[[T], Awaitable[Outcome | None]],
    ) -> Outcome:
        """Reconcile an object, or clean up after it.

        `clean_up` returns nothing once everything is clean, and the object may be deleted; an
        outcome keeps it: `Again` to check later, `Done` to wait for a change.

        Errors: those of `add_finalizer`, `remove_finalizer` and the two functions.
        """
        meta = meta_of(obj)
        if not meta.is_deleting:
            if await add_finalizer(self._client, self._kind, obj, self.name):
                return Done()  # the change is reported as an event
            return await follow()
        if not has_finalizer(obj, self.name):
            return Done()
        try:
            live = await self._client.get(self._kind, meta.key)
        except NotFound:
            return Done()
        found = meta_of(live)  # type: ignore[arg-type]  # T has metadata, as kinds have
        if found.uid != meta.uid or not found.is_deleting:
            return Done()
        outcome = await clean_up(live)
        if outcome is not None:
            return outcome
        await remove_finalizer(self._client, self._kind, live, self.name)  # type: ignore[arg-type]
        return Done()


def _removal(meta: ObjectMeta, name: str) -> list[dict[str, Any]]:
    present = list(meta.finalizers or ())
    place = present.index(name)
    return [
        _same_version(meta),
        {"op": "test", "path": f"/metadata/finalizers/{place}", "value": name},
        {"op": "remove", "path": f"/metadata/finalizers/{place}"},
    ]


def _same_version(meta: ObjectMeta) -> dict[str, Any]:
    return {"op": "test", "path": "/metadata/resourceVersion", "value": meta.resource_version}


async def _fresh(client: Client, kind: Kind[Any], key: Key) -> ObjectMeta | None:
    try:
        return meta_of(await client.get(kind, key))
    except NotFound:
        return None
