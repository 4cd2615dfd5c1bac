"""New databases that are created from a backup: the worker that their servers copy it from.

A worker runs from the creation of the database until it is in use, and never after. Servers get its
content over the replication protocol; see `planning/common/follow_source.py`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime

from msgspec import Struct
from msgspec.structs import replace

from kubecontroller import (
    Again,
    AlreadyExists,
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
)
from kubecontroller.client.objects import JOBS, Job
from redis_operator.api.backup_storage import BackupEncryption, BackupStorage
from redis_operator.api.redis import BootstrapFromBackup, Redis
from redis_operator.api.redisbackup import BackupPhase, RedisBackup
from redis_operator.api.redisbackup_validation import load_redisbackup
from redis_operator.api.redisbackupschedule import RedisBackupSchedule
from redis_operator.api.redisbackupschedule_validation import load_schedule
from redis_operator.api.validation import load, load_status
from redis_operator.backup.task import Identity, Until
from redis_operator.manifests.facts import Facts, FillingFacts, Restore, SourceLogin
from redis_operator.manifests.objects import Object
from redis_operator.manifests.users import REPLICATION
from redis_operator.manifests.workers import fill_job, identity_of, restore_job, restore_job_name
from redis_operator.operator.backups.fillings import (
    filling_of,
    histories,
    is_outdated,
    targets_of,
    worker_ended,
)
from redis_operator.operator.backups.workers import Workers, final_message, waiting
from redis_operator.operator.world import REDISES, World
from redis_operator.planning.backups.archives import archive_path
from redis_operator.planning.backups.backup import place_of
from redis_operator.planning.backups.restores import (
    Way,
    archive_limitation,
    damage_limitation,
    mixed_limitation,
    newest_good,
    restore_limitation,
    until_of,
    way_of,
)
from redis_operator.planning.backups.schedules import SCHEDULE_LABEL
from redis_operator.redis.versions import Version, parse_version

__all__ = ["Restores", "newest_of", "restore_facts"]

_LOG = logging.getLogger(__name__)
_AGAIN_SECONDS = 30.0
_FAILED = "Failed"


def restore_facts(redis: Redis, facts: Facts, world: World) -> Facts:
    """Return the facts with the worker that restores a new database, if one is wanted.

    Servers copy the worker if one server holds all of the backup, and one shard all of the
    database; otherwise keys are sent to the primaries, and clients cannot connect until that is
    done. They cannot connect either while it is not known which of the two it will be.
    """
    redis = resolved(redis, world)
    asked, meta, status = redis.spec.bootstrap.from_backup, redis.metadata, redis.status
    if status.binding is not None or (
        status.restore is not None and status.restore.completion_time
    ):
        return facts
    mixed = mixed_limitation(redis)
    if asked is None:
        part = status.restore.backup if status.restore is not None else ""
        return replace(facts, filling=FillingFacts(part, problem=mixed)) if mixed else facts
    backup = _backup(world, (meta.namespace, asked.name))
    problem = _limitation(redis, backup, facts.version) or _no_archive(redis, world)
    job = world.workers.job((meta.namespace, restore_job_name(meta.name)))
    if job is not None and not _is_ours(job, meta.uid):
        problem = f"Job {job.metadata.name} already exists and is not this database's; delete it"
    way = way_of(redis, backup, _known_schedule(world, redis))
    if way is Way.CARRY:
        filling = filling_of(asked.label, job, world.workers)
        if problem is not None:
            filling = FillingFacts(asked.label, problem=problem)
        return replace(facts, filling=filling)
    if problem is not None:
        restore = Restore(asked.label, problem=problem)
    else:
        restore = _restore(asked.label, job, world.workers)
    unknown = FillingFacts(asked.label) if way is None else None
    login = SourceLogin(REPLICATION, facts.passwords.replication)
    return replace(facts, source=login, restore=restore, filling=unknown)


def _limitation(redis: Redis, backup: RedisBackup | None, version: Version) -> str | None:
    """Say why a backup is not restored, or None: its worker reports what it finds out."""
    asked = redis.spec.bootstrap.from_backup
    assert asked is not None
    mixed = mixed_limitation(redis)
    if mixed is not None or asked.storage is not None or asked.of_archive:
        return mixed
    if not asked.name:
        return (
            f"spec.bootstrap.fromBackup: RedisBackupSchedule {asked.schedule} has no completed "
            "backup yet"
        )
    return restore_limitation(backup, asked.name, version) or damage_limitation(redis, backup)


def _no_archive(redis: Redis, world: World) -> str | None:
    """Say why there is no archive of the wanted schedule, or None."""
    asked = redis.spec.bootstrap.from_backup
    if asked is None or not asked.of_archive or not asked.schedule:
        return None
    schedule = _schedule(world, (redis.metadata.namespace, asked.schedule))
    return schedule if isinstance(schedule, str) else archive_limitation(schedule)


def _restore(backup: str, job: Job | None, workers: Workers) -> Restore:
    """Return the address of the worker, or why there is none."""
    if job is None:
        return Restore(backup, problem="its worker is not started yet", coming=True)
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
    report, words = final_message(pods)
    message = report.error if report is not None and report.error else words
    if message:
        return Restore(backup, problem=f"its worker failed: {message}")
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
        loaded = load(raw)
        if not isinstance(loaded, Redis) or loaded.spec.paused:
            return Done()
        redis = resolved(loaded, self.world)
        asked = redis.spec.bootstrap.from_backup
        if asked is None:
            return await self._end(raw, job)
        if job is not None:
            return await self._retry(raw, redis, job)
        if redis.status.restore is not None and redis.status.restore.completion_time:
            return Done()
        place = _place(self.world, key[0], asked)
        if place is None:
            return Done()  # the backup triggers the next pass
        if damage_limitation(redis, place.backup) is not None:
            return Done()
        way = way_of(redis, place.backup, _known_schedule(self.world, redis))
        if way is None:
            return Done()  # the schedule triggers the next pass
        if way is Way.COPY and place.until is not None and not redis.status.version:
            return Done()  # the worker compares it with the archive's, and the status changes
        if way is Way.COPY:
            made = restore_job(
                redis,
                place.storage,
                place.path,
                image=self.image,
                encryption=place.encryption,
                identity=place.identity,
                until=place.until,
            )
            return await self._start(raw, made, place.location)
        return await self._fill(raw, redis, place)

    async def _fill(self, raw: Manifest, redis: Redis, place: _Place) -> Outcome:
        """Start the worker that restores keys to the primaries, once these exist."""
        pods = self.world.pods_of(meta_of(raw).key)
        running = {p.metadata.name: p.status.pod_ip for p in pods if not p.metadata.is_deleting}
        targets = targets_of(redis, running)
        version = parse_version(redis.status.engine, redis.status.version)
        if isinstance(targets, str) or version is None:
            return Done()  # the status triggers the next pass
        if _limitation(redis, place.backup, version) is not None:
            return Done()
        images = [
            container.image
            for pod in pods
            if pod.metadata.name == targets[0].pod
            for container in (pod.spec.containers or ())[:1]
        ]
        made = fill_job(
            redis,
            place.storage,
            place.path,
            targets=targets,
            image=self.image,
            server_image=images[0],
            encryption=place.encryption,
            until=place.until,
            identity=place.identity,
        )
        return await self._start(raw, made, place.location)

    async def _start(self, raw: Manifest, made: Object, location: str) -> Outcome:
        name = made["metadata"]["name"]
        try:
            await self.client.create(JOBS, made)
        except AlreadyExists:
            return Again(_AGAIN_SECONDS)  # its own, not in the cache yet; or reported by the facts
        except (Forbidden, Invalid, BadRequest) as error:
            about = Regarding.of(REDISES, raw)
            self.recorder.warning(about, "RestoreRefused", f"Job {name}: {error}")
            return Again(_AGAIN_SECONDS)
        about = Regarding.of(REDISES, raw)
        self.recorder.normal(about, "RestoreStarted", f"{name} reads {location}")
        _LOG.info("a worker was started", extra=fields(job=name))
        return Done()

    async def _retry(self, raw: Manifest, redis: Redis, job: Job) -> Outcome:
        """Delete a worker that failed some time ago, or sent keys to servers that do not lead now.

        The next pass starts another.
        """
        if not _is_ours(job, meta_of(raw).uid):
            return Done()
        over = worker_ended(self.world.workers.pods_of(job))
        if histories(job) is not None and over is not None and not over.exit_code:
            return await self._end(raw, job) if is_outdated(redis, job) else Done()
        ended = self._ended(job)
        if ended is None:
            return Done()
        passed = datetime.fromtimestamp(self.clock(), UTC) - ended
        if passed.total_seconds() < _AGAIN_SECONDS:
            return Again(_AGAIN_SECONDS - passed.total_seconds())
        return await self._end(raw, job)

    def _ended(self, job: Job) -> datetime | None:
        """Return when a worker ended: its Job, or its container while the sidecar still runs."""
        ended = [
            c.last_transition_time
            for c in job.status.conditions or ()
            if c.type in (_FAILED, "Complete") and c.status == "True" and c.last_transition_time
        ]
        if ended:
            return max(ended)
        over = worker_ended(self.world.workers.pods_of(job))
        return over.finished_at if over is not None else None

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


def resolved(redis: Redis, world: World) -> Redis:
    """Return a database with the name of the backup that its schedule refers to, if there is one.

    Once a restore has begun it is the one that the status names.
    """
    asked, restored = redis.spec.bootstrap.from_backup, redis.status.restore
    if asked is None or not asked.schedule or asked.of_archive:
        return redis
    begun = restored.backup if restored is not None else ""
    name = newest_of(world, redis.metadata.namespace, asked.schedule, begun=begun)
    begins = replace(redis.spec.bootstrap, from_backup=replace(asked, name=name))
    return replace(redis, spec=replace(redis.spec, bootstrap=begins))


def newest_of(world: World, namespace: str, schedule: str, *, begun: str) -> str:
    """Return the name of the backup that a schedule refers to; empty: there is none.

    It is of the schedule's database: the schedule may have named another one before.
    """
    known = _schedule(world, (namespace, schedule))
    database = known.spec.redis if isinstance(known, RedisBackupSchedule) else ""
    found = [
        backup
        for raw in world.backups
        if meta_of(raw).namespace == namespace
        and meta_of(raw).label(SCHEDULE_LABEL) == schedule
        and (backup := _backup(world, meta_of(raw).key)) is not None
        and (not database or backup.spec.redis == database or backup.metadata.name == begun)
    ]
    return newest_good(found, begun)


class _Place(Struct, frozen=True):
    """Where a backup is stored."""

    storage: BackupStorage
    path: str
    location: str  # for people
    encryption: BackupEncryption | None = None
    backup: RedisBackup | None = None
    until: Until | None = None  # the point in time, of an archive

    @property
    def identity(self) -> Identity | None:
        """Which backup has to be there; None: it was named by its place."""
        return identity_of(self.backup, self.path) if self.backup is not None else None


def _place(world: World, namespace: str, asked: BootstrapFromBackup) -> _Place | None:
    """Return where the backup of a new database is stored; None: it is not completed yet."""
    if asked.storage is not None:
        place = place_of(asked.storage, asked.path)
        until = until_of(asked)
        return _Place(asked.storage, asked.path, place, asked.encryption, until=until)
    if asked.of_archive:
        schedule = _schedule(world, (namespace, asked.schedule))
        return _archive(schedule, asked) if isinstance(schedule, RedisBackupSchedule) else None
    backup = _backup(world, (namespace, asked.name))
    if backup is None or backup.status.phase is not BackupPhase.COMPLETED:
        return None
    spec, status = backup.spec, backup.status
    return _Place(spec.storage, status.path, status.location, spec.encryption, backup)


def _archive(schedule: RedisBackupSchedule, asked: BootstrapFromBackup) -> _Place:
    """Return where a schedule stores its archive, and the point in time that is wanted."""
    template, path = schedule.spec.template, archive_path(schedule)
    place = place_of(template.storage, path)
    return _Place(template.storage, path, place, template.encryption, until=until_of(asked))


def _known_schedule(world: World, redis: Redis) -> RedisBackupSchedule | None:
    """Return the schedule whose archive a database is created from, if it can be used."""
    asked = redis.spec.bootstrap.from_backup
    if asked is None or not asked.of_archive or not asked.schedule:
        return None
    found = _schedule(world, (redis.metadata.namespace, asked.schedule))
    return found if isinstance(found, RedisBackupSchedule) else None


def _schedule(world: World, key: Key) -> RedisBackupSchedule | str:
    """Return a schedule, or why it cannot be used."""
    raw = world.schedules.get(key)
    name = f"spec.bootstrap.fromBackup.schedule: RedisBackupSchedule {key[1]}"
    if raw is None:
        return f"{name} does not exist in this namespace; an archive without one: use storage"
    found = load_schedule(raw)
    if isinstance(found, RedisBackupSchedule):
        return found
    return f"{name} cannot be used: {'; '.join(map(str, found))}"


def _backup(world: World, key: Key) -> RedisBackup | None:
    raw = world.backup(key)
    found = load_redisbackup(raw) if raw is not None else None
    return found if isinstance(found, RedisBackup) else None
