"""Restore points that annotations of schedules ask for: a worker takes each, once.

A request is in the status before its worker starts. The report of a worker is in the status before
the worker is deleted: an operator that dies in between finds one or the other.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

from msgspec import Struct

from kubecontroller import (
    AlreadyExists,
    BadRequest,
    Client,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    Propagation,
)
from kubecontroller.client.objects import JOBS
from redis_operator.api.redisbackupschedule import RedisBackupSchedule, RedisBackupScheduleStatus
from redis_operator.manifests.workers import point_job, point_job_name
from redis_operator.operator.world import World
from redis_operator.planning.backups.archives import Archive
from redis_operator.planning.backups.points import PointPlan, plan_point_request, point_refused

__all__ = ["Points"]


class Points(Struct, frozen=True):
    """The workers that take restore points, of all schedules of one operator."""

    client: Client
    world: World
    image: str

    async def plan(
        self,
        schedule: RedisBackupSchedule,
        status: RedisBackupScheduleStatus,
        archive: Archive | None,
        now: datetime,
    ) -> PointPlan:
        """Decide about the restore point that is requested, and start its worker."""
        meta = schedule.metadata
        key = (meta.namespace, meta.name)
        worker = self.world.workers.marking(key, meta.uid)
        shards = archive.shards if archive is not None else ()
        plan = plan_point_request(schedule, status, shards, worker, now)
        known = plan.status.restore_point
        if not plan.start or known is None or archive is None:
            return plan
        job = point_job(
            schedule,
            path=archive.path,
            point=known.name,
            request=plan.start,
            shards=archive.shards,
            cluster=archive.cluster,
            image=self.image,
        )
        name = point_job_name(meta.name)
        try:
            await self.client.create(JOBS, job)
        except AlreadyExists:
            if self.world.workers.job((meta.namespace, name)) is not None:
                text = f"Job {name} exists and does not belong to this schedule; delete it"
                return point_refused(plan, text)
        except (Forbidden, Invalid, BadRequest) as error:
            return point_refused(plan, f"Job {name} may not be created: {error}")
        return plan

    async def remove(self, schedule: RedisBackupSchedule) -> None:
        """Remove the worker of the last request."""
        meta = schedule.metadata
        job = self.world.workers.job((meta.namespace, point_job_name(meta.name)))
        if job is None or job.metadata.is_deleting:
            return
        with suppress(NotFound, Conflict):
            await self.client.delete(
                JOBS,
                job.metadata.key,
                uid=job.metadata.uid,
                propagation=Propagation.BACKGROUND,
            )
