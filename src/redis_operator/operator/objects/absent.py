"""Why pods that should exist are not observed: not created, or created and not labelled.

A quota, a limit range or a policy refuses a pod of the StatefulSet controller, which reports it
only in an event. A pod that lost its labels is in no cache; it is read by name. Both are asked for
only while pods are missing, and seldom. K-14, K-27
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime

from msgspec.structs import replace

from kubecontroller import Client, Key, KubeError, NotFound
from kubecontroller.client.objects import EVENTS, PODS, Event, Pod
from redis_operator.manifests import names
from redis_operator.manifests.layout import Layout
from redis_operator.operator.objects.look import lacking_labels
from redis_operator.planning.observed import Unlabelled, Workload

__all__ = ["Absences"]

_PATIENCE_SECONDS = 2.0
_AGAIN_SECONDS = 5.0
_FRESH_SECONDS = 1200.0  # a controller that failed often retries seldom
_TIMEOUT = 5.0


class Absences:
    """Remembers since when each workload lacks pods, and the last known reason."""

    def __init__(self, client: Client, clock: Callable[[], float]) -> None:
        self._client = client
        self._clock = clock
        self._uids: dict[Key, set[str]] = {}  # workloads that something is known of
        self._since: dict[str, float] = {}
        self._asked: dict[str, float] = {}
        self._reasons: dict[str, str] = {}
        self._unlabelled: dict[str, tuple[Unlabelled, ...]] = {}

    async def explain(
        self, key: Key, layout: Layout, workloads: Iterable[Workload], present: Iterable[str]
    ) -> tuple[tuple[Workload, ...], tuple[Unlabelled, ...]]:
        """Return the workloads, each with the reason why it lacks pods, and pods without labels."""
        observed, workloads = set(present), tuple(workloads)
        uids = {workload.uid for workload in workloads}
        for gone in self._uids.get(key, set()) - uids:
            self._forget(gone)
        self._uids[key] = uids
        # All at once: a slow API server costs its delay once, not once for each workload.
        found = await asyncio.gather(
            *(self._explained(key, layout, w, observed) for w in workloads)
        )
        unlabelled = (pod for w in found for pod in self._unlabelled.get(w.uid, ()))
        return tuple(found), tuple(unlabelled)

    async def _explained(
        self, key: Key, layout: Layout, workload: Workload, observed: set[str]
    ) -> Workload:
        lacking = [
            pod
            for ordinal in range(workload.pods)
            if (pod := layout.pod(key[1], workload.shard, ordinal)) not in observed
        ]
        if workload.deleting or not lacking:
            self._forget(workload.uid)
            return workload
        return replace(workload, trouble=await self._trouble(key, layout, workload, lacking))

    async def _trouble(
        self, key: Key, layout: Layout, workload: Workload, lacking: list[str]
    ) -> str:
        uid, now = workload.uid, self._clock()
        since = self._since.setdefault(uid, now)
        if now - since >= _PATIENCE_SECONDS and now - self._asked.get(uid, 0.0) >= _AGAIN_SECONDS:
            self._asked[uid] = now
            try:
                self._reasons[uid] = await self._in_the_way(key, layout, workload, lacking)
                self._reasons[uid] = self._reasons[uid] or await self._refusal(key[0], uid, now)
            except KubeError:
                return self._reasons.get(uid, "")  # no reason is known: then it is only missing
        return self._reasons.get(uid, "")

    async def _in_the_way(
        self, key: Key, layout: Layout, workload: Workload, lacking: list[str]
    ) -> str:
        """Read the pods by name: keep those that only lack labels, report those of other owners."""
        ours: list[Unlabelled] = []
        trouble = ""
        for name in lacking:
            try:
                pod = await self._client.get(PODS, (key[0], name), timeout=_TIMEOUT)
            except NotFound:
                continue
            if not _is_of(key[1], workload, pod):
                trouble = (
                    f"a pod named {name} exists and does not belong to StatefulSet "
                    f"{workload.name}: delete it, and the shard's own pod is created"
                )
            elif lacks := lacking_labels(layout, key[1], pod):
                ours.append(Unlabelled(name, pod.metadata.uid, lacks))
        self._unlabelled[workload.uid] = tuple(ours)
        return trouble

    async def _refusal(self, namespace: str, uid: str, now: float) -> str:
        """Return the last message of the workload's controller about pods it could not create."""
        page = await self._client.list(
            EVENTS,
            namespace=namespace,
            fields=f"involvedObject.uid={uid},reason=FailedCreate",
            timeout=_TIMEOUT,
        )
        fresh = [event for event in page.items if now - _time(event) < _FRESH_SECONDS]
        return max(fresh, key=_time).message if fresh else ""

    def forget(self, key: Key) -> None:
        """Forget a database that is gone."""
        for uid in self._uids.pop(key, ()):
            self._forget(uid)

    def _forget(self, uid: str) -> None:
        for memory in (self._since, self._asked, self._reasons, self._unlabelled):
            memory.pop(uid, None)


def _is_of(database: str, workload: Workload, pod: Pod) -> bool:
    """Whether a pod is a workload's: owned by it, or released by it for lack of labels."""
    owners = [owner for owner in pod.metadata.owner_references or () if owner.controller]
    if owners:
        return owners[0].uid == workload.uid
    return pod.spec.subdomain == names.nodes_service(database)


def _time(event: Event) -> float:
    seen: datetime | None = (
        event.last_timestamp or event.event_time or event.metadata.creation_timestamp
    )
    return seen.timestamp() if seen is not None else 0.0
