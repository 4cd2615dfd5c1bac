"""Server-side apply that sends nothing when nothing changed.

The intent is stamped with its own hash. Applied objects are remembered by key: each process applies
each object once, which reverts edits made while no process ran (an apply that changes nothing is
not a write), and from then on only when something changed. `client.apply` holds the pure parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from kubecontroller.client.api import Client
from kubecontroller.client.apply import Applied, applied, apply_reason, stamped
from kubecontroller.client.errors import ServerError
from kubecontroller.client.meta import HasMetadata, Key, ObjectMeta, key_of, meta_of
from kubecontroller.client.scheme import Kind
from kubecontroller.runtime.consistency import Consistency
from kubecontroller.runtime.owners import control_limitation, owned, write_own
from kubecontroller.runtime.undeclared import Undeclared

__all__ = ["Applier"]

T = TypeVar("T")

_STATUS_SUFFIX: Final = "-status"


class Applier:
    """Applies intents under one field manager, and statuses under another.

    `annotation` carries the stamp. Give `consistency` to have every write recorded for
    read-your-own-writes.
    """

    def __init__(
        self, client: Client, *, annotation: str, consistency: Consistency | None = None
    ) -> None:
        self._client = client
        self._annotation = annotation
        self._consistency = consistency
        self._applied: dict[tuple[str, Key], Applied] = {}
        self._undeclared = Undeclared()

    async def apply(
        self,
        kind: Kind[T],
        intent: Mapping[str, Any],
        *,
        observed: HasMetadata | Mapping[str, Any] | None,
        owner: HasMetadata | Mapping[str, Any] | None = None,
        force: bool = True,
        resource_version: str = "",
        stamp: str = "",
    ) -> T | None:
        """Send the whole intent if it has to be sent; the object as applied, or nothing.

        `observed` is the object in the cache. The manager takes all fields of the intent, by force
        unless `force` is false; fields left out are removed unless other managers own them too.
        `stamp` is what `stamp_of` has returned for this very intent, if the caller kept it.

        Errors: `Conflict` where the object has another version than the one given, or, without
        force, where another manager owns one of the fields.
        """
        wanted = stamped(intent, self._annotation, stamp=stamp)
        key = key_of(wanted)
        place = (kind.resource, key)
        meta = meta_of(observed) if observed is not None else None
        if apply_reason(wanted, meta, self._annotation, self._applied.get(place)) is None:
            return None
        result = await self._client.apply(
            kind, wanted, force=force, resource_version=resource_version
        )
        written = meta_of(result)  # type: ignore[arg-type]  # an object of the API
        self._applied[place] = applied(written, self._annotation)
        self._note(kind, owner, written.resource_version)
        return result

    def stamp_of(self, intent: Mapping[str, Any]) -> str:
        """Return the hash of an intent, which costs more than all else when nothing is sent."""
        found: str = stamped(intent, self._annotation)["metadata"]["annotations"][self._annotation]
        return found

    async def apply_owned(
        self,
        kind: Kind[T],
        child: Mapping[str, Any],
        *,
        owner_kind: Kind[Any],
        owner: HasMetadata | Mapping[str, Any],
        observed: T | None,
        limitation: Callable[[ObjectMeta], str | None] | None = None,
    ) -> T | None:
        """Create or update an object that the owner controls; the object as applied, or nothing.

        An object of that name that the owner does not own is never changed, whether the cache shows
        it or not. Without a `limitation` argument, the owner owns the objects that it controls.

        Errors: `NotOwned` with the reason; `Conflict` when the object keeps changing; `ValueError`
        when the owner cannot own it, as across namespaces.
        """
        intent = owned(owner_kind, owner, child)
        allowed = limitation or partial(control_limitation, meta_of(owner))

        async def write(found: T | None) -> T | None:
            seen: Any = found
            force = found is not None  # an object that appeared meanwhile is not taken over
            return await self.apply(kind, intent, observed=seen, owner=owner, force=force)

        return await write_own(
            self._client, kind, key_of(intent), observed=observed, limitation=allowed, write=write
        )

    async def apply_status(
        self,
        kind: Kind[T],
        key: Key,
        status: Mapping[str, Any] | Struct,
        *,
        observed: Mapping[str, Any] | Struct | None,
    ) -> T | None:
        """Send a status if it differs from the observed one; the object as applied, or nothing.

        The status has its own manager: an apply of the object by the other manager would otherwise
        remove the status, as fields that it no longer wants. Fields that the installed definition
        does not declare are left out.
        """

        def declared(one: Mapping[str, Any] | Struct) -> Any:
            return self._undeclared.strip(kind.resource, _as_sent(one))

        while True:
            sent = declared(status)
            if observed is not None and declared(observed) == sent:
                return None
            body = {"metadata": {"namespace": key[0], "name": key[1]}, "status": sent}
            try:
                result = await self._client.apply(
                    kind,
                    body,
                    subresource="status",
                    manager=f"{self._client.field_manager}{_STATUS_SUFFIX}",
                )
                break
            except ServerError as error:
                if not self._undeclared.learn(kind.resource, str(error)):
                    raise
        written = meta_of(result)  # type: ignore[arg-type]  # as above
        if self._consistency is not None:
            self._consistency.wrote(
                key, uid=written.uid, resource=kind.resource, version=written.resource_version
            )
        return result

    def forget(self, kind: Kind[Any], key: Key) -> None:
        """Forget an object that was deleted."""
        self._applied.pop((kind.resource, key), None)

    def _note(self, kind: Kind[Any], owner: Any, version: str) -> None:
        if self._consistency is None or owner is None:
            return
        meta = meta_of(owner)
        self._consistency.wrote(meta.key, uid=meta.uid, resource=kind.resource, version=version)


def _as_sent(status: Mapping[str, Any] | Struct) -> Any:
    """Return a status as the server stores it: a tuple and a list are the same there."""
    return msgspec.json.decode(msgspec.json.encode(status))
