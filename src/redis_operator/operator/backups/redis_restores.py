"""One pass over one `RedisRestore`: observe, decide, record the decision, and act.

Nothing is remembered. What a worker is about to replace is recorded before it is started, and
whether it may is read live from the API: the backup of the current data, the database that is
closed for this very restore, and that no other attempt was decided on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
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
    fields,
    meta_of,
    with_condition,
)
from kubecontroller.client.objects import JOBS
from kubecontroller.runtime import add_finalizer, has_finalizer, remove_finalizer
from redis_operator.api.metadata import Condition
from redis_operator.api.redis import Redis
from redis_operator.api.redisbackup import RedisBackup
from redis_operator.api.redisbackup_validation import load_redisbackup
from redis_operator.api.redisbackupschedule import RedisBackupSchedule
from redis_operator.api.redisbackupschedule_validation import load_schedule
from redis_operator.api.redisrestore import (
    KEPT_LABEL,
    RedisRestore,
    RedisRestoreStatus,
    RestorePhase,
)
from redis_operator.api.redisrestore_validation import (
    load_redisrestore,
    load_redisrestore_status,
)
from redis_operator.api.validation import load
from redis_operator.manifests.objects import Object
from redis_operator.manifests.replacing_workers import (
    Content,
    rehearse_job,
    rehearse_job_name,
    replace_job,
    replace_job_name,
)
from redis_operator.manifests.workers import identity_of
from redis_operator.operator.backups.fillings import is_outdated, primaries_of
from redis_operator.operator.backups.replacements import is_orphaned
from redis_operator.operator.backups.restores import newest_of
from redis_operator.operator.world import REDIS_BACKUPS, REDIS_RESTORES, REDISES, World
from redis_operator.planning.backups.origins import (
    Limitation,
    Origin,
    origin_of,
    origin_of_backup,
)
from redis_operator.planning.backups.redisrestores import (
    ENDED_PHASES,
    REPLACING_PHASES,
    RestoreFacts,
    RestorePlan,
    not_saved,
    plan_restore,
)
from redis_operator.planning.backups.replacing import kept_backup, start_limitation
from redis_operator.planning.backups.restore_plans import reason_reported
from redis_operator.planning.reporting.conditions import bounded
from redis_operator.redis.versions import parse_version

__all__ = ["RESTORE_FINALIZER", "RedisRestores"]

RESTORE_FINALIZER = "redisoperator.dev/restore"
_LOG = logging.getLogger(__name__)
_REFUSED_SECONDS = 30.0
_SOON_SECONDS = 0.5
_LOOK_SECONDS = 5.0
_USUAL = (  # within a phase: nothing is wrong
    *("AnotherRestore", "NoBackup", "BackupRuns", "NotReady", "Checking", "Preparing", "Closing"),
    *("Saving", "Restoring", "Opening", "WorkerWaits"),
)


class RedisRestores(Struct, frozen=True):
    """The controller of all restores of one operator."""

    client: Client
    world: World
    applier: Applier
    recorder: Recorder
    image: str
    refresh_seconds: float  # kubelets refresh mounted Secrets within so many seconds
    clock: Callable[[], float] = time.time

    async def reconcile(self, key: Key) -> Outcome:
        """Bring one restore closer to completion."""
        raw = self.world.restores.get(key)
        if raw is None:
            return Done()
        try:
            return await self._pass(key, raw)
        except KubeError as error:
            return Retry(error)

    async def _pass(self, key: Key, raw: Manifest) -> Outcome:
        restore = load_redisrestore(raw)
        if not isinstance(restore, RedisRestore):
            await self._report(raw, self._unreadable(raw, "; ".join(map(str, restore))))
            return Done()
        facts = self._facts(key, restore)
        if facts is None:
            return Again(_LOOK_SECONDS)  # the database's spec cannot be read: its status says so
        plan = plan_restore(restore, facts)
        begun = plan.status.phase not in (RestorePhase.PENDING, *ENDED_PHASES)
        if begun and not has_finalizer(raw, RESTORE_FINALIZER):
            if meta_of(raw).is_deleting:
                return Done()
            await add_finalizer(self.client, REDIS_RESTORES, raw, RESTORE_FINALIZER)
            return Again(_SOON_SECONDS)
        if facts.redis is not None and not plan.status.database and begun:
            plan = replace(plan, status=replace(plan.status, database=facts.redis.metadata.uid))
        if not plan.start:
            await self._report(raw, plan.status)
        return await self._do(raw, restore, facts, plan)

    async def _do(
        self, raw: Manifest, restore: RedisRestore, facts: RestoreFacts, plan: RestorePlan
    ) -> Outcome:
        for name in plan.end:
            await self._end_job((restore.metadata.namespace, name), restore.metadata.uid)
        decided = replace(restore, status=plan.status)
        if plan.save:
            return await self._save(raw, decided, facts)
        if plan.start:
            return await self._start(raw, decided, facts)
        if plan.status.phase in ENDED_PHASES and has_finalizer(raw, RESTORE_FINALIZER):
            await remove_finalizer(self.client, REDIS_RESTORES, raw, RESTORE_FINALIZER)
        return Again(plan.again) if plan.again is not None else Done()

    # Facts

    def _facts(self, key: Key, restore: RedisRestore) -> RestoreFacts | None:
        """Return the facts around the restore; None: the database's spec cannot be read."""
        spec, status, uid = restore.spec, restore.status, restore.metadata.uid
        place = (key[0], spec.redis)
        raw = self.world.redis(place)
        redis = load(raw) if raw is not None else None
        if redis is not None and not isinstance(redis, Redis):
            return None
        if redis is not None and status.database not in ("", redis.metadata.uid):
            redis = None  # it was deleted, and another one has its name
        job = self.world.workers.job((key[0], _job_name(status, key[1])))
        worker = self.world.workers.of_restore(job, uid) if job is not None else None
        kept = self._backup((key[0], status.kept)) if status.kept else None
        if kept is not None and kept.metadata.labels.get(KEPT_LABEL) != uid:
            kept = None  # it has another owner and only the same name
        current = job.metadata.uid if job is not None and worker is not None else ""
        return RestoreFacts(
            redis=redis,
            origin=self._origin(key[0], restore, redis),
            now=self._now(),
            earlier=self._earlier(place, restore),
            busy=self._busy(place, status.kept),
            kept=kept,
            worker=worker,
            others=self.world.workers.others_of_restore(key, current),
            living=self.world.workers.lives(key, current),
            outdated=job is not None and redis is not None and is_outdated(redis, job),
            orphaned=redis is not None and is_orphaned(redis, self.world),
            refresh=timedelta(seconds=self.refresh_seconds),
        )

    def _origin(
        self, namespace: str, restore: RedisRestore, redis: Redis | None
    ) -> Origin | Limitation:
        asked, status = restore.spec.source, restore.status
        name, schedule = asked.name, None
        if asked.schedule:
            raw = self.world.schedules.get((namespace, asked.schedule))
            loaded = load_schedule(raw) if raw is not None else None
            schedule = loaded if isinstance(loaded, RedisBackupSchedule) else None
            name = newest_of(self.world, namespace, asked.schedule, begun=status.backup)
        found = self._backup((namespace, name)) if name else None
        known = redis.status if redis is not None else None
        ours = parse_version(known.engine, known.version) if known is not None else None
        return origin_of(asked, found, schedule, ours)

    def _backup(self, key: Key) -> RedisBackup | None:
        raw = self.world.backup(key)
        found = load_redisbackup(raw) if raw is not None else None
        return found if isinstance(found, RedisBackup) else None

    def _earlier(self, place: Key, restore: RedisRestore) -> str:
        """Return another restore of the database that comes first; empty: this one does."""
        mine = restore.metadata
        for raw in self.world.restores.find("database", place):
            meta, phase = meta_of(raw), load_redisrestore_status(raw).phase
            if meta.uid == mine.uid or phase in ENDED_PHASES:
                continue
            begun = phase not in (None, RestorePhase.PENDING)
            created = raw["metadata"].get("creationTimestamp", "")
            if begun or (created, meta.name) < (mine.creation_timestamp, mine.name):
                return meta.name
        return ""

    def _busy(self, place: Key, kept: str) -> tuple[str, ...]:
        """Return the backups of the database that workers are reading, without its own one."""
        return tuple(
            meta_of(raw).name
            for raw in self.world.backups.find("database", place)
            if (raw.get("status") or {}).get("phase") == "Running" and meta_of(raw).name != kept
        )

    # Actions

    async def _save(self, raw: Manifest, restore: RedisRestore, facts: RestoreFacts) -> Outcome:
        """Create the backup of the current data."""
        name = restore.status.kept
        if facts.kept is not None:
            return Again(_SOON_SECONDS)
        if isinstance(facts.origin, Limitation):
            text = f"spec.keep.storage: it is not known where to: {facts.origin.text}"
            await self._report(raw, self._refused(raw, "NotSaved", text))
            return Again(_LOOK_SECONDS)
        try:
            await self.client.create(REDIS_BACKUPS, kept_backup(restore, facts.origin))
        except AlreadyExists:
            return await self._taken(raw, restore, facts)
        except (Forbidden, Invalid, BadRequest) as error:
            text = f"RedisBackup {name} may not be created: {error}"
            await self._report(raw, self._refused(raw, "NotSaved", text))
            return Again(_REFUSED_SECONDS)
        return Done()

    async def _taken(self, raw: Manifest, restore: RedisRestore, facts: RestoreFacts) -> Outcome:
        """Find the owner of the backup: this restore (the cache is late), or another one."""
        key = (restore.metadata.namespace, restore.status.kept)
        with suppress(NotFound):
            found = await self.client.get(REDIS_BACKUPS, key)
            if meta_of(found).label(KEPT_LABEL) != restore.metadata.uid:
                text = "another one has its name; delete that one, and create another RedisRestore"
                await self._report(raw, not_saved(restore, facts, text).status)
        return Again(_SOON_SECONDS)

    async def _start(self, raw: Manifest, restore: RedisRestore, facts: RestoreFacts) -> Outcome:
        """Start the worker of the attempt, once its prerequisites exist.

        Which attempt it is, and that it may have replaced data, is recorded before it is created.
        """
        status, name = restore.status, _job_name(restore.status, restore.metadata.name)
        replaces = status.phase in REPLACING_PHASES
        found = self._job(restore, facts)
        if isinstance(found, str):
            return await self._not_started(raw, raw, restore, "WorkerWaits", found)
        status = replace(status, job=name, started=status.started or replaces)
        await self._report(raw, status)
        written = {**raw, "status": _plain(status)}
        refused = await self._not_allowed(restore) if replaces else None
        if refused is not None:
            return await self._not_started(raw, written, restore, "WorkerWaits", refused)
        try:
            await self.client.create(JOBS, found)
        except AlreadyExists:
            return Again(_LOOK_SECONDS)
        except (Forbidden, Invalid, BadRequest) as error:
            text = f"Job {name} may not be created: {error}"
            return await self._not_started(raw, written, restore, "ChildRefused", text)
        _LOG.info("a worker was started", extra=fields(job=name))
        return Done()

    async def _not_started(
        self, raw: Manifest, written: Manifest, restore: RedisRestore, reason: str, text: str
    ) -> Outcome:
        """Report why a worker was not started, and that it was not.

        If an earlier operator may have started one, that record stays.
        """
        decided = {**raw, "status": _plain(restore.status)}
        refused = self._refused(decided, reason, f"the next worker does not start: {text}")
        started = load_redisrestore_status(raw).started
        await self._report(written, replace(refused, job="", started=started))
        return Again(_REFUSED_SECONDS if reason == "ChildRefused" else _LOOK_SECONDS)

    def _job(self, restore: RedisRestore, facts: RestoreFacts) -> Object | str:
        """Return the Job to create, or why not now."""
        status, redis = restore.status, facts.redis
        if redis is None:
            return f"there is no Redis {restore.spec.redis}"
        origin: Origin | Limitation = facts.origin
        if status.phase is RestorePhase.ROLLING_BACK:
            if facts.kept is None:  # never that of the backup that could not be restored
                return f"RedisBackup {status.kept}, which has the data before, is not there"
            origin = origin_of_backup(facts.kept)
        if isinstance(origin, Limitation):
            return origin.text
        pods = self.world.pods_of((redis.metadata.namespace, redis.metadata.name))
        running = {p.metadata.name: p.status.pod_ip for p in pods if not p.metadata.is_deleting}
        targets = primaries_of(redis, running)
        if isinstance(targets, str):
            return targets
        images = {p.metadata.name: c.image for p in pods for c in (p.spec.containers or ())[:1]}
        common: dict[str, Any] = {
            "attempt": status.attempt,
            "image": self.image,
            "server_image": images[targets[0].pod],
        }
        if status.phase not in REPLACING_PHASES:
            return rehearse_job(restore, redis, _content(origin), **common)
        return replace_job(restore, redis, _content(origin), targets=targets, **common)

    async def _not_allowed(self, restore: RedisRestore) -> str | None:
        """Read live whether a worker may drop the database's data; return why not, or None."""
        namespace, status = restore.metadata.namespace, restore.status
        try:
            mine = await self.client.get(REDIS_RESTORES, (namespace, restore.metadata.name))
            kept = await self.client.get(REDIS_BACKUPS, (namespace, status.kept))
            redis = await self.client.get(REDISES, (namespace, restore.spec.redis))
        except NotFound as error:
            return str(error)
        return start_limitation(restore, mine=mine, kept=kept, redis=redis)

    async def _end_job(self, key: Key, uid: str) -> None:
        job = self.world.workers.job(key)
        if job is None or job.metadata.is_deleting:
            return
        if self.world.workers.of_restore(job, uid) is None:
            return
        with suppress(NotFound, Conflict):
            await self.client.delete(
                JOBS, key, uid=job.metadata.uid, propagation=Propagation.BACKGROUND
            )

    # Reports

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self.clock(), UTC)

    def _unreadable(self, raw: Manifest, text: str) -> RedisRestoreStatus:
        """Refuse a spec permanently; a restore that has begun stays as it is, and says why."""
        status = self._refused(raw, "InvalidSpec", text)
        if status.phase is not RestorePhase.PENDING:
            return status
        moment = self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
        return replace(status, phase=RestorePhase.FAILED, completion_time=moment)

    def _refused(self, raw: Manifest, reason: str, text: str) -> RedisRestoreStatus:
        known, generation = load_redisrestore_status(raw), raw["metadata"].get("generation", 0)
        complete = Condition(
            type="Complete",
            status="False",
            reason=reason,
            message=bounded(text),
            observed_generation=generation,
        )
        now = self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
        return replace(
            known,
            observed_generation=generation,
            phase=known.phase or RestorePhase.PENDING,
            message=bounded(text),
            conditions=tuple(with_condition(known.conditions, complete, now)),
        )

    async def _report(self, raw: Manifest, after: RedisRestoreStatus) -> None:
        before, key = load_redisrestore_status(raw), meta_of(raw).key
        try:
            written = await self.applier.apply_status(
                REDIS_RESTORES, key, _plain(after), observed=_plain(before)
            )
        except NotFound:
            return  # it was deleted meanwhile
        if written is None:
            return
        about = Regarding.of(REDIS_RESTORES, raw)
        if after.phase is not before.phase and after.phase is not None:
            bad = after.phase in (RestorePhase.FAILED, RestorePhase.ROLLING_BACK)
            tell = self.recorder.warning if bad or after.failure else self.recorder.normal
            tell(about, f"Restore{after.phase.value}", after.message)
        elif reason_reported(after) not in (reason_reported(before), "Working"):
            usual = reason_reported(after) in _USUAL
            tell = self.recorder.normal if usual else self.recorder.warning
            tell(about, reason_reported(after), after.message)


def _content(origin: Origin) -> Content:
    identity = identity_of(origin.backup, origin.path) if origin.backup is not None else None
    return Content(origin.storage, origin.path, origin.encryption, origin.until, identity)


def _job_name(status: RedisRestoreStatus, name: str) -> str:
    attempt = max(status.attempt, 1)
    if status.phase in (*REPLACING_PHASES, RestorePhase.OPENING, *ENDED_PHASES):
        return replace_job_name(name, attempt)
    return rehearse_job_name(name, attempt)


def _plain(status: RedisRestoreStatus) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(status)
    return plain
