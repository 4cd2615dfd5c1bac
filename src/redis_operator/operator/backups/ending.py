"""The deletion of a backup: a worker deletes its objects in the store first.

A terminating namespace allows no worker to start, and deletes volumes and keys: a backup in it is
released at once, and its objects in a bucket stay.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct

from kubecontroller import (
    Again,
    AlreadyExists,
    BadRequest,
    Client,
    Done,
    Forbidden,
    Invalid,
    Key,
    Manifest,
    NotFound,
    Outcome,
    Propagation,
    Recorder,
    Regarding,
)
from kubecontroller.client.objects import JOBS
from kubecontroller.runtime import add_finalizer, has_finalizer, remove_finalizer
from redis_operator.api.redisbackup import RedisBackup, RedisBackupStatus
from redis_operator.manifests.workers import BACKUP_UID_LABEL, delete_job
from redis_operator.operator.world import REDIS_BACKUPS, World
from redis_operator.planning.backups.backup import location_of, path_of
from redis_operator.planning.backups.endings import (
    BackupEnding,
    is_held,
    name_taken,
    plan_backup_ending,
)

__all__ = ["BACKUP_FINALIZER", "BackupEndings"]

BACKUP_FINALIZER: Final = "redisoperator.dev/backup"
_REFUSED_SECONDS: Final = 30.0
_SOON_SECONDS: Final = 1.0

Report = Callable[[Manifest, RedisBackupStatus], Awaitable[None]]


class BackupEndings(Struct, frozen=True):
    """Holds backups by a finalizer until their objects in the store were dealt with."""

    client: Client
    world: World
    recorder: Recorder
    image: str
    clock: Callable[[], float] = time.time

    async def hold(self, raw: Manifest, backup: RedisBackup, *, begins: bool) -> bool:
        """Add the finalizer to a backup that has objects, and to no other; whether it changed."""
        wanted = is_held(backup) and (begins or backup.status.attempt > 0)
        if wanted and not has_finalizer(raw, BACKUP_FINALIZER):
            return await add_finalizer(self.client, REDIS_BACKUPS, raw, BACKUP_FINALIZER)
        if not is_held(backup) and has_finalizer(raw, BACKUP_FINALIZER):
            return await remove_finalizer(self.client, REDIS_BACKUPS, raw, BACKUP_FINALIZER)
        return False

    async def end(self, raw: Manifest, backup: RedisBackup | None, report: Report) -> Outcome:
        """Continue the deletion of a backup; None: its spec cannot be read."""
        if not has_finalizer(raw, BACKUP_FINALIZER):
            return Done()
        if backup is None:
            return await self._release(raw, "its spec cannot be read: its objects stay")
        meta = backup.metadata
        key, workers = (meta.namespace, meta.name), self.world.workers
        others = [
            worker
            for kind in ("backup", "verify")
            for worker in workers.of_backup(key, meta.uid, kind)
        ]
        plan = plan_backup_ending(
            backup,
            others,
            workers.deleting(key, meta.uid),
            pods=workers.living_pods(key),
            in_use=self.world.backups_in_use(key[0]),
            now=datetime.fromtimestamp(self.clock(), UTC),
        )
        return await self._carry_out(raw, backup, plan, report)

    async def _carry_out(
        self, raw: Manifest, backup: RedisBackup, plan: BackupEnding, report: Report
    ) -> Outcome:
        for name in plan.end:
            await self._end_job((backup.metadata.namespace, name))
        if plan.release:
            kept = "" if is_held(backup) else f"spec.deletionPolicy: {location_of(backup)} stays"
            return await self._release(raw, kept)
        await report(raw, plan.status)
        if plan.start:
            return await self._start(raw, backup, report)
        return Again(plan.again) if plan.again is not None else Done()

    async def _start(self, raw: Manifest, backup: RedisBackup, report: Report) -> Outcome:
        if not await self._is_held_now(backup):
            return Done()  # a cache without our last write would begin again
        made = delete_job(backup, path=path_of(backup), image=self.image)
        about = Regarding.of(REDIS_BACKUPS, raw)
        try:
            await self.client.create(JOBS, made)
        except AlreadyExists:
            return await self._taken(raw, backup, made["metadata"]["name"], report)
        except Forbidden as error:
            if any(cause.reason == "NamespaceTerminating" for cause in error.causes):
                text = f"its namespace ends: what is in {location_of(backup)} stays"
                return await self._release(raw, text)
            self.recorder.warning(about, "ChildRefused", f"{made['metadata']['name']}: {error}")
            return Again(_REFUSED_SECONDS)
        except (Invalid, BadRequest) as error:
            self.recorder.warning(about, "ChildRefused", f"{made['metadata']['name']}: {error}")
            return Again(_REFUSED_SECONDS)
        return Done()

    async def _taken(
        self, raw: Manifest, backup: RedisBackup, name: str, report: Report
    ) -> Outcome:
        """Find the owner of the Job: this backup (the cache is late), or another, left alone."""
        try:
            found = await self.client.get(JOBS, (backup.metadata.namespace, name))
        except NotFound:
            return Again(_SOON_SECONDS)
        if found.metadata.label(BACKUP_UID_LABEL) == backup.metadata.uid:
            return Again(_SOON_SECONDS)
        await report(raw, name_taken(backup, name, datetime.fromtimestamp(self.clock(), UTC)))
        return Again(_REFUSED_SECONDS)

    async def _is_held_now(self, backup: RedisBackup) -> bool:
        """Read a backup live: only one that still has the finalizer has objects to delete."""
        meta = backup.metadata
        try:
            found = await self.client.get(REDIS_BACKUPS, (meta.namespace, meta.name))
        except NotFound:
            return False
        return found["metadata"]["uid"] == meta.uid and has_finalizer(found, BACKUP_FINALIZER)

    async def _end_job(self, key: Key) -> None:
        job = self.world.workers.job(key)
        if job is None or job.metadata.is_deleting:
            return
        with suppress(NotFound):  # a conflict is retried: no pass checks for it after the release
            await self.client.delete(
                JOBS, key, uid=job.metadata.uid, propagation=Propagation.BACKGROUND
            )

    async def _release(self, raw: Manifest, kept: str) -> Outcome:
        if kept:
            self.recorder.normal(Regarding.of(REDIS_BACKUPS, raw), "ObjectsKept", kept)
        await remove_finalizer(self.client, REDIS_BACKUPS, raw, BACKUP_FINALIZER)
        return Done()
