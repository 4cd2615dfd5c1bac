"""Workers of backups in simulation: they take their time, and say what real ones say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Any

from kubecontroller.client.api import Client
from kubecontroller.client.errors import ApiError, NotFound
from kubecontroller.client.meta import Manifest
from kubecontroller.client.objects import PODS
from kubecontroller.client.patches import MergePatch
from redis_operator.backup.task import (
    TASK,
    ArchiverReport,
    ArchiveTask,
    CarryTask,
    DeleteTask,
    PointTask,
    Report,
    TakeTask,
    VerifyTask,
    read_task,
)
from redis_operator.operator.world import REDISES

__all__ = ["told_by", "work"]

_START_SECONDS = 1.0
_READ_SECONDS = 3.0
_SIZE = 100
_ADDRESS = "10.255.0.1"
_POINT = "2026-01-31T12:00:00.000Z"
_AHEAD = 4_000_000_000_000_000  # microseconds since 1970: in 2096


async def work(client: Client, pod: Manifest, clock: Callable[[], datetime]) -> None:
    """Be the worker of a pod: read every shard, and end."""
    container = pod["spec"]["containers"][0]  # a scratch server beside it is not reported
    task = read_task(next(e["value"] for e in container["env"] if e["name"] == TASK))
    await asyncio.sleep(_START_SECONDS)
    state: dict[str, Any] = {"running": {"startedAt": _text(clock())}}
    more = {"podIP": _ADDRESS} if isinstance(task, ArchiveTask) else {}
    await _publish(client, pod, "Running", container, state, ready=True, **more)
    if not isinstance(task, TakeTask | DeleteTask | CarryTask | VerifyTask | PointTask):
        return
    await asyncio.sleep(_READ_SECONDS)
    if isinstance(task, CarryTask | VerifyTask):
        await _end(client, pod, container, Report(size=_SIZE, keys=1), clock)
        return
    if isinstance(task, DeleteTask):
        await _end(client, pod, container, Report(), clock)
        return
    if isinstance(task, PointTask):
        await _end(client, pod, container, Report(time=_POINT), clock)
        return
    parts: tuple[dict[str, str | int], ...] = tuple(
        {"name": shard.name, "slots": shard.slots, "size": _SIZE, "stored": _SIZE // 2}
        for shard in task.shards
    )
    size = _SIZE * len(parts)
    report = Report(size=size, stored=size // 2, rdb="VALKEY080", parts=parts)
    await _end(client, pod, container, report, clock)


async def told_by(client: Client, _host: str) -> dict[str, ArchiverReport]:
    """Answer as a worker that archives every shard of every database, always the same.

    Its times are far ahead, so that nothing is late: only what changes is written.
    """
    told = ArchiverReport(attached="a-replica", line=1, oldest=_AHEAD, newest=_AHEAD, based=_AHEAD)
    databases = (await client.list(REDISES)).items
    return {
        shard["name"]: told
        for raw in databases
        for shard in (raw.get("status") or {}).get("shards", ())
    }


async def _end(
    client: Client,
    pod: Manifest,
    container: Manifest,
    report: Report,
    clock: Callable[[], datetime],
) -> None:
    """Succeed, with a report as the termination message."""
    ended = {"exitCode": 0, "reason": "Completed", "finishedAt": _text(clock())}
    state = {"terminated": {**ended, "message": report.text().decode()}, "running": None}
    await _publish(client, pod, "Succeeded", container, state, ready=False)


async def _publish(
    client: Client,
    pod: Manifest,
    phase: str,
    container: Manifest,
    state: Manifest,
    *,
    ready: bool,
    **more: str,
) -> None:
    meta = pod["metadata"]
    told = {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "ready": ready,
        "restartCount": 0,
        "state": {name: value for name, value in state.items() if value is not None},
    }
    change = {"status": {"phase": phase, "containerStatuses": [told], **more}}
    with suppress(NotFound, ApiError):
        key = (meta["namespace"], meta["name"])
        await client.patch(PODS, key, MergePatch(change), subresource="status")


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
