"""The progress of a worker that restores a backup into a new database, key by key.

The Job is the record: its annotations have the primaries that get keys, and their histories.
"""

from __future__ import annotations

import msgspec

from kubecontroller.client.objects import Job, Pod, Terminated
from redis_operator.api.redis import Redis
from redis_operator.api.status import ShardStatus
from redis_operator.backup.task import FillTarget
from redis_operator.manifests.facts import FillingFacts
from redis_operator.manifests.names import CLIENT_PORT
from redis_operator.manifests.workers import TARGETS_ANNOTATION, WORKER_CONTAINER
from redis_operator.operator.backups.workers import Workers, final_message, waiting
from redis_operator.redis.slots import ALL_SLOTS, NO_SLOTS, SlotSet

__all__ = [
    "filling_of",
    "histories",
    "is_outdated",
    "primaries_of",
    "targets_of",
    "worker_ended",
]

_FORMED = "Restoring"  # the reason of Available once there are primaries to restore to


def histories(job: Job) -> dict[str, str] | None:
    """Return the history of each primary that a worker restores to; None: it restores to none."""
    raw = (job.metadata.annotations or {}).get(TARGETS_ANNOTATION, "")
    try:
        return msgspec.json.decode(raw, type=dict[str, str]) if raw else None
    except msgspec.DecodeError:
        return None


def worker_ended(pods: list[Pod]) -> Terminated | None:
    """Return how a worker ended; None: it has not, as far as it is known.

    A server beside it may outlive it, and with it the Job.
    """
    for pod in pods:
        for status in pod.status.container_statuses or ():
            if status.name == WORKER_CONTAINER and status.state.terminated is not None:
                return status.state.terminated
    return None


def filling_of(backup: str, job: Job | None, workers: Workers) -> FillingFacts:
    """Return the progress of the worker of a database."""
    if job is None:
        return FillingFacts(backup, message="its worker starts once the database is formed")
    pods = workers.pods_of(job)
    ended = worker_ended(pods)
    given = histories(job)
    if ended is not None and not ended.exit_code and given is not None:
        return FillingFacts(backup, carried=given)
    if ended is not None:
        report, words = final_message(pods)
        message = report.error if report is not None and report.error else words
        return FillingFacts(backup, problem=f"its worker failed: {message}; another worker follows")
    held = waiting(pods)
    if held:
        return FillingFacts(backup, problem=held)
    return FillingFacts(backup, message=f"{job.metadata.name} restores its keys to the primaries")


def targets_of(redis: Redis, pods: dict[str, str]) -> tuple[FillTarget, ...] | str:
    """Return the primaries of a database that is formed and empty, or why it is not yet.

    `pods` has the addresses of the running pods.
    """
    status = redis.status
    available = next((c for c in status.conditions if c.type == "Available"), None)
    if available is None or available.reason != _FORMED:
        return "the database is not formed yet"
    if status.restore is None or not status.restore.start_time:
        return "the database was not observed empty yet"
    return primaries_of(redis, pods)


def primaries_of(redis: Redis, pods: dict[str, str]) -> tuple[FillTarget, ...] | str:
    """Return the primaries of a database, or why not all of them are known.

    `pods` has the addresses of the running pods.
    """
    status = redis.status
    found = [_target(shard, pods) for shard in status.shards if shard.primary]
    targets = tuple(target for target in found if target is not None)
    if len(targets) != redis.spec.shards:
        return "not every shard has a primary yet"
    covered = NO_SLOTS
    for target in targets:
        covered |= SlotSet.parse(target.slots)
    if redis.spec.shards > 1 and covered != ALL_SLOTS:
        return "not every slot has a primary yet"
    return targets


def _target(shard: ShardStatus, pods: dict[str, str]) -> FillTarget | None:
    host = pods.get(shard.primary)
    if not host or not shard.replication_id:
        return None
    return FillTarget(shard.primary, host, shard.replication_id, shard.slots, CLIENT_PORT)


def is_outdated(redis: Redis, job: Job) -> bool:
    """Whether the primaries differ from those that a worker restored to, or have restarted."""
    known = {shard.primary: shard.replication_id for shard in redis.status.shards if shard.primary}
    return known != histories(job)
