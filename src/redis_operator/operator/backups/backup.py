"""One pass over one `RedisBackup`: observe its workers, start the next one if due, report.

Nothing is remembered. A worker has a name with its number, so that an operator which died after it
started one finds it, and does not start another with that number.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from kubecontroller import (
    Again,
    AlreadyExists,
    Applier,
    BadRequest,
    Client,
    Conflict,
    Done,
    Forbidden,
    Invalid,
    Key,
    KubeError,
    Manifest,
    NotFound,
    Outcome,
    Propagation,
    Recorder,
    Regarding,
    Retry,
    controller_of,
    fields,
    meta_of,
    with_condition,
)
from kubecontroller.client.objects import JOBS
from redis_operator.api.metadata import Condition
from redis_operator.api.redis import Redis
from redis_operator.api.redisbackup import BackupPhase, RedisBackup, RedisBackupStatus
from redis_operator.api.redisbackup_validation import load_redisbackup, load_redisbackup_status
from redis_operator.api.validation import load
from redis_operator.backup.task import WorkerProgress
from redis_operator.manifests.names import users_secret
from redis_operator.manifests.users import BACKUP
from redis_operator.manifests.workers import take_job, take_job_name, verify_job
from redis_operator.operator.backups.ending import BackupEndings
from redis_operator.operator.backups.precautions import wants_last_backup
from redis_operator.operator.world import REDIS_BACKUPS, World
from redis_operator.planning.backups.attempts import Worker
from redis_operator.planning.backups.backup import BackupPlan, Start, is_due, path_of, plan_backup
from redis_operator.planning.backups.verification import VERIFIED, plan_verification, unverified
from redis_operator.planning.reporting.conditions import bounded

__all__ = ["Backups"]

_LOG = logging.getLogger(__name__)
_REFUSED_SECONDS = 30.0  # no event reports new permissions or quotas
_SOON_SECONDS = 1.0


class Backups(Struct, frozen=True):
    """The controller of all backups of one operator."""

    client: Client
    world: World
    applier: Applier
    recorder: Recorder
    image: str
    endings: BackupEndings
    clock: Callable[[], float] = time.time
    ask: Callable[[str], Awaitable[WorkerProgress | None]] | None = None

    async def reconcile(self, key: Key) -> Outcome:
        """Bring one backup closer to completion."""
        raw = self.world.backup(key)
        if raw is None:
            return Done()
        try:
            if meta_of(raw).is_deleting:
                found = load_redisbackup(raw)
                backup = found if isinstance(found, RedisBackup) else None
                return await self.endings.end(raw, backup, self._report)
            return await self._pass(key, raw)
        except KubeError as error:
            return Retry(error)

    async def _pass(self, key: Key, raw: Manifest) -> Outcome:
        backup = load_redisbackup(raw)
        if not isinstance(backup, RedisBackup):
            text = "; ".join(map(str, backup))
            await self._report(raw, self._refused(raw, "InvalidSpec", text))
            return Done()
        redis = self._database((key[0], backup.spec.redis))
        if backup.status.phase is BackupPhase.COMPLETED and backup.spec.verify:
            return await self._verify(raw, backup, redis)
        plan = plan_backup(
            backup,
            redis,
            await self._workers(key, backup),
            pods=self._pods((key[0], backup.spec.redis)),
            login=self._has_login((key[0], backup.spec.redis)),
            now=self._now(),
            images=self._images((key[0], backup.spec.redis)),
        )
        begins = plan.start is not None and redis is not None
        if await self.endings.hold(raw, backup, begins=begins):
            return Again(_SOON_SECONDS)  # the next pass has the finalizer
        if plan.start is not None and redis is not None:
            return await self._start(raw, backup, redis, plan, plan.start)
        await self._report(raw, plan.status)
        if plan.status.phase is BackupPhase.COMPLETED and backup.spec.verify:
            return Again(_SOON_SECONDS)  # our own writes trigger no pass
        return Again(plan.again) if plan.again is not None else Done()

    async def _start(
        self, raw: Manifest, backup: RedisBackup, redis: Redis, plan: BackupPlan, start: Start
    ) -> Outcome:
        """Record which worker begins, and start it: the record shows when the backup began."""
        key = (backup.metadata.namespace, backup.metadata.name)
        name = take_job_name(backup.metadata.name, start.attempt)
        await self._report(raw, replace(plan.status, job=name))
        job = take_job(
            backup,
            redis,
            attempt=start.attempt,
            shards=start.shards,
            cut=start.cut,
            path=path_of(backup),
            image=self.image,
        )
        try:
            await self.client.create(JOBS, job)
        except AlreadyExists:
            taken = await self._taken(backup, (key[0], name))
            if not taken:
                return Again(_SOON_SECONDS)
            await self._report(raw, self._refused(raw, "ChildRefused", taken))
            return Again(_REFUSED_SECONDS)
        except (Forbidden, Invalid, BadRequest) as error:
            text = f"Job {name} may not be created: {error}"
            fresh = {**raw, "status": msgspec.to_builtins(plan.status)}
            await self._report(fresh, self._refused(fresh, "ChildRefused", text))
            return Again(_REFUSED_SECONDS)
        _LOG.info("a worker was started", extra=fields(backup=key[1], job=name))
        return Done()

    async def _workers(self, key: Key, backup: RedisBackup) -> tuple[Worker, ...]:
        """Return every attempt; one that reads is asked for its progress from time to time."""
        found = self.world.workers.of_backup(key, backup.metadata.uid)
        reads = backup.status.phase is BackupPhase.RUNNING
        if self.ask is None or not reads or not is_due(backup, self._now()):
            return found
        return tuple([replace(w, progress=await self.ask(w.host)) if w.host else w for w in found])

    async def _verify(self, raw: Manifest, backup: RedisBackup, redis: Redis | None) -> Outcome:
        """Have a complete backup loaded into a scratch server, and report the result."""
        key = (backup.metadata.namespace, backup.metadata.name)
        workers = self.world.workers.of_backup(key, backup.metadata.uid, "verify")
        plan = plan_verification(backup, workers, now=self._now())
        await self._report(raw, plan.status)
        if plan.over:
            await self._end((key[0], plan.over), backup.metadata.uid)
        if plan.start:
            job = verify_job(
                backup, redis, attempt=plan.start, path=backup.status.path, image=self.image
            )
            try:
                await self.client.create(JOBS, job)
            except AlreadyExists:
                taken = await self._taken(backup, (key[0], job["metadata"]["name"]))
                return await self._unverified(raw, backup, taken) if taken else Again(_SOON_SECONDS)
            except (Forbidden, Invalid, BadRequest) as error:
                text = f"Job {job['metadata']['name']} may not be created: {error}"
                return await self._unverified(raw, backup, text)
        return Again(plan.again) if plan.again is not None else Done()

    async def _unverified(self, raw: Manifest, backup: RedisBackup, text: str) -> Outcome:
        await self._report(raw, unverified(backup, "ChildRefused", bounded(text), self._now()))
        return Again(_REFUSED_SECONDS)

    async def _end(self, key: Key, uid: str) -> None:
        """Delete a Job whose worker has ended and whose scratch server has not."""
        job = self.world.workers.job(key)
        if job is None or job.metadata.is_deleting:
            return
        owner = controller_of(job.metadata)
        ended = any(c.status == "True" for c in job.status.conditions or ())
        if ended or owner is None or owner.uid != uid:
            return
        with suppress(NotFound, Conflict):
            await self.client.delete(
                JOBS, key, uid=job.metadata.uid, propagation=Propagation.BACKGROUND
            )

    async def _taken(self, backup: RedisBackup, job: Key) -> str:
        """Name the other owner of a Job, which is left alone; empty: the cache is late."""
        try:
            found = await self.client.get(JOBS, job)
        except NotFound:
            return ""
        owner = controller_of(found.metadata)
        if owner is not None and owner.uid == backup.metadata.uid:
            return ""
        return f"Job {job[1]} already exists and does not belong to this backup; delete it"

    def _database(self, key: Key) -> Redis | None:
        raw = self.world.redis(key)
        if raw is None or (meta_of(raw).is_deleting and not wants_last_backup(raw)):
            return None
        found = load(raw)
        return found if isinstance(found, Redis) else None

    def _pods(self, key: Key) -> dict[str, str]:
        return {
            pod.metadata.name: pod.status.pod_ip
            for pod in self.world.pods_of(key)
            if not pod.metadata.is_deleting and pod.status.phase == "Running"
        }

    def _images(self, key: Key) -> dict[str, str]:
        return {
            pod.metadata.name: container.image
            for pod in self.world.pods_of(key)
            for container in pod.spec.containers or ()
            if container.name == "server"
        }

    def _has_login(self, key: Key) -> bool:
        secret = self.world.secret((key[0], users_secret(key[1])))
        return secret is not None and bool((secret.data or {}).get(BACKUP))

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self.clock(), UTC)

    def _refused(self, raw: Manifest, reason: str, text: str) -> RedisBackupStatus:
        known, generation = load_redisbackup_status(raw), raw["metadata"].get("generation", 0)
        now = self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
        complete = Condition(
            type="Complete",
            status="False",
            reason=reason,
            message=bounded(text),
            observed_generation=generation,
        )
        return replace(
            known,
            observed_generation=generation,
            phase=known.phase or BackupPhase.PENDING,
            message=bounded(text),
            conditions=tuple(with_condition(known.conditions, complete, now)),
        )

    async def _report(self, raw: Manifest, after: RedisBackupStatus) -> None:
        before = load_redisbackup_status(raw)
        key = (raw["metadata"]["namespace"], raw["metadata"]["name"])
        try:
            written = await self.applier.apply_status(
                REDIS_BACKUPS, key, _plain(after), observed=_plain(before)
            )
        except NotFound:
            return  # it was deleted meanwhile
        if written is not None:
            self._announce(raw, before, after)

    def _announce(self, raw: Manifest, before: RedisBackupStatus, after: RedisBackupStatus) -> None:
        """Send events for changes that people care about: a phase, another attempt, a refusal."""
        about, message = Regarding.of(REDIS_BACKUPS, raw), after.message
        self._announce_verification(about, before, after)
        reason = after.conditions[0].reason if after.conditions else ""
        was = before.conditions[0].reason if before.conditions else ""
        if after.phase is BackupPhase.COMPLETED and before.phase is not after.phase:
            self.recorder.normal(about, "BackupCompleted", f"{message}: {after.location}")
        elif after.phase is BackupPhase.FAILED and before.phase is not after.phase:
            self.recorder.warning(about, "BackupFailed", message)
        elif after.attempt != before.attempt:
            self.recorder.normal(about, "BackupStarted", f"attempt {after.attempt}: {after.job}")
        elif reason not in (was, "Reading"):
            self.recorder.warning(about, reason, message)

    def _announce_verification(
        self, about: Regarding, before: RedisBackupStatus, after: RedisBackupStatus
    ) -> None:
        was = {c.reason for c in before.conditions if c.type == VERIFIED}
        for found in after.conditions:
            if found.type != VERIFIED or found.reason in (*was, "Verifying"):
                continue
            if found.status == "True":
                self.recorder.normal(about, "BackupVerified", found.message)
            else:
                reason = "BackupNotVerified" if found.status == "False" else found.reason
                self.recorder.warning(about, reason, found.message)


def _plain(status: RedisBackupStatus) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(status)
    return plain
