"""The archive of one schedule: its worker exists while it is wanted, and is asked for its state.

Nothing is remembered: the worker and its sources are named after the schedule, and applied whole.
The sources are written before the worker that mounts them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from kubecontroller import (
    Applier,
    BadRequest,
    Client,
    Conflict,
    Forbidden,
    Invalid,
    Key,
    Manifest,
    MergePatch,
    NotFound,
    NotOwned,
    ObjectMeta,
    Propagation,
    controller_of,
    meta_of,
)
from kubecontroller.client.objects import CONFIG_MAPS, DEPLOYMENTS, PODS, Pod
from redis_operator.api.redis import Redis
from redis_operator.api.redisbackupschedule import RedisBackupSchedule, RedisBackupScheduleStatus
from redis_operator.api.validation import load
from redis_operator.backup.task import ArchiverReport
from redis_operator.manifests.archivers import archiver, sources
from redis_operator.manifests.names import archiver_name, users_secret
from redis_operator.manifests.objects import digest
from redis_operator.manifests.users import BACKUP
from redis_operator.operator.backups.workers import ended_before, host_of, made_since, waiting
from redis_operator.operator.world import REDIS_BACKUP_SCHEDULES, World
from redis_operator.planning.backups.archives import (
    Archive,
    ArchivePlan,
    ArchiverSeen,
    is_ask_due,
    plan_archive,
    refused,
)
from redis_operator.planning.reporting.conditions import bounded

__all__ = ["Archives"]

_SOURCES_ANNOTATION = "redisoperator.dev/sources"
_REFUSED_SECONDS = 30.0  # no event reports new permissions or quotas


class Archives(Struct, frozen=True):
    """The workers that archive, of all schedules of one operator."""

    client: Client
    world: World
    applier: Applier
    image: str
    ask: Callable[[str], Awaitable[Mapping[str, ArchiverReport] | None]] | None = None

    async def keep(
        self,
        raw: Manifest,
        schedule: RedisBackupSchedule,
        status: RedisBackupScheduleStatus,
        now: datetime,
    ) -> ArchivePlan:
        """Bring the worker of a schedule up to date; `status` is the rest of its status."""
        place = (schedule.metadata.namespace, schedule.spec.redis)
        database = self.world.redis(place)
        redis = None
        if database is not None and not meta_of(database).is_deleting:
            loaded = load(database)
            if not isinstance(loaded, Redis):
                return ArchivePlan(status)  # its problems are in its own status
            redis = loaded
        plan = plan_archive(
            schedule,
            status,
            redis,
            await self._seen(schedule, now),
            pods=self.world.addresses(place),
            login=self._has_login(place),
            now=now,
        )
        if plan.remove:
            await self._remove(schedule)
        if plan.archive is not None and redis is not None:
            wrong = await self._apply(raw, schedule, redis, plan.archive)
            if wrong:
                refusal = refused(schedule, plan.status, bounded(wrong), now)
                return replace(plan, status=refusal, again=_REFUSED_SECONDS)
        return plan

    async def _seen(self, schedule: RedisBackupSchedule, now: datetime) -> ArchiverSeen:
        workers, meta = self.world.workers, schedule.metadata
        key = (meta.namespace, archiver_name(meta.name))
        exists = any(
            found is not None and _is_owned(found.metadata, meta.uid)
            for found in (workers.archivers.get(key), workers.sources.get(key))
        )
        pods = workers.archiver_pods((meta.namespace, meta.name))
        host = host_of(pods)
        trouble = "; ".join(text for text in (ended_before(pods), waiting(pods)) if text)
        ready = any(map(_is_ready, pods))
        seen = ArchiverSeen(exists, host, trouble, ready=ready)
        if pods and not host:
            newest = pods[0]
            seen = replace(seen, pod=newest.metadata.name, made=made_since([newest]))
        if not host or self.ask is None or not is_ask_due(schedule, now):
            return seen
        return replace(seen, told=await self.ask(host), asked=True)

    async def _apply(
        self, raw: Manifest, schedule: RedisBackupSchedule, redis: Redis, archive: Archive
    ) -> str:
        """Apply the objects of the worker; return why that is not possible, or an empty string."""
        workers, meta = self.world.workers, schedule.metadata
        key = (meta.namespace, archiver_name(meta.name))
        apply = partial(self.applier.apply_owned, owner_kind=REDIS_BACKUP_SCHEDULES, owner=raw)
        files = sources(schedule, archive.shards, base=archive.base)
        worker = archiver(
            schedule,
            redis,
            path=archive.path,
            allow_primary=archive.allow_primary,
            bridge=archive.bridge,
            image=self.image,
        )
        try:
            await apply(CONFIG_MAPS, files, observed=workers.sources.get(key))
            await apply(DEPLOYMENTS, worker, observed=workers.archivers.get(key))
            await self._wake(schedule, digest(files["data"]))
        except (Forbidden, Invalid, BadRequest, NotOwned) as error:
            return f"the worker {key[1]} may not be created or changed: {error}"
        return ""

    async def _wake(self, schedule: RedisBackupSchedule, seen: str) -> None:
        """Have kubelets refresh the sources at once: they do when a pod changes, or each minute.

        Until then the worker would not know the new address of a pod.
        """
        meta = schedule.metadata
        change = MergePatch({"metadata": {"annotations": {_SOURCES_ANNOTATION: seen}}})
        for pod in self.world.workers.archiver_pods((meta.namespace, meta.name)):
            if (pod.metadata.annotations or {}).get(_SOURCES_ANNOTATION) != seen:
                with suppress(NotFound, Conflict):
                    await self.client.patch(PODS, pod.metadata.key, change)

    async def _remove(self, schedule: RedisBackupSchedule) -> None:
        """Delete the worker, then its sources."""
        workers, meta = self.world.workers, schedule.metadata
        key = (meta.namespace, archiver_name(meta.name))
        worker, files = workers.archivers.get(key), workers.sources.get(key)
        if worker is not None and _is_owned(worker.metadata, meta.uid):
            with suppress(NotFound, Conflict):
                await self.client.delete(
                    DEPLOYMENTS, key, uid=worker.metadata.uid, propagation=Propagation.BACKGROUND
                )
            self.applier.forget(DEPLOYMENTS, key)
        if files is not None and _is_owned(files.metadata, meta.uid):
            with suppress(NotFound, Conflict):
                await self.client.delete(CONFIG_MAPS, key, uid=files.metadata.uid)
            self.applier.forget(CONFIG_MAPS, key)

    def _has_login(self, key: Key) -> bool:
        secret = self.world.secret((key[0], users_secret(key[1])))
        return secret is not None and bool((secret.data or {}).get(BACKUP))


def _is_ready(pod: Pod) -> bool:
    return any(status.ready for status in pod.status.container_statuses or ())


def _is_owned(meta: ObjectMeta, uid: str) -> bool:
    owner = controller_of(meta)
    return owner is not None and owner.uid == uid and not meta.is_deleting
