"""One pass over one `RedisBackupSchedule`: delete expired backups, create the one that is due.

A backup is created before the status says so. An operator that dies in between finds it by its
name, which contains its time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
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
    Recorder,
    Regarding,
    Retry,
    meta_of,
    with_condition,
)
from redis_operator.api.cron import Cron, read_cron
from redis_operator.api.metadata import Condition, Metadata
from redis_operator.api.redisbackup import BackupPhase
from redis_operator.api.redisbackup_validation import load_redisbackup_status
from redis_operator.api.redisbackupschedule import RedisBackupSchedule, RedisBackupScheduleStatus
from redis_operator.api.redisbackupschedule_validation import load_schedule, load_schedule_status
from redis_operator.operator.backups.archives import Archives
from redis_operator.operator.backups.points import Points
from redis_operator.operator.world import REDIS_BACKUP_SCHEDULES, REDIS_BACKUPS, World
from redis_operator.planning.backups.archives import ARCHIVING, ArchivePlan
from redis_operator.planning.backups.points import PointPlan
from redis_operator.planning.backups.schedules import (
    OWNER_LABEL,
    Due,
    Scheduled,
    SchedulePlan,
    backup_of,
    plan_schedule,
)
from redis_operator.planning.reporting.conditions import bounded

__all__ = ["Schedules"]

_REFUSED_SECONDS = 30.0  # no event reports new permissions or quotas
_ANNOUNCED = ("Scheduled", ARCHIVING)
_NORMAL = ("Suspended", ARCHIVING, "Starting", "TurnedOff", "NotFormed", "NotSeen", "NoLogin")
_TOLD_BY_SCHEDULE = ("Suspended",)  # once is enough


class Schedules(Struct, frozen=True):
    """The controller of all schedules of one operator."""

    client: Client
    world: World
    applier: Applier
    recorder: Recorder
    archives: Archives
    points: Points
    clock: Callable[[], float] = time.time

    async def reconcile(self, key: Key) -> Outcome:
        """Bring the backups of one schedule up to date."""
        raw = self.world.schedules.get(key)
        if raw is None or meta_of(raw).is_deleting:
            return Done()
        try:
            return await self._pass(raw)
        except KubeError as error:
            return Retry(error)

    async def _pass(self, raw: Manifest) -> Outcome:
        schedule = load_schedule(raw)
        if not isinstance(schedule, RedisBackupSchedule):
            text = "; ".join(map(str, schedule))
            await self._report(raw, self._refused(raw, "InvalidSpec", text))
            return Done()
        cron = read_cron(schedule.spec.schedule, schedule.spec.time_zone)
        assert isinstance(cron, Cron)
        now = datetime.fromtimestamp(self.clock(), UTC)
        found = {meta_of(one).name: one for one in self.world.backups_of_schedule(schedule)}
        backups = [_scheduled(one) for one in found.values()]
        in_use = self.world.backups_in_use(schedule.metadata.namespace)
        plan = plan_schedule(schedule, cron, backups, in_use=in_use, now=now)
        for name in plan.delete:
            await self._delete(raw, found[name])
        refused = ""
        if plan.create is not None:
            refused = await self._create(raw, schedule, plan.create)
        status = self._refused(raw, "BackupRefused", refused) if refused else plan.status
        # An archive is kept also while backups are refused: its worker must know the servers.
        archive = await self.archives.keep(raw, schedule, status, now)
        point = await self.points.plan(schedule, archive.status, archive.archive, now)
        await self._report(raw, point.status)
        if point.remove:
            await self.points.remove(schedule)
        self._announce_missed(raw, plan)
        self._announce_gap(raw, archive)
        self._announce_point(raw, schedule.status, point)
        soon = _REFUSED_SECONDS if refused else plan.again
        waits = [wait for wait in (soon, archive.again, point.again) if wait is not None]
        return Again(min(waits)) if waits else Done()

    async def _delete(self, raw: Manifest, backup: Manifest) -> None:
        """Delete the very backup that was decided about, unless it changed meanwhile."""
        meta = meta_of(backup)
        try:
            await self.client.delete(
                REDIS_BACKUPS, meta.key, uid=meta.uid, resource_version=meta.resource_version
            )
        except (NotFound, Conflict):
            return  # it is gone, or the next pass decides by its new state
        except (Forbidden, Invalid, BadRequest) as error:  # not a reason to create no other backup
            text = f"backup {meta.name} is no longer kept, and may not be deleted: {error}"
            about = Regarding.of(REDIS_BACKUP_SCHEDULES, raw)
            self.recorder.warning(about, "BackupNotDeleted", bounded(text))
            return
        about = Regarding.of(REDIS_BACKUP_SCHEDULES, raw)
        self.recorder.normal(about, "BackupDeleted", f"backup {meta.name} is no longer kept")

    async def _create(self, raw: Manifest, schedule: RedisBackupSchedule, due: Due) -> str:
        """Create the backup that is due; return why that is not possible, or an empty string."""
        about = Regarding.of(REDIS_BACKUP_SCHEDULES, raw)
        try:
            await self.client.create(REDIS_BACKUPS, backup_of(schedule, due))
        except AlreadyExists:
            return await self._taken(about, schedule, due)
        except (Forbidden, Invalid, BadRequest) as error:
            return f"RedisBackup {due.name} may not be created: {error}"
        self.recorder.normal(about, "BackupCreated", f"backup {due.name} was due")
        return ""

    async def _taken(self, about: Regarding, schedule: RedisBackupSchedule, due: Due) -> str:
        """Find the owner of the backup: this schedule (the cache is late), or another one."""
        try:
            found = await self.client.get(REDIS_BACKUPS, (schedule.metadata.namespace, due.name))
        except NotFound:
            return ""  # created for this time and deleted since
        labels = (found["metadata"].get("labels")) or {}
        if labels.get(OWNER_LABEL) != schedule.metadata.uid:
            text = f"RedisBackup {due.name} exists and is not of this schedule: no other is created"
            self.recorder.warning(about, "NameTaken", text)
        return ""

    def _announce_missed(self, raw: Manifest, plan: SchedulePlan) -> None:
        if plan.missed is not None:
            about = Regarding.of(REDIS_BACKUP_SCHEDULES, raw)
            text = f"{plan.status.message}: more than spec.startingDeadlineSeconds have passed"
            self.recorder.warning(about, "BackupMissed", text)

    def _announce_gap(self, raw: Manifest, plan: ArchivePlan) -> None:
        if plan.gap is not None:
            gap, about = plan.gap, Regarding.of(REDIS_BACKUP_SCHEDULES, raw)
            text = f"{gap.shard}: no restore can go to a time between {gap.after} and {gap.before}"
            self.recorder.warning(about, "ArchiveGap", f"{text}: {gap.reason}")

    def _announce_point(
        self, raw: Manifest, before: RedisBackupScheduleStatus, plan: PointPlan
    ) -> None:
        known, was = plan.status.restore_point, before.restore_point
        if known is None or known.phase is BackupPhase.PENDING:
            return
        if was is not None and (was.name, was.phase) == (known.name, known.phase):
            return
        about = Regarding.of(REDIS_BACKUP_SCHEDULES, raw)
        if known.phase is BackupPhase.COMPLETED:
            self.recorder.normal(about, "RestorePointTaken", f"{known.name} is {known.message}")
        else:
            self.recorder.warning(about, "RestorePointFailed", f"{known.name}: {known.message}")

    def _refused(self, raw: Manifest, reason: str, text: str) -> RedisBackupScheduleStatus:
        known, generation = load_schedule_status(raw), raw["metadata"].get("generation", 0)
        now = datetime.fromtimestamp(self.clock(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        condition = Condition(
            type="Scheduled",
            status="False",
            reason=reason,
            message=bounded(text),
            observed_generation=generation,
        )
        return replace(
            known,
            message=bounded(text),
            next_time="",
            conditions=tuple(with_condition(known.conditions, condition, now)),
        )

    async def _report(self, raw: Manifest, after: RedisBackupScheduleStatus) -> None:
        before, key = load_schedule_status(raw), meta_of(raw).key
        try:
            written = await self.applier.apply_status(
                REDIS_BACKUP_SCHEDULES, key, _plain(after), observed=_plain(before)
            )
        except NotFound:
            return  # it was deleted meanwhile
        if written is not None:
            self._announce(raw, before, after)

    def _announce(
        self, raw: Manifest, before: RedisBackupScheduleStatus, after: RedisBackupScheduleStatus
    ) -> None:
        """Send events for conditions whose reason changed."""
        about = Regarding.of(REDIS_BACKUP_SCHEDULES, raw)
        known = {found.type: found.reason for found in before.conditions}
        for found in after.conditions:
            if found.type not in _ANNOUNCED or found.reason in (known.get(found.type), "Scheduled"):
                continue
            if found.type == ARCHIVING and found.reason in _TOLD_BY_SCHEDULE:
                continue
            tell = self.recorder.normal if found.reason in _NORMAL else self.recorder.warning
            tell(about, found.reason, found.message)


def _scheduled(raw: Manifest) -> Scheduled:
    meta, spec = msgspec.convert(raw["metadata"], Metadata), raw.get("spec") or {}
    return Scheduled(meta, load_redisbackup_status(raw), verify=bool(spec.get("verify")))


def _plain(status: RedisBackupScheduleStatus) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(status)
    return plain
