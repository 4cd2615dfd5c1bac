"""Runs garbage collection over every resource, and reports what keeps terminating namespaces."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from kubecontroller import (
    Again,
    ApiError,
    Controller,
    Done,
    Informer,
    Key,
    Manifest,
    NotFound,
    Outcome,
    Retry,
)
from kubecontroller.runtime import Added, Change, Deleted, Updated
from kubelocal.controllers import garbage, namespaces
from kubelocal.controllers.engine.caches import Caches
from kubelocal.controllers.engine.execute import execute
from kubelocal.controllers.engine.pods import is_deleting
from kubelocal.controllers.engine.view import Change as ObjectChange
from kubelocal.controllers.engine.view import Obj

__all__ = ["Collector"]


class Collector:
    """Deletes dependents with their owners, as the deletion's propagation says.

    Keys of its queue name any object of any resource: `(resource/namespace, name)`.
    """

    def __init__(self, caches: Caches, clock: Callable[[], datetime]) -> None:
        self._caches = caches
        self._clock = clock
        self.controller = Controller("garbage", self._reconcile, (), workers=4)
        caches.on_resource(self._follow)

    def _follow(self, resource: str, informer: Informer[Manifest]) -> None:
        informer.subscribe(lambda change: self._changed(resource, change))

    def _changed(self, resource: str, change: Change[Manifest]) -> None:
        match change:
            case Added(obj, _) | Updated(_, obj):
                if is_deleting(obj) or obj["metadata"].get("ownerReferences"):
                    self._enqueue(resource, obj)
                if is_deleting(obj):
                    self._enqueue_dependents(obj)
            case Deleted(obj):
                self._enqueue_dependents(obj)
                self._enqueue_owners(obj)
                self._enqueue_namespace(obj)

    def _enqueue(self, resource: str, obj: Obj) -> None:
        metadata = obj["metadata"]
        self.controller.enqueue((f"{resource}/{metadata.get('namespace', '')}", metadata["name"]))

    def _enqueue_dependents(self, owner: Obj) -> None:
        for resource, dependent in self._caches.dependents(owner["metadata"]["uid"]):
            self._enqueue(resource, dependent)

    def _enqueue_owners(self, obj: Obj) -> None:
        for reference in obj["metadata"].get("ownerReferences") or ():
            found = self._find_owner(obj, reference)
            if found is not None:
                self._enqueue(*found)

    def _enqueue_namespace(self, obj: Obj) -> None:
        name = obj["metadata"].get("namespace", "")
        home = self._caches.get("namespaces", "", name) if name else None
        if home is not None and is_deleting(home):
            self._enqueue("namespaces", home)

    def _find_owner(self, dependent: Obj, reference: Obj) -> tuple[str, Obj] | None:
        resource = self._resource_of(reference)
        if resource is None:
            return None
        namespaced = self._caches.kind(resource).namespaced
        namespace = dependent["metadata"].get("namespace", "") if namespaced else ""
        owner = self._caches.get(resource, namespace, reference["name"])
        if owner is None or owner["metadata"]["uid"] != reference["uid"]:
            return None
        return resource, owner

    def _resource_of(self, reference: Obj) -> str | None:
        group = reference["apiVersion"].rpartition("/")[0]
        for name, informer in self._caches.informers.items():
            if informer.kind.group == group and informer.kind.kind == reference["kind"]:
                return name
        return None

    async def _reconcile(self, key: Key) -> Outcome:
        resource, _, namespace = key[0].partition("/")
        if resource not in self._caches.informers:
            return Done()
        obj = self._caches.get(resource, namespace, key[1])
        if obj is None:
            return Done()
        if resource == "namespaces" and is_deleting(obj):
            content = self._caches.content(key[1])
            update = namespaces.remaining(obj, content, self._clock())
            return await execute(self._caches, [update] if update else [])
        uid = obj["metadata"]["uid"]
        steps = garbage.plan_owner(resource, obj, list(self._caches.dependents(uid)))
        if steps:
            outcome = await execute(self._caches, steps)
            # An orphan no longer names its owner, so its change will not trigger this key.
            return Again(0.0) if isinstance(outcome, Done) else outcome
        try:
            step = await self._plan_dependent(resource, obj)
        except ApiError as error:
            return Retry(error)
        return await execute(self._caches, [step] if step is not None else [])

    async def _plan_dependent(self, resource: str, obj: Obj) -> ObjectChange | None:
        exists: dict[str, bool] = {}
        dying: set[str] = set()
        for reference in obj["metadata"].get("ownerReferences") or ():
            found = self._find_owner(obj, reference)
            exists[reference["uid"]] = found is not None or await self._owner_exists(obj, reference)
            if found is not None and _is_deleted_in_foreground(found[1]):
                dying.add(reference["uid"])
        return garbage.plan_dependent(resource, obj, owner_exists=exists, dying=dying)

    async def _owner_exists(self, dependent: Obj, reference: Obj) -> bool:
        """Check with the API: a cache that has not seen an owner does not prove that it is gone."""
        resource = self._resource_of(reference)
        if resource is None:
            return True  # the kind is not served (yet): it is not known to be gone
        kind = self._caches.kind(resource)
        namespace = dependent["metadata"].get("namespace", "") if kind.namespaced else ""
        try:
            owner = await self._caches.client.get(kind, (namespace, reference["name"]))
        except NotFound:
            return False
        return bool(owner["metadata"]["uid"] == reference["uid"])


def _is_deleted_in_foreground(owner: Obj) -> bool:
    finalizers = owner["metadata"].get("finalizers") or ()
    return is_deleting(owner) and garbage.FOREGROUND in finalizers
