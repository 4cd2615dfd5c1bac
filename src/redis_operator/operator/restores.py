"""New databases that begin with a backup: the worker that their servers copy it from.

A worker runs from when the database is created until it is in use, and never after. Servers take
its content over the replication protocol; see `planning/common/follow_source.py`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime

from msgspec import Struct
from msgspec.structs import replace

from kubecontroller.client.api import Client
from kubecontroller.client.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    KubeError,
    NotFound,
)
from kubecontroller.client.meta import Key, Manifest, controller_of, meta_of
from kubecontroller.client.objects import JOBS, Job
from kubecontroller.client.verbs import Propagation
from kubecontroller.runtime.events import Recorder, Regarding
from kubecontroller.runtime.logs import fields
from kubecontroller.runtime.outcomes import Again, Done, Outcome, Retry
from redis_operator.api.redis import Redis
from redis_operator.api.redisbackup import BackupPhase, RedisBackup
from redis_operator.api.redisbackup_validation import load_redisbackup
from redis_operator.api.validation import load, load_status
from redis_operator.manifests.facts import Facts, Restore, SourceLogin
from redis_operator.manifests.users import REPLICATION
from redis_operator.manifests.workers import restore_job, restore_job_name
from redis_operator.operator.workers import Workers, last_words, waiting
from redis_operator.operator.world import REDISES, World
from redis_operator.planning.restores import restore_limitation

__all__ = ["Restores", "restore_facts"]

_LOG = logging.getLogger(__name__)
_AGAIN_SECONDS = 30.0
_FAILED = "Failed"


def restore_facts(redis: Redis, facts: Facts, world: World) -> Facts:
    """Return the facts with the worker that servers of a new database copy, where one is wanted."""
    asked, meta = redis.spec.bootstrap.from_backup, redis.metadata
    if asked is None or redis.status.binding is not None:
        return facts
    backup = _backup(world, (meta.namespace, asked.name))
    problem = restore_limitation(backup, asked.name, facts.version)
    if problem is not None:
        restore = Restore(asked.name, problem=problem)
    else:
        job = world.workers.job((meta.namespace, restore_job_name(meta.name)))
        restore = _restore(redis, asked.name, job, world.workers)
    login = SourceLogin(REPLICATION, facts.passwords.replication)
    return replace(facts, source=login, restore=restore)


def _restore(redis: Redis, backup: str, job: Job | None, workers: Workers) -> Restore:
    """Return where the worker is, or why there is none."""
    if job is None:
        return Restore(backup, problem="its worker is not started yet", coming=True)
    if not _is_ours(job, redis.metadata.uid):
        taken = f"Job {job.metadata.name} already exists and is not this database's; delete it"
        return Restore(backup, problem=taken)
    pods = workers.pods_of(job)
    ready = [
        pod
        for pod in pods
        if pod.status.pod_ip
        and not pod.metadata.is_deleting
        and any(status.ready for status in pod.status.container_statuses or ())
    ]
    if ready:
        return Restore(backup, ready[0].status.pod_ip)
    report, words = last_words(pods)
    told = report.error if report is not None and report.error else words
    if told:
        return Restore(backup, problem=f"its worker failed: {told}")
    held = waiting(pods)
    if held:
        return Restore(backup, problem=held)
    text = "its worker reads it from end to end before any server is given it"
    return Restore(backup, problem=text, coming=True)


class Restores(Struct, frozen=True):
    """The controller of these workers."""

    client: Client
    world: World
    recorder: Recorder
    image: str
    clock: Callable[[], float] = time.time

    async def reconcile(self, key: Key) -> Outcome:
        """Start the worker of one database while it is needed, and end it afterwards."""
        raw = self.world.redis(key)
        job = self.world.workers.job((key[0], restore_job_name(key[1])))
        try:
            if raw is None or meta_of(raw).is_deleting or load_status(raw).binding is not None:
                return await self._end(raw, job)
            return await self._begin(key, raw, job)
        except KubeError as error:
            return Retry(error)

    async def _begin(self, key: Key, raw: Manifest, job: Job | None) -> Outcome:
        redis = load(raw)
        if not isinstance(redis, Redis) or redis.spec.paused:
            return Done()
        asked = redis.spec.bootstrap.from_backup
        if asked is None:
            return await self._end(raw, job)
        if job is not None:
            return await self._retry(raw, job)
        backup = _backup(self.world, (key[0], asked.name))
        if backup is None or backup.status.phase is not BackupPhase.COMPLETED:
            return Done()  # the backup wakes us
        if backup.status.shards != 1:
            return Done()
        return await self._start(raw, redis, backup)

    async def _start(self, raw: Manifest, redis: Redis, backup: RedisBackup) -> Outcome:
        made = restore_job(
            redis,
            backup.spec.storage,
            backup.status.path,
            image=self.image,
            encryption=backup.spec.encryption,
        )
        name = made["metadata"]["name"]
        try:
            await self.client.create(JOBS, made)
        except AlreadyExists:
            return Again(_AGAIN_SECONDS)  # ours, which the cache shows soon; or told by the facts
        except (Forbidden, Invalid, BadRequest) as error:
            about = Regarding.of(REDISES, raw)
            self.recorder.warning(about, "RestoreRefused", f"Job {name}: {error}")
            return Again(_AGAIN_SECONDS)
        about = Regarding.of(REDISES, raw)
        self.recorder.normal(about, "RestoreStarted", f"{name} reads {backup.status.location}")
        _LOG.info("a worker was started", extra=fields(job=name))
        return Done()

    async def _retry(self, raw: Manifest, job: Job) -> Outcome:
        """Remove a worker that failed some time ago: the next pass starts another."""
        ended = [
            c.last_transition_time
            for c in job.status.conditions or ()
            if c.type in (_FAILED, "Complete") and c.status == "True" and c.last_transition_time
        ]
        if not ended or not _is_ours(job, meta_of(raw).uid):
            return Done()
        passed = datetime.fromtimestamp(self.clock(), UTC) - max(ended)
        if passed.total_seconds() < _AGAIN_SECONDS:
            return Again(_AGAIN_SECONDS - passed.total_seconds())
        return await self._end(raw, job)

    async def _end(self, raw: Manifest | None, job: Job | None) -> Outcome:
        if raw is None or job is None or not _is_ours(job, meta_of(raw).uid):
            return Done()
        if job.metadata.is_deleting:
            return Done()
        try:
            await self.client.delete(
                JOBS,
                job.metadata.key,
                uid=job.metadata.uid,
                propagation=Propagation.BACKGROUND,
            )
        except (NotFound, Conflict):
            return Done()
        return Done()


def _is_ours(job: Job, uid: str) -> bool:
    owner = controller_of(job.metadata)
    return owner is not None and owner.uid == uid


def _backup(world: World, key: Key) -> RedisBackup | None:
    raw = world.backup(key)
    found = load_redisbackup(raw) if raw is not None else None
    return found if isinstance(found, RedisBackup) else None
