"""The operator's caches, filled by hand, over an API server in this process: nothing runs."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random
from typing import Any

import msgspec

from kubecontroller.client.api import Client
from kubecontroller.client.meta import meta_of
from kubecontroller.runtime.caches import Caches
from kubecontroller.runtime.informer import Informer
from kubecontroller.runtime.manager import Manager
from kubelocal.apiserver.inprocess import InProcessTransport
from kubelocal.apiserver.server import ApiServer
from kubelocal.apiserver.storage.store import Store
from redis_operator.manifests.names import DATABASE_LABEL
from redis_operator.operator.world import World

__all__ = ["Cached", "labelled"]

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


def labelled(name: str, database: str = "db", **meta: Any) -> dict[str, Any]:
    """Metadata of an object of a database."""
    labels = {DATABASE_LABEL: database, **meta.pop("labels", {})}
    return {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": labels, **meta}


class Cached:
    """A cluster, and what the operator has cached of it: only what a test shows."""

    def __init__(self) -> None:
        self.server = ApiServer(Store(), clock=lambda: MOMENT, bits=Random(1).getrandbits)
        self.client = Client(InProcessTransport(self.server), field_manager="redis-operator")
        self.world = World(Manager(self.client), ())

    def show(self, where: Caches[Any] | Informer[Any], *objects: Any) -> None:
        """Have a cache hold exactly these, and be complete."""
        informer = where.informers[0] if isinstance(where, Caches) else where
        for key in informer.cache.keys():  # noqa: SIM118 - a reader is no mapping
            informer._store.remove(key)
        for raw in objects:
            found = raw if informer.kind.model is dict else _typed(raw, informer.kind.model)
            informer._store.put(meta_of(found).key, found)
        informer._synced.set()

    async def read(self, where: Caches[Any]) -> None:
        """Have a cache hold what the API server has with our label."""
        page = await self.client.list(where.kind, namespace="default", labels=DATABASE_LABEL)
        self.show(where, *page.items)


def _typed(raw: Any, kind: type[Any]) -> Any:
    return msgspec.convert(raw, kind) if isinstance(raw, dict) else raw
