"""Events of pods and nodes, as a kubelet writes them: equal ones are counted, not repeated.

Guarantees: recording never blocks and never fails its caller; an object that floods is cut off.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from kubecontroller.client.api import Client
from kubecontroller.client.errors import KubeError, NotFound
from kubecontroller.client.objects import EVENTS
from kubecontroller.client.patches import MergePatch

__all__ = ["EventRecorder"]

_log = logging.getLogger(__name__)
_REMEMBERED = 4096
_BURST = 25.0
_REFILL = 1 / 300.0


class _Series(Struct):
    name: str
    namespace: str
    count: int = 0
    created: bool = False


class _Allowance(Struct):
    tokens: float
    at: float


class EventRecorder:
    """Queues events and writes them one after another."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._queue: asyncio.Queue[tuple[_Series, dict[str, Any]]] = asyncio.Queue(maxsize=10_000)
        self._series: OrderedDict[tuple[str, ...], _Series] = OrderedDict()
        self._allowances: dict[str, _Allowance] = {}
        self._number = time.time_ns()

    def record(
        self,
        pod: Mapping[str, Any],
        *,
        reason: str,
        message: str,
        warning: bool,
        field: str = "",
        kind: str = "Pod",
    ) -> None:
        """Note an event of a pod, of one of its containers, or of a node."""
        metadata = pod["metadata"]
        uid = metadata["uid"]
        level = "Warning" if warning else "Normal"
        if self._queue.full() or not self._is_allowed(uid):
            return
        key = (uid, field, level, reason, message)
        series = self._series.get(key)
        if series is None:
            self._number += 1
            namespace = metadata.get("namespace") or "default"
            series = _Series(f"{metadata['name']}.{self._number:x}", namespace)
            self._series[key] = series
            if len(self._series) > _REMEMBERED:
                self._series.popitem(last=False)
        series.count += 1
        node = pod.get("spec", {}).get("nodeName") or metadata["name"]
        involved = {
            "kind": kind,
            "namespace": metadata.get("namespace", ""),
            "name": metadata["name"],
            "uid": uid,
            "apiVersion": "v1",
            "resourceVersion": metadata.get("resourceVersion", ""),
            "fieldPath": field,
        }
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        event = {
            "metadata": {"name": series.name, "namespace": series.namespace},
            "involvedObject": {name: text for name, text in involved.items() if text},
            "reason": reason,
            "message": message[:1024],
            "source": {"component": "kubelet", "host": node},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": series.count,
            "type": level,
            "eventTime": None,
            "reportingComponent": "kubelet",
            "reportingInstance": node,
        }
        self._queue.put_nowait((series, event))

    def _is_allowed(self, uid: str) -> bool:
        """Take one from the object's allowance: 25 at once, then one each five minutes."""
        now = time.monotonic()
        allowance = self._allowances.get(uid)
        if allowance is None:
            if len(self._allowances) > _REMEMBERED:
                self._allowances.clear()
            allowance = self._allowances[uid] = _Allowance(_BURST, now)
        allowance.tokens = min(_BURST, allowance.tokens + (now - allowance.at) * _REFILL)
        allowance.at = now
        if allowance.tokens < 1.0:
            return False
        allowance.tokens -= 1.0
        return True

    async def run(self) -> None:
        """Write what is recorded until cancelled; trouble costs events, nothing else."""
        while True:
            series, event = await self._queue.get()
            try:
                await self._write(series, event)
            except KubeError as error:
                _log.debug("event %s is lost: %s", event["reason"], error)
            except Exception:
                _log.exception("event %s is lost", event["reason"])

    async def _write(self, series: _Series, event: dict[str, Any]) -> None:
        if series.created:
            change = {"count": event["count"], "lastTimestamp": event["lastTimestamp"]}
            try:
                await self._client.patch(
                    EVENTS, (series.namespace, series.name), MergePatch(change)
                )
            except NotFound:
                series.created = False
            else:
                return
        await self._client.create(EVENTS, event)
        series.created = True
