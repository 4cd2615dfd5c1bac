"""Releases objects with the operator's finalizers in namespaces that are being deleted.

Where the operator manages a list of namespaces, its rights in each are a Role in it. Kubernetes
deletes the content of a namespace in any order, and often that Role first: the usual end of an
object is forbidden then. In a terminating namespace a finalizer protects nothing, since pods,
claims and Secrets are deleted anyway. So it is removed there at once, also where the operator no
longer manages the namespace.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from msgspec import Struct

from kubecontroller import (
    Again,
    Caches,
    Client,
    ControllerBuilder,
    Done,
    Key,
    Kind,
    Manager,
    NotFound,
    Outcome,
    fields,
    meta_of,
)
from kubecontroller.client.objects import NAMESPACES, MetadataOnly
from kubecontroller.runtime import has_finalizer, remove_finalizer
from redis_operator.operator.backups.ending import BACKUP_FINALIZER
from redis_operator.operator.backups.redis_restores import RESTORE_FINALIZER
from redis_operator.operator.objects.ending import FINALIZER, is_protected
from redis_operator.operator.world import REDIS_BACKUPS, REDIS_RESTORES, REDISES

__all__ = ["FINALIZERS", "Releases", "add_releases", "is_terminating"]

_LOG = logging.getLogger(__name__)
_LOOK_SECONDS = 10.0  # the deletion of a namespace is not an event of what it contains

FINALIZERS: Final = (
    (REDISES, FINALIZER),
    (REDIS_BACKUPS, BACKUP_FINALIZER),
    (REDIS_RESTORES, RESTORE_FINALIZER),
)
"""Every kind with a finalizer of the operator."""


class Releases(Struct, frozen=True):
    """Removes one finalizer from the objects of one kind."""

    client: Client
    kind: Kind[Any]
    finalizer: str
    objects: Caches[MetadataOnly]  # in the whole cluster

    async def reconcile(self, key: Key) -> Outcome:
        """Release an object that is being deleted together with its namespace."""
        cached = self.objects.get(key)
        if cached is None or not self._waits(cached):
            return Done()
        if not await is_terminating(self.client, key[0]):
            return Again(_LOOK_SECONDS)
        try:
            live = await self.client.get(self.kind, key)
        except NotFound:
            return Done()
        if not self._waits(live):
            return Done()
        if self.kind is REDISES and is_protected(live):
            return Done()  # a change of its spec is an event
        await remove_finalizer(self.client, self.kind, live, self.finalizer)
        _LOG.info("released in a terminating namespace", extra=fields(finalizer=self.finalizer))
        return Done()

    def _waits(self, obj: Any) -> bool:
        return meta_of(obj).is_deleting and has_finalizer(obj, self.finalizer)


def add_releases(manager: Manager) -> None:
    """Add the controllers to a manager; without the rights for them they do nothing."""
    for kind, finalizer in FINALIZERS:
        seen = Kind(kind.group, kind.version, kind.kind, kind.plural, True, MetadataOnly)
        objects = manager.caches(seen, optional=True)
        releases = Releases(manager.client, kind, finalizer, objects)
        builder = ControllerBuilder(manager, f"release-{kind.plural}", objects)
        builder.add(releases.reconcile, deadline=60.0)


async def is_terminating(client: Client, namespace: str, *, timeout: float = 30.0) -> bool:
    """Whether a namespace is being deleted, or is gone."""
    try:
        found = await client.get(NAMESPACES, ("", namespace), timeout=timeout)
    except NotFound:
        return True
    return found.metadata.is_deleting
