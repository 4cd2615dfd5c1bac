"""The description and the limits of the fields of `RedisBackupSchedule`. See `describe`."""

from __future__ import annotations

from typing import Any, Final

from .limits import described, named
from .quantity import QUANTITY_PATTERN

__all__ = ["REDISBACKUPSCHEDULE_FIELDS"]

_FIELD: Final = r"[0-9A-Za-z*,/#-]+"
_CRON: Final = rf"^(@(hourly|daily|weekly|monthly|yearly)|{_FIELD}( {_FIELD}){{4}})$"
_ZONE: Final = r"^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$"
_MOST: Final = 1000
_DAY: Final = 86400

REDISBACKUPSCHEDULE_FIELDS: Final[dict[str, dict[str, Any]]] = {
    "RedisBackupSchedule.spec": described("What is backed up, when, and how long that is kept."),
    "RedisBackupSchedule.status": described("The observed state. Only the operator writes it."),
    "RedisBackupScheduleSpec.redis": named("Name of a Redis in the same namespace."),
    "RedisBackupScheduleSpec.schedule": described(
        "When a backup is due, as in cron: minute, hour, day of the month, month, day of "
        "the week; or @hourly, @daily, @weekly, @monthly, @yearly.",
        pattern=_CRON,
        maxLength=200,
    ),
    "RedisBackupScheduleSpec.template": described("How each backup is taken: its spec."),
    "RedisBackupScheduleSpec.time_zone": described(
        "Time zone of the schedule, such as Europe/Berlin.", pattern=_ZONE, maxLength=64
    ),
    "RedisBackupScheduleSpec.suspend": described(
        "Whether no backup is taken for now. What would have been due meanwhile is not made up; "
        "retention continues."
    ),
    "RedisBackupScheduleSpec.jitter_seconds": described(
        "A backup starts up to this long after it is due: always the same time for one schedule, "
        "and another one for another, so that not all start at once.",
        minimum=0,
        maximum=_DAY,
    ),
    "RedisBackupScheduleSpec.concurrency_policy": described(
        "What happens when a backup is due and an earlier one of the schedule has not ended. "
        "Forbid: it starts after that. Allow: both are taken. Replace: the earlier one is deleted."
    ),
    "RedisBackupScheduleSpec.starting_deadline_seconds": described(
        "How late a backup may start; after that it is skipped. Absent: no limit. Of several "
        "that were missed, one is made up.",
        minimum=1,
        maximum=30 * _DAY,
    ),
    "RedisBackupScheduleSpec.verify": described(
        "Which backups are verified, beside all of them with template.verify. Weekly: the first of "
        "each week, from Monday in the schedule's time zone, unless the newest good one is larger "
        "than 10 GiB. Always: all. Never: none."
    ),
    "RedisBackupScheduleSpec.retention": described(
        "Which backups of the schedule stay; those that no field keeps are deleted, also in the "
        "store. Without keepLast, daily, weekly, monthly and maxAgeDays all stay. The newest good "
        "one always does."
    ),
    "BackupRetention.keep_last": described("Keep this many.", minimum=1, maximum=_MOST),
    "BackupRetention.daily": described(
        "Keep the newest of each of this many days that have one, in the schedule's time zone.",
        minimum=0,
        maximum=_MOST,
    ),
    "BackupRetention.weekly": described(
        "Keep the newest of each of this many weeks that have one; weeks begin on Monday.",
        minimum=0,
        maximum=_MOST,
    ),
    "BackupRetention.monthly": described(
        "Keep the newest of each of this many months that have one.", minimum=0, maximum=_MOST
    ),
    "BackupRetention.max_age_days": described(
        "Delete those that are older, though another field keeps them. Ages are counted up to the "
        "newest good backup.",
        minimum=1,
        maximum=36500,
    ),
    "BackupRetention.keep_failed": described(
        "How many that failed are kept, for inspection.", minimum=0, maximum=100
    ),
    "RedisBackupScheduleSpec.continuous": described(
        "Whether a worker archives the replication stream of every shard all the time, so that a "
        "restore can go back to any time in status.window. It is attached to a replica, or, with "
        "template.allowPrimary, to a primary that is meant to have none; in mode Failover never "
        "to a primary. While the schedule is suspended there is no worker. What it stored is kept "
        "when this is turned off and when the schedule is deleted."
    ),
    "RedisBackupScheduleSpec.archive": described(
        "How the stream is archived. Store and encryption are those of template."
    ),
    "ArchiveOptions.keep_hours": described(
        "How far a restore can go back. What is older, and not needed for that, is deleted from "
        "the archive.",
        minimum=1,
        maximum=87600,
    ),
    "ArchiveOptions.spool_size": described(
        "How much is kept on the disk of the worker's node while the store refuses it; at "
        "least 64Mi. When that is full the worker detaches and attaches again later.",
        pattern=QUANTITY_PATTERN,
        maxLength=40,
    ),
    "ArchiveOptions.resources": described(
        "Resources of the worker. Absent: 100m CPU and 128Mi, at most 512Mi."
    ),
    "RedisBackupScheduleStatus.observed_generation": described("The generation that was observed."),
    "RedisBackupScheduleStatus.message": described("The state in one sentence."),
    "RedisBackupScheduleStatus.conditions": described(
        "Conditions in the standard format of Kubernetes.", listKey="type"
    ),
    "RedisBackupScheduleStatus.redis": described(
        "The database that all of this is about: when spec.redis changes, it begins again."
    ),
    "RedisBackupScheduleStatus.schedule": described(
        "The schedule and time zone that are followed; empty while it is suspended."
    ),
    "RedisBackupScheduleStatus.since": described(
        "Since when they are: what was due before is not made up."
    ),
    "RedisBackupScheduleStatus.last_schedule_time": described(
        "When the backup was due that was created last."
    ),
    "RedisBackupScheduleStatus.last_backup": described("Name of that backup."),
    "RedisBackupScheduleStatus.last_success_time": described("When the newest good backup ended."),
    "RedisBackupScheduleStatus.last_success": described("Name of the newest good backup."),
    "RedisBackupScheduleStatus.last_verify_time": described(
        "When the backup was due that was created last to be verified."
    ),
    "RedisBackupScheduleStatus.next_time": described("When the next backup starts."),
    "RedisBackupScheduleStatus.active": described("Names of its backups that have not ended."),
    "RedisBackupScheduleStatus.kept": described("How many good backups there are."),
    "RedisBackupScheduleStatus.window": described(
        "The times that a restore can go back to, as the worker of the archive said last; "
        "condition Archiving has the current state. Absent: nothing was archived."
    ),
    "RedisBackupScheduleStatus.restore_point": described(
        "The restore point that the annotation redisoperator.dev/restore-point asked for last, and "
        "its state."
    ),
    "RedisBackupScheduleStatus.restore_points": described(
        "The newest restore points of the archive, at most 100. Older ones are in the store."
    ),
    "RestorePointRequest.name": described("Its name."),
    "RestorePointRequest.phase": described(
        "Pending: it is being taken, or waits for what message says. Completed: a restore can go "
        "back to it once the archive has reached it, some ten seconds later. Failed: there is none."
    ),
    "RestorePointRequest.start_time": described("When it was asked for."),
    "RestorePointRequest.message": described("What it waits for, or why it failed."),
    "RestorePoint.name": described("What fromBackup.restorePoint names it by."),
    "RestorePoint.time": described("When it was taken, by the clock of the primaries."),
    "ArchiveWindow.oldest": described("A restore of all shards can go back to this time or later."),
    "ArchiveWindow.newest": described("The newest time that a restore can go back to."),
    "ArchiveWindow.lag_seconds": described("How old that was when the worker was asked."),
    "ArchiveWindow.gaps": described("Number of gaps in between, of all shards together."),
    "ArchiveWindow.last_gap": described("The last gap."),
    "ArchiveWindow.last_base": described(
        "When the last base was taken that every shard has: a restore begins with one."
    ),
    "ArchiveWindow.spooled_bytes": described("Bytes on the worker's disk that are not stored yet."),
    "ArchiveWindow.stored_bytes": described("Bytes that were stored since the worker started."),
    "ArchiveWindow.time": described("When the worker was asked."),
    "ArchiveWindow.path": described("Folder of the archive in the store."),
    "ArchiveWindow.location": described("Where the archive is, in readable form."),
    "ArchiveWindow.shards": described("The archive of each shard.", listKey="name"),
    "ArchiveGap.shard": described("Name of the shard."),
    "ArchiveGap.after": described("The stream is complete up to this time."),
    "ArchiveGap.before": described("The stream is complete again from this time on."),
    "ArchiveGap.reason": described("Why this part was lost."),
    "ArchiveShard.name": described("Name of the shard."),
    "ArchiveShard.oldest": described("A restore of this shard can go back to this time or later."),
    "ArchiveShard.newest": described("The newest time that a restore can go back to."),
    "ArchiveShard.gaps": described("Number of gaps in between."),
    "ArchiveShard.pod": described("The server that the worker is attached to; empty: none."),
    "ArchiveShard.message": described("What is wrong; empty: nothing."),
}
