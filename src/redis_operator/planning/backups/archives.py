"""The archive of a schedule with `continuous`: where it lies, and what its worker is to do. Pure.

There is one worker while there is something to archive. What is not known (a worker that does not
respond, a database that was not observed yet) removes nothing and empties nothing: the window stays
as it was said last, and condition `Archiving` says how much that is worth.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from kubecontroller.custom import with_condition
from redis_operator.api.metadata import Condition
from redis_operator.api.redis import Redis
from redis_operator.api.redisbackupschedule import (
    ArchiveGap,
    ArchiveShard,
    ArchiveWindow,
    RedisBackupSchedule,
    RedisBackupScheduleStatus,
)
from redis_operator.api.status import Phase, ShardStatus
from redis_operator.backup.task import ArchiverReport, ShardTask, Source

from ..modes import MODES, is_sharded
from .attempts import not_created
from .backup import place_of

__all__ = [
    "ARCHIVING",
    "ASK_SECONDS",
    "BASE_ANNOTATION",
    "Archive",
    "ArchivePlan",
    "ArchiverSeen",
    "archive_path",
    "is_ask_due",
    "plan_archive",
    "refused",
]

ARCHIVING: Final = "Archiving"
"""The condition that says whether the window is still extended."""
BASE_ANNOTATION: Final = "redisoperator.dev/base"
"""On a schedule: a time, as RFC 3339 writes it; a base that is older is followed by another one."""
ASK_SECONDS: Final = 20.0
"""How often a worker is asked how it is: this bounds the writes of a status."""
_GAPLESS: Final = 2  # replicas: while one starts again, another has the stream
_LOOK_SECONDS: Final = 5.0
_LATE: Final = timedelta(seconds=60)
_BASE_LATE: Final = timedelta(days=2)
_BEGUN: Final = (ARCHIVING, "Behind", "WorkerSilent")
_ENDED: Final = (Phase.HIBERNATED, Phase.DELETING)
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"


class Archive(Struct, frozen=True):
    """What a worker is to archive."""

    path: str
    shards: tuple[ShardTask, ...]
    base: str
    allow_primary: bool = False
    bridge: bool = False
    replicas: int = 0
    cluster: bool = False


class ArchiverSeen(Struct, frozen=True):
    """The worker as it was seen.

    `host`: where it can be asked; empty: it does not run. `told`: what it answered; None: nothing.
    `ready`: whether it can be asked, by its probe. `trouble`: why it does not run. `made`: since
    when the containers of its `pod` are being created.
    """

    exists: bool = False
    host: str = ""
    trouble: str = ""
    ready: bool = True
    told: Mapping[str, ArchiverReport] | None = None
    asked: bool = False
    pod: str = ""
    made: datetime | None = None


class ArchivePlan(Struct, frozen=True):
    """What is reported, what the worker is given, whether it is removed, and when to plan again."""

    status: RedisBackupScheduleStatus
    archive: Archive | None = None
    remove: bool = False
    again: float | None = None
    gap: ArchiveGap | None = None  # one that was not known before


def archive_path(schedule: RedisBackupSchedule) -> str:
    """Return the folder of a schedule's archive in its store; each shard has one of its name there.

    The uid is part of it, as it is of a backup's folder: two schedules never write to one archive,
    whatever clusters share a bucket.
    """
    meta, storage = schedule.metadata, schedule.spec.template.storage
    above = storage.folder
    own = f"{meta.namespace}/{schedule.spec.redis}/{meta.name}-{meta.uid[:8]}/archive"
    return f"{above}/{own}" if above else own


def is_ask_due(schedule: RedisBackupSchedule, now: datetime) -> bool:
    """Whether a worker that runs is to be asked how it is."""
    known = schedule.status.window
    if known is None or _state(schedule.status) != "True":
        return True
    asked = _moment(known.time)
    return asked is None or abs(now - asked) >= timedelta(seconds=ASK_SECONDS)


def plan_archive(
    schedule: RedisBackupSchedule,
    status: RedisBackupScheduleStatus,
    redis: Redis | None,
    seen: ArchiverSeen,
    *,
    pods: Mapping[str, str],
    login: bool,
    now: datetime,
) -> ArchivePlan:
    """Decide about the archive of one schedule; `status` is what else is said of the schedule.

    `pods` has the addresses of the database's pods that run, `login` says whether the worker's
    user has a password yet.
    """
    if not schedule.spec.continuous and not seen.exists and _state(status) == "":
        return ArchivePlan(status)
    reason, text = _stopped(schedule, redis)
    if reason or redis is None:
        reported = _reported(schedule, status, now, "False", reason, text)
        return ArchivePlan(reported, remove=seen.exists)
    reason, text = _unready(schedule, redis, login=login)
    if reason:
        reported = _reported(schedule, status, now, "False", reason, text)
        return ArchivePlan(reported, again=_LOOK_SECONDS)
    archive = Archive(
        path=archive_path(schedule),
        shards=tuple(_shard(shard.name, _pods_of(shard), pods) for shard in redis.status.shards),
        base=_base(schedule, status),
        allow_primary=redis.spec.replicas == 0,
        bridge=_may_bridge(redis),
        replicas=redis.spec.replicas,
        cluster=is_sharded(redis.spec.mode.value),
    )
    plan = ArchivePlan(status, archive, again=ASK_SECONDS)
    return _by_report(schedule, plan, seen, now)


def refused(
    schedule: RedisBackupSchedule, status: RedisBackupScheduleStatus, text: str, now: datetime
) -> RedisBackupScheduleStatus:
    """Say that the API server does not take what the worker consists of."""
    return _reported(schedule, status, now, "False", "ChildRefused", text)


def _by_report(
    schedule: RedisBackupSchedule, plan: ArchivePlan, seen: ArchiverSeen, now: datetime
) -> ArchivePlan:
    """Say how the archive is, by what its worker answered."""
    status = plan.status
    if not seen.host:
        held = seen.trouble
        if not held and seen.made is not None:
            held, _ = not_created(seen.made, now, f"pod {seen.pod}")
        reason, text = ("WorkerWaits", held) if held else ("Starting", "the worker starts")
        return replace(plan, status=_reported(schedule, status, now, "False", reason, text))
    if not seen.asked:
        return plan
    if seen.told is None and not seen.ready and _reason(status) not in _BEGUN:
        text = "the worker starts"
        return replace(plan, status=_reported(schedule, status, now, "False", "Starting", text))
    if seen.told is None:
        text = f"the worker at {seen.host} does not respond: the window is what it said last"
        return replace(
            plan, status=_reported(schedule, status, now, "Unknown", "WorkerSilent", text)
        )
    assert plan.archive is not None
    window = _newer(status.window, _window(schedule, plan.archive, seen.told, now))
    gap = window.last_gap
    known = status.window.last_gap if status.window is not None else None
    status = replace(status, window=window)
    wrong = _wrong(window, now)
    if wrong:
        reason = "Behind" if window.newest else "Starting"
        status = _reported(schedule, status, now, "False", reason, wrong)
    else:
        status = _reported(
            schedule, status, now, "True", ARCHIVING, _sentence(window, plan.archive)
        )
    return replace(plan, status=status, gap=gap if gap is not None and gap != known else None)


def _newer(known: ArchiveWindow | None, found: ArchiveWindow) -> ArchiveWindow:
    """Return what was known where nothing is new but the time: that alone is not worth a write."""
    if known is None or replace(found, time=known.time, lag_seconds=known.lag_seconds) != known:
        return found
    return known


def _sentence(window: ArchiveWindow, archive: Archive) -> str:
    shards = len(window.shards)
    text = f"the stream of {shards} {'shard' if shards == 1 else 'shards'} is archived"
    if archive.replicas < (1 if archive.bridge else _GAPLESS):
        text += "; with fewer than two replicas a shard has a gap when the one it is read from ends"
    return text


def _wrong(window: ArchiveWindow, now: datetime) -> str:
    """Say what is wrong with an archive, shard by shard; empty: nothing."""
    found = []
    for shard in window.shards:
        newest = _moment(shard.newest)
        if not shard.oldest or newest is None:
            found.append(f"{shard.name}: {shard.message or 'nothing is stored yet'}")
        elif now - newest > _LATE:
            why = shard.message or "the store has nothing newer"
            found.append(f"{shard.name} is archived up to {shard.newest}: {why}")
    based = _moment(window.last_base)
    if based is not None and now - based > _BASE_LATE:
        found.append(f"no base was taken since {window.last_base}, and restores take longer")
    return "; ".join(found)


def _window(
    schedule: RedisBackupSchedule,
    archive: Archive,
    told: Mapping[str, ArchiverReport],
    now: datetime,
) -> ArchiveWindow:
    names = [shard.name for shard in archive.shards]
    answers = {name: told.get(name, ArchiverReport()) for name in names}
    whole = bool(answers) and all(one.oldest and one.newest for one in answers.values())
    # A shard that was empty when its archive began does not limit how far back others can go.
    began = [one.oldest for one in answers.values() if not one.began_empty]
    oldest = max(began or [one.oldest for one in answers.values()], default=0) if whole else 0
    newest = min((one.newest for one in answers.values()), default=0) if whole else 0
    based = min((one.based for one in answers.values()), default=0)
    gaps = [(gap, name) for name, one in answers.items() for gap in one.gaps]
    last = max(gaps, key=lambda found: (found[0].before, found[1]), default=None)
    return ArchiveWindow(
        oldest=_text_after(oldest),
        newest=_text(newest),
        lag_seconds=max(0, int(now.timestamp() - newest / 1e6)) if newest else None,
        gaps=len(gaps),
        last_gap=None
        if last is None
        else ArchiveGap(last[1], _text(last[0].after), _text_after(last[0].before), last[0].reason),
        last_base=_text(based),
        spooled_bytes=sum(one.spooled for one in answers.values()),
        stored_bytes=sum(one.stored for one in answers.values()),
        time=now.strftime(_TIME),
        path=archive.path,
        location=place_of(schedule.spec.template.storage, archive.path),
        shards=tuple(
            ArchiveShard(
                name,
                oldest=_text_after(one.oldest),
                newest=_text(one.newest),
                gaps=len(one.gaps),
                pod=one.attached,
                message=one.trouble,
            )
            for name, one in answers.items()
        ),
    )


def _stopped(schedule: RedisBackupSchedule, redis: Redis | None) -> tuple[str, str]:
    """Say why there is to be no worker, in a word and a sentence; empty: there is."""
    spec, name = schedule.spec, schedule.spec.redis
    if not spec.continuous:
        return "TurnedOff", "spec.continuous is false; what was archived stays in the store"
    if spec.suspend:
        return "Suspended", "nothing is archived: spec.suspend is true"
    if redis is None:
        return "NoDatabase", f"spec.redis: there is no Redis {name} in this namespace"
    phase = redis.status.phase
    if phase is not None and phase in _ENDED:  # until then servers may take writes
        return "NotRunning", f"Redis {name} is {phase.value}"
    return _alone(schedule, redis)


def _alone(schedule: RedisBackupSchedule, redis: Redis) -> tuple[str, str]:
    """Say why a primary that is meant to have no replica is not attached to; empty: it may be."""
    if redis.spec.replicas:
        return "", ""
    name, add = redis.metadata.name, "set its spec.replicas to 1 or more"
    if not schedule.spec.template.allow_primary:
        return "NoReplica", (
            f"Redis {name} has no replicas, and spec.template.allowPrimary is false; {add}"
        )
    if MODES[redis.spec.mode].lists_replicas:
        return "NoReplica", (
            f"Redis {name} has no replicas, and sentinels would list the worker as one; {add}"
        )
    if redis.spec.durability.min_replicas_to_write:
        return "NoReplica", (
            f"Redis {name} has no replicas, and the worker would count as one for its "
            f"spec.durability.minReplicasToWrite; {add}"
        )
    return "", ""


def _unready(schedule: RedisBackupSchedule, redis: Redis, *, login: bool) -> tuple[str, str]:
    """Return why no worker can start yet; one that runs is kept."""
    name = schedule.spec.redis
    if redis.status.binding is None:
        return "NotFormed", f"Redis {name} is not in use yet"
    if not redis.status.version or not redis.status.shards:
        return "NotSeen", f"the servers of Redis {name} were not observed yet"
    if not login:
        return "NoLogin", f"Redis {name} has no user for backups yet"
    return "", ""


def _may_bridge(redis: Redis) -> bool:
    """Whether a primary may count the worker as a replica for the moment that it reads there.

    Sentinels would list the worker permanently, and a primary that refuses writes without replicas
    would take them.
    """
    spec = redis.spec
    return not MODES[spec.mode].lists_replicas and not spec.durability.min_replicas_to_write


def _pods_of(shard: ShardStatus) -> list[str]:
    return [pod for pod in (shard.primary, *(one.pod for one in shard.replicas)) if pod]


def _shard(name: str, wanted: list[str], pods: Mapping[str, str]) -> ShardTask:
    found = [Source(pod, pods[pod]) for pod in sorted(set(wanted)) if pods.get(pod)]
    return ShardTask(name, tuple(found))


def _base(schedule: RedisBackupSchedule, status: RedisBackupScheduleStatus) -> str:
    """Return since when a base is wanted: each time that a backup was due, or on request."""
    asked = _moment(schedule.metadata.annotations.get(BASE_ANNOTATION, ""))
    found = [one for one in (_moment(status.last_schedule_time), asked) if one is not None]
    return max(found).astimezone(UTC).strftime(_TIME) if found else ""


def _reported(
    schedule: RedisBackupSchedule,
    status: RedisBackupScheduleStatus,
    now: datetime,
    *told: str,
) -> RedisBackupScheduleStatus:
    """Set the condition to a state, with a reason and a sentence."""
    state, reason, text = told
    condition = Condition(
        type=ARCHIVING,
        status=state,
        reason=reason,
        message=text,
        observed_generation=schedule.metadata.generation,
    )
    conditions = with_condition(status.conditions, condition, now.strftime(_TIME))
    return replace(status, conditions=tuple(conditions))


def _reason(status: RedisBackupScheduleStatus) -> str:
    return next((c.reason for c in status.conditions if c.type == ARCHIVING), "")


def _state(status: RedisBackupScheduleStatus) -> str:
    return next((c.status for c in status.conditions if c.type == ARCHIVING), "")


def _moment(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def _text(microseconds: int) -> str:
    """Return a time in whole seconds, no later than it is: so far a restore can go."""
    if not microseconds:
        return ""
    return datetime.fromtimestamp(microseconds // 1_000_000, UTC).strftime(_TIME)


def _text_after(microseconds: int) -> str:
    """Return a time in whole seconds, no earlier than it is: from there a restore can go."""
    return _text(microseconds + 999_999) if microseconds else ""
