"""kopf: its in-memory index of pods by label, and a handler of raw events.

The index keeps as much of a pod as our informer: kopf's own documentation keeps whole bodies,
which would cost it memory that it need not have.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

import kopf

from bench.clients.effort import Effort, arguments, go

_URL, _PODS, _EVENTS = arguments()
_QUIET_SECONDS = 1.0


class Progress:
    """How many pods are in the index, and how many changes reached the handler."""

    indexed = 0
    handled = 0
    last_seen = False
    moved = 0.0


@kopf.on.login()
def login(**_: Any) -> kopf.ConnectionInfo:
    return kopf.ConnectionInfo(server=_URL)


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.posting.enabled = False
    settings.scanning.disabled = True


@kopf.index("pods")
def by_app(body: kopf.Body, namespace: str, name: str, **_: Any) -> dict[str, Any]:
    Progress.indexed += 1
    meta, spec, status = body["metadata"], body["spec"], body.get("status", {})
    kept = (
        *(namespace, name, meta["uid"], meta["resourceVersion"], meta.get("deletionTimestamp")),
        *(dict(meta.get("labels", {})), dict(meta.get("annotations", {}))),
        *(tuple(owner["uid"] for owner in meta.get("ownerReferences", ())), spec.get("nodeName")),
        *(status.get("phase"), status.get("podIP")),
        tuple((c["type"], c["status"]) for c in status.get("conditions", ())),
        tuple((c["name"], c.get("ready")) for c in status.get("containerStatuses", ())),
    )
    return {meta.get("labels", {}).get("app", ""): kept}


@kopf.on.event("pods")
async def changed(type: str | None, annotations: Any, **_: Any) -> None:  # noqa: A002
    if type is None:
        return
    Progress.handled += 1
    Progress.moved = time.perf_counter()
    if "bench/last" in annotations:
        Progress.last_seen = True


def _is_over() -> bool:
    if Progress.handled >= _EVENTS:
        return True
    # kopf may fold several changes of one pod into one call.
    return Progress.last_seen and time.perf_counter() - Progress.moved > _QUIET_SECONDS


async def main() -> None:
    logging.basicConfig(level=logging.WARNING)
    effort = Effort()
    operator = asyncio.create_task(kopf.operator(clusterwide=True, standalone=True))
    while Progress.indexed < _PODS:
        await asyncio.sleep(0.02)
        if operator.done():
            operator.result()
    effort.listed()
    await asyncio.to_thread(go, _URL)
    while not _is_over():  # noqa: ASYNC110 - kopf has no event
        await asyncio.sleep(0.02)
    effort.followed(Progress.handled)
    operator.cancel()
    await asyncio.gather(operator, return_exceptions=True)


asyncio.run(main())
