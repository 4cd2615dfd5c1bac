"""Runs the pure controllers on the controller runtime: from a change to a key, plan, execute.

One table says which controller is called with which key when which resource changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Protocol, TypeAlias

from kubecontroller import (
    Again,
    ApiError,
    Client,
    Controller,
    Done,
    Key,
    Manifest,
    Outcome,
    Recorder,
    Regarding,
)
from kubecontroller.runtime import Added, Change, Deleted, Trigger, Updated, Watch, itself
from kubelocal.controllers import disruption, endpoints, events, nodes, volumes
from kubelocal.controllers.collector import Collector
from kubelocal.controllers.engine.caches import Caches
from kubelocal.controllers.engine.execute import execute
from kubelocal.controllers.engine.view import Changes, Create, View, controller_of
from kubelocal.controllers.forwarder import Address, Forwarder, wanted
from kubelocal.controllers.scheduling import scheduler
from kubelocal.controllers.workloads import deployment, job, replicaset, statefulset

__all__ = ["ControlLoops"]

_Plan: TypeAlias = Callable[[View, str, str, datetime], Changes]
_FORWARDING: Key = ("", "services")


class Forwarding(Protocol):
    """Makes service addresses accept connections."""

    async def update(
        self, table: Mapping[Address, tuple[Address, ...]], /
    ) -> Mapping[Address, str]:
        """Listen on these addresses and forward to these backends; return what failed."""
        ...

    async def close(self) -> None:
        """Stop listening on all addresses."""
        ...


class ControlLoops:
    """All controllers, the scheduler and the service forwarder of one control plane.

    `caches` may be given by a caller that reads them too; that caller runs them.
    """

    def __init__(
        self,
        client: Client,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        forwarder: Forwarding | None = None,
        caches: Caches | None = None,
    ) -> None:
        self._runs_caches = caches is None
        self._caches = caches or Caches(client)
        self._recorder = Recorder(client, component="controller-manager")
        self._clock = clock
        self._forwarder = forwarder if forwarder is not None else Forwarder()
        self._collector = Collector(self._caches, self._clock)
        self._controllers = [
            self._collector.controller,
            *self._workload_loops(),
            *self._cluster_loops(),
        ]

    async def run(self) -> None:
        """Run until cancelled; service addresses stop responding then."""
        try:
            async with asyncio.TaskGroup() as group:
                if self._runs_caches:
                    group.create_task(self._caches.run())
                group.create_task(self._recorder.run())
                await self._caches.wait_synced()
                for controller in self._controllers:
                    group.create_task(controller.run())
                self._controllers[-1].enqueue(_FORWARDING)
        finally:
            await self._forwarder.close()

    # The table

    def _workload_loops(self) -> list[Controller]:
        owned, nearby = self._owned_by, self._in_namespace
        return [
            self._controller(
                "statefulset",
                statefulset.plan,
                ("statefulsets", itself),
                ("pods", owned("StatefulSet", orphans_to="statefulsets")),
                ("controllerrevisions", owned("StatefulSet")),
                ("persistentvolumeclaims", nearby("statefulsets", when=_is_deletion)),
            ),
            self._controller(
                "deployment",
                deployment.plan,
                ("deployments", itself),
                ("replicasets", owned("Deployment", orphans_to="deployments")),
                ("pods", self._deployment_of),
            ),
            self._controller(
                "replicaset",
                replicaset.plan,
                ("replicasets", itself),
                ("pods", owned("ReplicaSet", orphans_to="replicasets")),
            ),
            self._controller("job", job.plan, ("jobs", itself), ("pods", owned("Job"))),
            self._controller(
                "endpoints",
                endpoints.plan,
                ("services", itself),
                ("pods", self._services_of),
                ("endpointslices", _by_service_name),
                ("endpoints", itself),
            ),
            self._controller(
                "disruption",
                disruption.plan,
                ("poddisruptionbudgets", itself),
                ("pods", nearby("poddisruptionbudgets")),
            ),
        ]

    def _cluster_loops(self) -> list[Controller]:
        nearby = self._in_namespace
        return [
            self._controller(
                "claims",
                volumes.plan_claim,
                ("persistentvolumeclaims", itself),
                ("persistentvolumes", self._claim_of),
                ("pods", nearby("persistentvolumeclaims", when=_is_deletion)),
                ("storageclasses", self._all("persistentvolumeclaims")),
            ),
            self._controller(
                "volumes",
                lambda view, _, name, now: volumes.plan_volume(view, name, now),
                ("persistentvolumes", itself),
                ("persistentvolumeclaims", self._volume_of),
            ),
            self._controller(
                "nodes",
                lambda view, _, name, now: nodes.plan(view, name, now),
                ("nodes", itself),
            ),
            self._controller(
                "scheduler",
                scheduler.plan,
                ("pods", self._unscheduled),
                ("nodes", self._all_unscheduled),
                ("persistentvolumeclaims", self._all_unscheduled),
                workers=1,  # two pods at a time would not see each other, and share a node
            ),
            self._controller(
                "events", lambda view, _ns, _name, now: events.plan(view, now), ("namespaces", _one)
            ),
            Controller(
                "services",
                self._forward,
                [
                    Watch(self._caches.informers["services"], lambda _: (_FORWARDING,)),
                    Watch(self._caches.informers["endpointslices"], lambda _: (_FORWARDING,)),
                ],
            ),
        ]

    def _controller(
        self, name: str, plan: _Plan, *watches: tuple[str, Trigger[Manifest]], workers: int = 2
    ) -> Controller:
        async def reconcile(key: Key) -> Outcome:
            changes = plan(self._caches, key[0], key[1], self._clock())
            refused = partial(self._record_refused, watches[0][0], key)
            outcome = await execute(self._caches, changes.steps, refused)
            if isinstance(outcome, Done) and changes.again_after is not None:
                return Again(changes.again_after)
            return outcome

        sources = [Watch(self._caches.informers[r], trigger) for r, trigger in watches]
        return Controller(name, reconcile, sources, workers=workers)

    def _record_refused(self, resource: str, key: Key, step: Create, error: ApiError) -> None:
        """Record an event on the workload whose objects are refused: nothing else reports it."""
        kind, subject = self._caches.kind(resource), self._caches.get(resource, *key)
        if subject is None:
            return
        about = Regarding.of(kind, subject)
        made = f"{self._caches.kind(step.resource).kind} {step.obj['metadata'].get('name', '')}"
        what = f"create {made} in {kind.kind} {key[1]}"
        self._recorder.warning(about, "FailedCreate", f"{what} failed error: {error.message}")

    async def _forward(self, _: Key) -> Outcome:
        services, slices = self._caches.list("services"), self._caches.list("endpointslices")
        failed = await self._forwarder.update(wanted(services, slices))
        return Again(5.0) if failed else Done()

    # From a change to keys

    def _owned_by(self, kind: str, *, orphans_to: str = "") -> Trigger[Manifest]:
        """Keys of the controlling owner; any workload of the namespace may adopt an orphan."""

        def keys(change: Change[Manifest]) -> Iterable[Key]:
            for state in _states(change):
                reference = controller_of(state)
                namespace = state["metadata"]["namespace"]
                if reference is not None and reference["kind"] == kind:
                    yield (namespace, reference["name"])
                elif reference is None and orphans_to:
                    yield from self._keys(orphans_to, namespace)

        return keys

    def _in_namespace(
        self, resource: str, *, when: Callable[[Change[Manifest]], bool] | None = None
    ) -> Trigger[Manifest]:
        def keys(change: Change[Manifest]) -> Iterable[Key]:
            if when is None or when(change):
                yield from self._keys(resource, _newest(change)["metadata"]["namespace"])

        return keys

    def _all(self, resource: str) -> Trigger[Manifest]:
        return lambda _: self._caches.informers[resource].cache.keys()

    def _keys(self, resource: str, namespace: str) -> Sequence[Key]:
        return self._caches.informers[resource].cache.find_keys("namespace", namespace)

    def _deployment_of(self, change: Change[Manifest]) -> Iterable[Key]:
        """A Deployment that re-creates waits for the deletion of the last old pod."""
        if not isinstance(change, Deleted):
            return
        reference = controller_of(change.obj)
        if reference is None or reference["kind"] != "ReplicaSet":
            return
        namespace = change.obj["metadata"]["namespace"]
        owner = self._caches.get("replicasets", namespace, reference["name"])
        above = controller_of(owner) if owner is not None else None
        if above is not None:
            yield (namespace, above["name"])

    def _services_of(self, change: Change[Manifest]) -> Iterable[Key]:
        for state in _states(change):
            labels = state["metadata"].get("labels") or {}
            for service in self._caches.list("services", state["metadata"]["namespace"]):
                selector = service["spec"].get("selector")
                if selector and selector.items() <= labels.items():
                    yield (service["metadata"]["namespace"], service["metadata"]["name"])

    def _claim_of(self, change: Change[Manifest]) -> Iterable[Key]:
        reference = _newest(change)["spec"].get("claimRef")
        if reference:
            yield (reference["namespace"], reference["name"])

    def _volume_of(self, change: Change[Manifest]) -> Iterable[Key]:
        claim = _newest(change)
        name = claim["spec"].get("volumeName") or f"pvc-{claim['metadata']['uid']}"
        yield ("", name)

    def _unscheduled(self, change: Change[Manifest]) -> Iterable[Key]:
        if isinstance(change, Deleted):
            return self._all_unscheduled(change)
        pod = _newest(change)
        if not pod["spec"].get("nodeName"):
            return itself(change)
        # another pod may wait, by affinity, for a pod that was just scheduled
        was_bound = isinstance(change, Updated) and change.old["spec"].get("nodeName")
        return () if was_bound else self._all_unscheduled(change)

    def _all_unscheduled(self, _: Change[Manifest]) -> Iterable[Key]:
        return [
            (pod["metadata"]["namespace"], pod["metadata"]["name"])
            for pod in self._caches.list("pods")
            if not pod["spec"].get("nodeName")
        ]


def _states(change: Change[Manifest]) -> tuple[Manifest, ...]:
    match change:
        case Added(obj, _) | Deleted(obj):
            return (obj,)
        case Updated(old, new):
            return (old, new)


def _newest(change: Change[Manifest]) -> Manifest:
    return _states(change)[-1]


def _is_deletion(change: Change[Any]) -> bool:
    return isinstance(change, Deleted) or (
        isinstance(change, Updated) and "deletionTimestamp" in change.new["metadata"]
    )


def _by_service_name(change: Change[Manifest]) -> Iterable[Key]:
    metadata = _newest(change)["metadata"]
    name = (metadata.get("labels") or {}).get("kubernetes.io/service-name")
    return ((metadata["namespace"], name),) if name else ()


def _one(_: Change[Manifest]) -> Iterable[Key]:
    return (("", "all"),)
