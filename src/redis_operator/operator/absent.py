"""Why pods that should exist do not: only the events of their workload tell. K-14

A quota, a limit range or a policy refuses a pod to the StatefulSet's controller, which says so in
an event and nowhere else. Events are read only while pods are missing, seldom, and by the uid of
the workload they are about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

from msgspec.structs import replace

from redis_operator.kube.client import Client
from redis_operator.kube.cluster import Event
from redis_operator.kube.errors import KubeError
from redis_operator.kube.objects import EVENTS
from redis_operator.planning.observed import Workload

__all__ = ["Absences"]

_PATIENCE_SECONDS = 2.0
_AGAIN_SECONDS = 5.0
_FRESH_SECONDS = 1200.0  # a controller that failed often tries seldom
_TIMEOUT = 5.0


class Absences:
    """Remembers since when each workload lacks pods, and what was said of it last."""

    def __init__(self, client: Client, clock: Callable[[], float]) -> None:
        self._client = client
        self._clock = clock
        self._since: dict[str, float] = {}
        self._asked: dict[str, float] = {}
        self._told: dict[str, str] = {}

    async def explain(
        self, namespace: str, workloads: Iterable[Workload], present: Iterable[int]
    ) -> tuple[Workload, ...]:
        """Return the workloads, each with why its controller cannot make the pods it lacks."""
        shards = list(present)
        found = []
        for workload in workloads:
            lacking = not workload.deleting and shards.count(workload.shard) < workload.pods
            if not lacking:
                self._forget(workload.uid)
                found.append(workload)
                continue
            found.append(replace(workload, trouble=await self._trouble(namespace, workload)))
        return tuple(found)

    async def _trouble(self, namespace: str, workload: Workload) -> str:
        uid, now = workload.uid, self._clock()
        since = self._since.setdefault(uid, now)
        if now - since >= _PATIENCE_SECONDS and now - self._asked.get(uid, 0.0) >= _AGAIN_SECONDS:
            self._asked[uid] = now
            try:
                page = await self._client.list(
                    EVENTS,
                    namespace=namespace,
                    fields=f"involvedObject.uid={uid},reason=FailedCreate",
                    timeout=_TIMEOUT,
                )
            except KubeError:
                return self._told.get(uid, "")  # nobody says why: then it is only missing
            fresh = [event for event in page.items if now - _time(event) < _FRESH_SECONDS]
            self._told[uid] = max(fresh, key=_time).message if fresh else ""
        return self._told.get(uid, "")

    def _forget(self, uid: str) -> None:
        for memory in (self._since, self._asked, self._told):
            memory.pop(uid, None)


def _time(event: Event) -> float:
    seen: datetime | None = (
        event.last_timestamp or event.event_time or event.metadata.creation_timestamp
    )
    return seen.timestamp() if seen is not None else 0.0
