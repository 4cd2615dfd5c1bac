"""A store small enough to hold in the hand, for controllers that are pure functions."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kubelocal.controllers.engine.view import (
    Bind,
    Change,
    Changes,
    Create,
    Delete,
    Obj,
    Update,
    UpdateStatus,
)


class World:
    """Stores objects, applies changes with the API server's rules that matter to controllers."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Obj] = {}
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.log: list[str] = []
        self._counter = 0

    def get(self, resource: str, namespace: str, name: str) -> Obj | None:
        return self.objects.get((resource, namespace, name))

    def list(self, resource: str, namespace: str | None = None) -> Sequence[Obj]:
        return [
            o for (r, ns, _), o in self.objects.items() if r == resource and namespace in (None, ns)
        ]

    def owned(self, resource: str, uid: str) -> Sequence[Obj]:
        return [
            o
            for o in self.list(resource)
            if any(r["uid"] == uid for r in o["metadata"].get("ownerReferences") or ())
        ]

    def add(self, resource: str, obj: Obj) -> Obj:
        self._counter += 1
        made = copy.deepcopy(obj)
        metadata = made["metadata"]
        if "name" not in metadata:
            metadata["name"] = f"{metadata['generateName']}{self._counter:05d}"
        metadata.setdefault("uid", f"uid-{self._counter}")
        metadata.setdefault("creationTimestamp", self.now.strftime("%Y-%m-%dT%H:%M:%SZ"))
        metadata["resourceVersion"] = str(self._counter)
        key = (resource, metadata.get("namespace", ""), metadata["name"])
        if key not in self.objects:
            self.objects[key] = made
            self.log.append(f"+{resource}/{metadata['name']}")
        return self.objects[key]

    def apply(self, change: Change) -> None:
        match change:
            case Create(resource=resource, obj=obj):
                self.add(resource, obj)
            case Update(resource=resource, obj=obj) | UpdateStatus(resource=resource, obj=obj):
                self._write(resource, obj)
            case Delete(resource=resource, namespace=namespace, name=name, uid=uid):
                self._delete(resource, namespace, name, uid)
            case Bind(namespace=namespace, name=name, node=node):
                pod = self.objects["pods", namespace, name]
                pod["spec"]["nodeName"] = node

    def _write(self, resource: str, obj: Obj) -> None:
        metadata = obj["metadata"]
        key = (resource, metadata.get("namespace", ""), metadata["name"])
        assert self.objects[key]["metadata"]["resourceVersion"] == metadata["resourceVersion"]
        self._counter += 1
        stored = copy.deepcopy(obj)
        stored["metadata"]["resourceVersion"] = str(self._counter)
        if "deletionTimestamp" in stored["metadata"] and not stored["metadata"].get("finalizers"):
            del self.objects[key]
        else:
            self.objects[key] = stored

    def _delete(self, resource: str, namespace: str, name: str, uid: str) -> None:
        obj = self.objects.get((resource, namespace, name))
        if obj is None or obj["metadata"]["uid"] != uid:
            return
        self.log.append(f"-{resource}/{name}")
        if obj["metadata"].get("finalizers"):
            obj["metadata"]["deletionTimestamp"] = self.now.isoformat()
        else:
            del self.objects[resource, namespace, name]

    def settle(self, plan: Callable[[], Changes], *, most: int = 200) -> None:
        """Plan and apply until there is nothing left to do. Running for ever is a failure."""
        for _ in range(most):
            changes = plan()
            if not changes.steps:
                return
            for step in changes.steps:
                try:
                    self.apply(step)
                except AssertionError:
                    break  # seen before it changed: look again, as the loop does
        raise AssertionError(f"does not settle: {changes}")

    def make_ready(self, *names: str) -> None:
        """Let pods run and be ready, all of them when none is named."""
        for pod in self.list("pods"):
            if not names or pod["metadata"]["name"] in names:
                condition = {
                    "type": "Ready",
                    "status": "True",
                    "lastTransitionTime": self.now.strftime("%Y-%m-%dT%H:%M:%SZ"),
                }
                pod["status"] = {
                    "phase": "Running",
                    "podIP": "127.1.0.1",
                    "conditions": [condition],
                }

    def finish(self, name: str, phase: str) -> None:
        ended = {"state": {"terminated": {"finishedAt": self.now.strftime("%Y-%m-%dT%H:%M:%SZ")}}}
        pod = self.objects["pods", "d", name]
        pod["status"] = {"phase": phase, "containerStatuses": [ended]}

    def pass_seconds(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def names(self, resource: str) -> list[str]:
        return sorted(o["metadata"]["name"] for o in self.list(resource))

    def status(self, resource: str, name: str) -> dict[str, Any]:
        obj = self.get(resource, "d", name)
        assert obj is not None
        return dict(obj.get("status") or {})


@pytest.fixture
def world() -> World:
    return World()
