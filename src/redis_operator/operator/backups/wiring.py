"""Connects the controllers of backups and restores to the caches, with their triggers."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping

from kubecontroller import (
    Controller,
    ControllerBuilder,
    Key,
    Manager,
    Manifest,
    by_label,
    mapped,
    meta_of,
)
from kubecontroller.client.objects import Pod
from redis_operator.backup.task import ArchiverReport, WorkerProgress
from redis_operator.manifests.names import (
    ARCHIVE_LABEL,
    DATABASE_LABEL,
    INTENT_ANNOTATION,
    POINT_LABEL,
    RESTORED_LABEL,
)
from redis_operator.manifests.replacing_workers import RESTORE_LABEL
from redis_operator.manifests.workers import BACKUP_LABEL
from redis_operator.operator.backups.archives import Archives
from redis_operator.operator.backups.backup import Backups
from redis_operator.operator.backups.ending import BackupEndings
from redis_operator.operator.backups.points import Points
from redis_operator.operator.backups.redis_restores import RedisRestores
from redis_operator.operator.backups.restores import Restores
from redis_operator.operator.backups.schedules import Schedules
from redis_operator.operator.metrics.backups import BackupCollector
from redis_operator.operator.metrics.restores import RestoreCollector
from redis_operator.operator.metrics.schedules import ScheduleCollector
from redis_operator.operator.settings import Settings
from redis_operator.operator.world import World, backed_up_by, origin_of
from redis_operator.planning.backups.schedules import SCHEDULE_LABEL

__all__ = ["add_backups", "add_redis_restores", "add_restores", "add_schedules"]


def add_backups(
    manager: Manager,
    settings: Settings,
    world: World,
    *,
    clock: Callable[[], float] = time.time,
    ask: Callable[[str], Awaitable[WorkerProgress | None]] | None = None,
) -> Controller:
    """Add the controller of `RedisBackup`s to a manager; `ask` asks a worker for its progress.

    A backup is triggered by itself, its workers, and changes of its database.
    """

    def waiting(raw: Manifest) -> Iterable[Key]:
        """Return the backups of a database that are not finished."""
        return [
            meta_of(backup).key
            for backup in world.backups.find("database", meta_of(raw).key)
            if (backup.get("status") or {}).get("phase") not in ("Completed", "Failed")
        ]

    builder = ControllerBuilder(manager, "redisbackup", world.backups)
    builder.watches(world.redises, mapped(waiting))
    builder.watches(world.workers.jobs, by_label(BACKUP_LABEL))
    builder.watches(world.workers.pods, by_label(BACKUP_LABEL))
    reconciler = Backups(
        client=manager.client,
        world=world,
        applier=builder.applier(annotation=INTENT_ANNOTATION),
        recorder=manager.recorder,
        image=settings.worker_image,
        endings=BackupEndings(
            client=manager.client,
            world=world,
            recorder=manager.recorder,
            image=settings.worker_image,
            clock=clock,
        ),
        clock=clock,
        ask=ask,
    )
    manager.metrics.registry.register(BackupCollector(lambda: list(world.backups)))
    return builder.add(reconciler.reconcile, workers=2, deadline=60.0)


def add_restores(
    manager: Manager,
    settings: Settings,
    world: World,
    *,
    clock: Callable[[], float] = time.time,
) -> Controller:
    """Add the controller of workers that new databases copy a backup from."""

    def begins(raw: Manifest) -> Iterable[Key]:
        """Return a database that is created from a backup, or was before the spec changed."""
        bootstrap = (raw.get("spec") or {}).get("bootstrap") or {}
        begun = (raw.get("status") or {}).get("restore")
        return (meta_of(raw).key,) if bootstrap.get("fromBackup") or begun else ()

    def named(raw: Manifest) -> Iterable[Key]:
        """Return the databases that are created from this backup, or from one of its schedule."""
        place, schedule = meta_of(raw).key, meta_of(raw).label(SCHEDULE_LABEL)
        return [
            key
            for redis in world.all_redises()
            if (key := meta_of(redis).key)[0] == place[0]
            and (origin_of(redis) == place[1] or (schedule and _schedule_of(redis) == schedule))
        ]

    def archived(raw: Manifest) -> Iterable[Key]:
        """Return the databases that are created from a point in time of this schedule's archive."""
        place = meta_of(raw).key
        return [
            key
            for redis in world.all_redises()
            if (key := meta_of(redis).key)[0] == place[0] and _schedule_of(redis) == place[1]
        ]

    builder = ControllerBuilder(manager, "restore", world.redises, when=lambda _: False)
    builder.watches(world.redises, mapped(begins))
    builder.watches(world.backups, mapped(named))
    builder.watches(world.schedules, mapped(archived))
    builder.watches(world.workers.jobs, by_label(RESTORED_LABEL))
    builder.watches(world.workers.pods, by_label(RESTORED_LABEL))
    reconciler = Restores(
        client=manager.client,
        world=world,
        recorder=manager.recorder,
        image=settings.worker_image,
        clock=clock,
    )
    return builder.add(reconciler.reconcile, workers=2, deadline=60.0)


def add_redis_restores(
    manager: Manager,
    settings: Settings,
    world: World,
    *,
    clock: Callable[[], float] = time.time,
) -> Controller:
    """Add the controller of `RedisRestore`s, triggered by its database, backups and workers."""

    def unfinished(database: Key) -> Iterable[Key]:
        return [
            meta_of(raw).key
            for raw in world.restores.find("database", database)
            if (raw.get("status") or {}).get("phase") not in ("Completed", "Failed")
        ]

    manager.metrics.registry.register(RestoreCollector(lambda: list(world.restores)))
    builder = ControllerBuilder(manager, "redisrestore", world.restores)
    builder.watches(world.redises, mapped(lambda raw: unfinished(meta_of(raw).key)))
    builder.watches(
        world.backups,
        mapped(lambda raw: [key for place in backed_up_by(raw) for key in unfinished(place)]),
    )
    builder.watches(world.workers.jobs, by_label(RESTORE_LABEL))
    builder.watches(world.workers.pods, by_label(RESTORE_LABEL))
    reconciler = RedisRestores(
        client=manager.client,
        world=world,
        applier=builder.applier(annotation=INTENT_ANNOTATION),
        recorder=manager.recorder,
        image=settings.worker_image,
        refresh_seconds=settings.secret_refresh,
        clock=clock,
    )
    return builder.add(reconciler.reconcile, workers=2, deadline=60.0)


def add_schedules(
    manager: Manager,
    settings: Settings,
    world: World,
    *,
    clock: Callable[[], float] = time.time,
    ask: Callable[[str], Awaitable[Mapping[str, ArchiverReport] | None]] | None = None,
) -> Controller:
    """Add the controller of `RedisBackupSchedule`s; `ask` asks a worker for its archive's state.

    A schedule is triggered by its backups, the time, and, with an archive, its worker and database.
    """

    def archived(raw: Manifest) -> Iterable[Key]:
        return world.archives_of(meta_of(raw).key)

    def archived_server(pod: Pod) -> Iterable[Key]:
        return world.archives_of((pod.metadata.namespace, pod.metadata.label(DATABASE_LABEL)))

    manager.metrics.registry.register(ScheduleCollector(lambda: list(world.schedules)))
    builder = ControllerBuilder(manager, "redisbackupschedule", world.schedules)
    builder.watches(world.backups, by_label(SCHEDULE_LABEL))
    builder.watches(world.redises, mapped(archived))
    builder.watches(world.pods, mapped(archived_server))
    for objects in (world.workers.archivers, world.workers.sources, world.workers.pods):
        builder.watches(objects, by_label(ARCHIVE_LABEL))
    builder.watches(world.workers.jobs, by_label(POINT_LABEL))
    builder.watches(world.workers.pods, by_label(POINT_LABEL))
    applier = builder.applier(annotation=INTENT_ANNOTATION)
    reconciler = Schedules(
        client=manager.client,
        world=world,
        applier=applier,
        recorder=manager.recorder,
        archives=Archives(
            client=manager.client,
            world=world,
            applier=applier,
            image=settings.worker_image,
            ask=ask,
        ),
        points=Points(client=manager.client, world=world, image=settings.worker_image),
        clock=clock,
    )
    return builder.add(reconciler.reconcile, workers=2, deadline=60.0)


def _schedule_of(raw: Manifest) -> str:
    """Return the name of the schedule whose newest backup a database is created from."""
    bootstrap = (raw.get("spec") or {}).get("bootstrap") or {}
    return str((bootstrap.get("fromBackup") or {}).get("schedule", ""))
