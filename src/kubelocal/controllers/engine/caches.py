"""The caches all controllers share: one informer for each served resource, CRDs' included."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kubecontroller import Client, Informer, Kind, Manifest
from kubecontroller.runtime import Added, Change, Deleted, Updated
from kubelocal.apiserver.kinds.table import BUILT_IN
from kubelocal.controllers.engine.view import Obj

__all__ = ["BUILT_IN_KINDS", "Caches"]

BUILT_IN_KINDS: dict[str, Kind[Manifest]] = {
    row.plural: Kind(row.group, row.version, row.kind, row.plural, row.namespaced, dict)
    for row in BUILT_IN
    if "watch" in row.verbs
}


class Caches:
    """A `View` over informers that follows CRDs as they are created and deleted.

    Resources are named by their plural; those of CRDs by plural and group (`widgets.example.org`),
    so that no CRD can hide a built-in one.
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        self.informers: dict[str, Informer[Manifest]] = {
            name: Informer(client, kind) for name, kind in BUILT_IN_KINDS.items()
        }
        self._added: list[Callable[[str, Informer[Manifest]], None]] = []
        self._dynamic: dict[str, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None

    def on_resource(self, handler: Callable[[str, Informer[Manifest]], None]) -> None:
        """Call the function with each resource's informer: now for the present ones, later too."""
        self._added.append(handler)
        for name, informer in self.informers.items():
            handler(name, informer)

    async def run(self) -> None:
        """Fill and follow the caches until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            for informer in list(self.informers.values()):
                group.create_task(informer.run())
            self.informers["customresourcedefinitions"].subscribe(self._crd_changed)

    async def wait_synced(self) -> None:
        """Return when every built-in resource has been listed."""
        for name in BUILT_IN_KINDS:
            await self.informers[name].wait_synced()

    def _crd_changed(self, change: Change[Manifest]) -> None:
        match change:
            case Added(crd, _) | Updated(_, crd):
                self._follow(crd)
            case Deleted(crd):
                self._leave(str(crd["metadata"]["name"]))

    def _follow(self, crd: Manifest) -> None:
        name, spec = str(crd["metadata"]["name"]), crd["spec"]
        conditions = (crd.get("status") or {}).get("conditions") or ()
        established = any(c["type"] == "Established" and c["status"] == "True" for c in conditions)
        if name in self.informers or not established or self._group is None:
            return
        served = next(v["name"] for v in spec["versions"] if v["storage"])
        names = spec["names"]
        kind: Kind[Manifest] = Kind(
            spec["group"],
            served,
            names["kind"],
            names["plural"],
            spec["scope"] == "Namespaced",
            dict,
        )
        informer = Informer(self.client, kind)
        self.informers[name] = informer
        self._dynamic[name] = self._group.create_task(informer.run())
        for handler in self._added:
            handler(name, informer)

    def _leave(self, name: str) -> None:
        self.informers.pop(name, None)
        task = self._dynamic.pop(name, None)
        if task is not None:
            task.cancel()

    # The view that pure controllers get

    def get(self, resource: str, namespace: str, name: str) -> Obj | None:
        """Return one object, or None when there is none."""
        return self.informers[resource].cache.get((namespace, name))

    def list(self, resource: str, namespace: str | None = None) -> Sequence[Obj]:
        """Return all objects of a resource, of one namespace or of all."""
        cache = self.informers[resource].cache
        return list(cache) if namespace is None else cache.find("namespace", namespace)

    def owned(self, resource: str, uid: str) -> Sequence[Obj]:
        """Return the objects of a resource that name this uid among their owners."""
        return self.informers[resource].owned_by(uid)

    def dependents(self, uid: str) -> Iterator[tuple[str, Obj]]:
        """Yield every object of any resource that names this uid among its owners."""
        for name, informer in list(self.informers.items()):
            for obj in informer.owned_by(uid):
                yield name, obj

    def content(self, namespace: str) -> Sequence[tuple[str, Obj]]:
        """Return every object of any resource in a namespace."""
        return [
            (name, obj)
            for name, informer in list(self.informers.items())
            if informer.kind.namespaced
            for obj in informer.cache.find("namespace", namespace)
        ]

    def kind(self, resource: str) -> Kind[Any]:
        """Return how a resource is addressed."""
        return self.informers[resource].kind
