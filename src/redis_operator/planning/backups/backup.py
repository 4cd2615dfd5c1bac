"""What to do about one backup, and what to say of it: a function of what is there. Pure.

A worker is one attempt; each has a number and reads from servers that are chosen when it starts.
The only thing that is ever done is to start the next one. A backup that has an end keeps it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from kubecontroller.custom import with_condition
from redis_operator.api.metadata import Condition
from redis_operator.api.quantity import format_bytes
from redis_operator.api.redis import Redis
from redis_operator.api.redisbackup import (
    BackupPart,
    BackupPhase,
    BackupProgress,
    BackupStorage,
    Consistency,
    RedisBackup,
    RedisBackupSpec,
    RedisBackupStatus,
)
from redis_operator.api.redisrestore import KEPT_LABEL
from redis_operator.api.status import Phase, ShardStatus
from redis_operator.backup.task import Report, ShardTask, Source
from redis_operator.redis.versions import Ability, can, parse_version

from ..modes import MODES, is_sharded
from .attempts import State, Worker, held_up, reason_of, why

__all__ = [
    "PROGRESS_SECONDS",
    "BackupPlan",
    "Start",
    "is_due",
    "location_of",
    "path_of",
    "place_of",
    "plan_backup",
]

_PAUSE = timedelta(seconds=10)
_LOOK_SECONDS = 5.0
_LONGEST_HOLD = timedelta(hours=1)
_HOLD_LOOK_SECONDS = 60.0
_TIME = "%Y-%m-%dT%H:%M:%SZ"
PROGRESS_SECONDS = 10.0
"""How often a worker is asked how far it is: this bounds the writes of a status."""
_ENDED = (BackupPhase.COMPLETED, BackupPhase.FAILED)
_REST = (Phase.HIBERNATED, Phase.WAKING, Phase.DELETING)


class Start(Struct, frozen=True):
    """The next worker."""

    attempt: int
    shards: tuple[ShardTask, ...]
    cut: bool = False  # all shards at one moment


class BackupPlan(Struct, frozen=True):
    """What is reported, what is started, and when to plan again."""

    status: RedisBackupStatus
    start: Start | None = None
    again: float | None = None


def path_of(backup: RedisBackup) -> str:
    """Return the folder of a backup in its store: no two backups of a cluster share one."""
    meta, storage = backup.metadata, backup.spec.storage
    above = storage.folder
    own = f"{meta.namespace}/{backup.spec.redis}/{meta.name}-{meta.uid[:8]}"
    return f"{above}/{own}" if above else own


def location_of(backup: RedisBackup) -> str:
    """Return where a backup is, for people."""
    return place_of(backup.spec.storage, path_of(backup))


def place_of(storage: BackupStorage, path: str) -> str:
    """Return where a folder of a store is, for people."""
    if storage.s3 is not None:
        return f"s3://{storage.s3.bucket}/{path}"
    if storage.gcs is not None:
        return f"gs://{storage.gcs.bucket}/{path}"
    if storage.azure is not None:
        return f"az://{storage.azure.account}/{storage.azure.container}/{path}"
    assert storage.claim is not None
    return f"persistentvolumeclaim/{storage.claim.name}:/{path}"


def plan_backup(
    backup: RedisBackup,
    redis: Redis | None,
    workers: tuple[Worker, ...],
    *,
    pods: Mapping[str, str],
    login: bool,
    now: datetime,
    images: Mapping[str, str] = MappingProxyType({}),
) -> BackupPlan:
    """Decide about one backup.

    `pods` has the addresses of the database's pods that run, `images` those of their servers,
    `login` says whether the worker's user has a password yet.
    """
    known = backup.status
    if known.phase in _ENDED:
        return BackupPlan(known)
    last = max(workers, key=lambda worker: worker.attempt, default=None)
    succeeded = next((w for w in workers if w.state is State.SUCCEEDED and w.report), None)
    if succeeded is not None and succeeded.report is not None:
        return BackupPlan(_completed(backup, succeeded, succeeded.report, now))
    if last is not None and last.state is State.ACTIVE:
        held, again = held_up(last, now)
        reason = "WorkerWaits" if held else "Reading"
        status = _running(backup, last, reason, held or _reading(backup, last), now)
        status = replace(status, holds_slots=_holds(status, now))
        look = _HOLD_LOOK_SECONDS if status.holds_slots else again
        return BackupPlan(status, again=PROGRESS_SECONDS if last.host else look)
    failures = [w for w in workers if w.state is not State.ACTIVE]
    if last is not None and len(failures) >= backup.spec.attempts:
        return BackupPlan(_failed(backup, last, now))
    wait = _pause(last, len(failures), now)
    if last is not None and wait > 0:
        text = f"attempt {last.attempt} failed: {why(last)}; another worker follows"
        return BackupPlan(_running(backup, last, reason_of(last), text, now), again=wait)
    return _next(backup, redis, last, pods=pods, login=login, now=now, images=images)


def is_due(backup: RedisBackup, now: datetime) -> bool:
    """Whether a worker that reads is to be asked how far it is."""
    known = backup.status.progress
    if known is None or not known.time:
        return True
    return _text(now - timedelta(seconds=PROGRESS_SECONDS)) >= known.time


def _reading(backup: RedisBackup, worker: Worker) -> str:
    """Say how far a worker is, by what it answered last."""
    if worker.made is not None:
        return f"worker {worker.job} starts"
    text, known = f"worker {worker.job} is reading", worker.progress or backup.status.progress
    if known is None or backup.status.attempt != worker.attempt:
        return text
    return (
        f"{text}: {format_bytes(known.read)} so far, {known.parts} of "
        f"{max(backup.status.shards, 1)} shards are stored"
    )


def _next(
    backup: RedisBackup,
    redis: Redis | None,
    last: Worker | None,
    *,
    pods: Mapping[str, str],
    login: bool,
    now: datetime,
    images: Mapping[str, str],
) -> BackupPlan:
    attempt = last.attempt + 1 if last is not None else 1
    reason, text = _unready(backup, redis, login=login)
    if reason or redis is None:
        return _wait(backup, last, reason, text, now)
    found = [_shard(redis, shard, pods, backup.spec) for shard in redis.status.shards]
    missing = [shard for shard in found if isinstance(shard, str)]
    if missing:
        return _wait(backup, last, "NoSource", "; ".join(missing), now)
    shards = tuple(shard for shard in found if isinstance(shard, ShardTask))
    status = replace(
        _status(backup, BackupPhase.RUNNING, "Reading", f"attempt {attempt} starts", now),
        attempt=attempt,
        start_time=backup.status.start_time or _text(now),
        mode=redis.spec.mode.value,
        engine=redis.status.engine or redis.spec.engine.value,
        version=redis.status.version,
        image=images.get(shards[0].sources[0].pod, ""),
        shards=len(shards),
    )
    start = Start(attempt, shards, cut=_is_cut(backup.spec, redis))
    return BackupPlan(replace(status, holds_slots=_holds(status, now)), start)


def _holds(status: RedisBackupStatus, now: datetime) -> bool:
    """Whether slots are not to move: a shard would have what another has given away, or neither.

    Bounded: a worker that reads for longer than that is not worth a database that cannot grow.
    """
    reads = status.conditions[0].reason == "Reading"
    since = datetime.strptime(status.start_time, _TIME).replace(tzinfo=UTC)
    return reads and is_sharded(status.mode) and now - since < _LONGEST_HOLD


def _wait(
    backup: RedisBackup, last: Worker | None, reason: str, text: str, now: datetime
) -> BackupPlan:
    if last is not None:
        text = f"attempt {last.attempt} failed: {why(last)}; the next one waits: {text}"
    phase = BackupPhase.PENDING if last is None else BackupPhase.RUNNING
    return BackupPlan(_status(backup, phase, reason, text, now), again=_LOOK_SECONDS)


def _unready(backup: RedisBackup, redis: Redis | None, *, login: bool) -> tuple[str, str]:
    """Say why no worker can start yet, in a word and a sentence; empty: it can."""
    name = backup.spec.redis
    if redis is None:
        return "NoDatabase", f"spec.redis: there is no Redis {name} in this namespace"
    status = redis.status
    if status.binding is None:
        return "NotFormed", f"Redis {name} is not in use yet: it is {_phase(redis)}"
    if status.phase in _REST or redis.spec.hibernate:
        return "NotRunning", f"Redis {name} is {_phase(redis)}"
    restoring = status.restoring
    if restoring is not None and backup.metadata.labels.get(KEPT_LABEL) != restoring.uid:
        return "Restoring", f"RedisRestore {restoring.name} replaces the data of Redis {name}"
    if status.phase is Phase.SCALING and MODES[redis.spec.mode].is_sharded:
        return "SlotsMove", f"slots of Redis {name} are moving: shards would not fit together"
    if not status.version or not status.shards:
        return "NotSeen", f"the servers of Redis {name} were not observed yet"
    if not login:
        return "NoLogin", f"Redis {name} has no user for backups yet"
    if _is_cut(backup.spec, redis) and not _can_cut(redis):
        return "NoCut", (
            f"spec.consistency: Cut needs Redis 7.0 or Valkey, and Redis {name} has "
            f"{status.engine} {status.version}, where the end of a pause for a backup also ends "
            "that of a failover, and writes would be lost; use PerShard"
        )
    return "", ""


def _is_cut(asked: RedisBackupSpec, redis: Redis) -> bool:
    """Tell whether writes are paused for a backup: one shard is of one moment by itself."""
    return asked.consistency is Consistency.CUT and len(redis.status.shards) > 1


def _can_cut(redis: Redis) -> bool:
    found = parse_version(redis.status.engine, redis.status.version)
    return found is not None and can(found, Ability.OWN_PAUSE)


def _phase(redis: Redis) -> str:
    return redis.status.phase.value if redis.status.phase is not None else "new"


def _shard(
    redis: Redis, shard: ShardStatus, pods: Mapping[str, str], asked: RedisBackupSpec
) -> ShardTask | str:
    """Return the server to read a shard from, or why none is suitable.

    A replica in sync, the nearest to its primary first. A primary only where there is no replica by
    the spec: it would count the worker as one, sentinels would list it, and WAIT be content with
    it.
    """
    linked = sorted((r for r in shard.replicas if r.link == "up"), key=lambda r: r.lag_bytes)
    sources = [Source(r.pod, pods[r.pod]) for r in linked if pods.get(r.pod)]
    if not sources and redis.spec.replicas == 0:
        if not asked.allow_primary:
            return f"{shard.name} has no replica, and spec.allowPrimary is false"
        if pods.get(shard.primary):
            sources = [Source(shard.primary, pods[shard.primary])]
    if not sources:
        return f"{shard.name} has no replica that is in sync"
    primary = Source(shard.primary, pods[shard.primary]) if pods.get(shard.primary) else None
    if primary is None and _is_cut(asked, redis):
        return f"{shard.name} has no primary whose writes could be paused"
    return ShardTask(shard.name, tuple(sources), shard.slots, primary)


def _pause(last: Worker | None, failures: int, now: datetime) -> float:
    """How long to wait before the next attempt; each failure doubles it."""
    if last is None or last.ended is None or not failures:
        return 0.0
    pause = _PAUSE * int(2 ** (failures - 1))
    return (last.ended + pause - now).total_seconds()


def _completed(
    backup: RedisBackup, worker: Worker, report: Report, now: datetime
) -> RedisBackupStatus:
    text = f"{report.size} bytes of {max(backup.status.shards, 1)} shards are stored"
    return replace(
        _status(backup, BackupPhase.COMPLETED, "Completed", text, now),
        attempt=worker.attempt,
        job=worker.job,
        completion_time=_text(worker.ended or now),
        progress=None,
        rdb=report.rdb,
        size=report.size,
        stored=report.stored,
        paused_milliseconds=report.paused or None,
        parts=tuple(_part(part) for part in report.parts),
    )


def _part(raw: Mapping[str, str | int]) -> BackupPart:
    return BackupPart(
        name=str(raw.get("name", "")),
        slots=str(raw.get("slots", "")),
        pod=str(raw.get("pod", "")),
        offset=int(raw.get("offset", 0)),
        size=int(raw.get("size", 0)),
        stored=int(raw.get("stored", 0)),
    )


def _running(
    backup: RedisBackup, worker: Worker, reason: str, text: str, now: datetime
) -> RedisBackupStatus:
    found = _status(backup, BackupPhase.RUNNING, reason, text, now)
    begun = backup.status.start_time or _text(now)
    progress = worker.progress
    known = backup.status.progress if backup.status.attempt == worker.attempt else None
    if progress is not None:
        known = BackupProgress(progress.read, progress.stored, progress.parts, _text(now))
    return replace(
        found,
        attempt=worker.attempt,
        job=worker.job,
        start_time=begun,
        progress=known,
    )


def _failed(backup: RedisBackup, worker: Worker, now: datetime) -> RedisBackupStatus:
    text = f"attempt {worker.attempt} of {backup.spec.attempts} failed: {why(worker)}"
    found = _status(backup, BackupPhase.FAILED, reason_of(worker), text, now)
    return replace(
        found, attempt=worker.attempt, job=worker.job, completion_time=_text(worker.ended or now)
    )


def _status(
    backup: RedisBackup, phase: BackupPhase, reason: str, text: str, now: datetime
) -> RedisBackupStatus:
    known = backup.status
    done = "True" if phase is BackupPhase.COMPLETED else "False"
    complete = Condition(
        type="Complete",
        status=done,
        reason=reason,
        message=text,
        observed_generation=backup.metadata.generation,
    )
    return replace(
        known,
        observed_generation=backup.metadata.generation,
        holds_slots=False,
        phase=phase,
        message=text,
        path=path_of(backup),
        location=location_of(backup),
        conditions=tuple(with_condition(known.conditions, complete, _text(now))),
    )


def _text(moment: datetime) -> str:
    return moment.strftime(_TIME)
