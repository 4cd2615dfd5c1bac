"""The description and the limits of the fields of `RedisRestore`. See `describe`."""

from __future__ import annotations

from typing import Any, Final

from .describe_redisbackup import ONE_STORE, ONE_STORE_RULE
from .limits import described, named

__all__ = ["CONSENT", "ONCE", "REDISRESTORE_FIELDS"]

CONSENT: Final = (
    "all data that the database has now is replaced; to agree, set discard.database to the "
    "name in spec.redis"
)
ONCE: Final = "a restore is done once; create another one"

REDISRESTORE_FIELDS: Final[dict[str, dict[str, Any]]] = {
    "RedisRestore.spec": described(
        "The database, and the backup that replaces its data. It cannot be changed: a restore is "
        "done once.",
    ),
    "RedisRestore.status": described("The observed state. Only the operator writes it."),
    "RedisRestoreSpec.redis": named("Name of a Redis in the same namespace that is in use."),
    "RedisRestoreSpec.source": described(
        "The backup: by the name of a RedisBackup, the newest of a RedisBackupSchedule, or by the "
        "store and the folder that it is in. The same as spec.bootstrap.fromBackup of a Redis."
    ),
    "RedisRestoreSpec.discard": described(
        "The data to discard. Without it nothing is done: it is how a person agrees that the "
        "present data is replaced."
    ),
    "RestoreDiscard.database": named("Name of the database, the same as spec.redis."),
    "RestoreDiscard.uid": described(
        "Its metadata.uid: refused where the database was deleted and created again since. "
        "Absent: any database of that name.",
        maxLength=64,
    ),
    "RedisRestoreSpec.keep": described(
        "Where the replaced data is kept: a RedisBackup is taken of it first, which "
        "stays until a person deletes it."
    ),
    "RestoreKeep.storage": described(
        "The store for that backup. Absent: the store that the restore reads from, in a folder of "
        "its own.",
        rules=[(ONE_STORE_RULE, ONE_STORE)],
    ),
    "RestoreKeep.encryption": described(
        "The keys for that backup. Absent: where storage is absent too, those of the backup that "
        "is restored."
    ),
    "RestoreKeep.verify": described(
        "Whether that backup is loaded into a scratch server before anything is replaced. Clients "
        "wait longer by that time."
    ),
    "RedisRestoreStatus.observed_generation": described("The generation that was observed."),
    "RedisRestoreStatus.phase": described("How far it is. Completed and Failed are final."),
    "RedisRestoreStatus.message": described("The state in one sentence."),
    "RedisRestoreStatus.conditions": described(
        "Conditions in the standard format of Kubernetes.", listKey="type"
    ),
    "RedisRestoreStatus.start_time": described("When the backup began to be checked."),
    "RedisRestoreStatus.closing_time": described(
        "When servers began to get the ACL file with which they refuse clients from their start."
    ),
    "RedisRestoreStatus.closed_time": described("When clients were first refused."),
    "RedisRestoreStatus.completion_time": described(
        "When it ended and clients could connect again."
    ),
    "RedisRestoreStatus.database": described("The uid of the database."),
    "RedisRestoreStatus.backup": described("The backup that is restored; a schedule's newest one."),
    "RedisRestoreStatus.location": described("Where that is, in readable form."),
    "RedisRestoreStatus.kept": described("Name of the RedisBackup of the data that was replaced."),
    "RedisRestoreStatus.kept_uid": described("Its uid, once it is complete."),
    "RedisRestoreStatus.kept_location": described("Where that is, in readable form."),
    "RedisRestoreStatus.saves": described("How often it was taken: a primary may have changed."),
    "RedisRestoreStatus.attempt": described("Number of the worker that runs or ran last."),
    "RedisRestoreStatus.failures": described("How many workers failed in this phase."),
    "RedisRestoreStatus.started": described(
        "Whether a worker that replaces data may have been started."
    ),
    "RedisRestoreStatus.waiting_time": described(
        "Since when the next worker cannot be started; after five minutes that is given up."
    ),
    "RedisRestoreStatus.job": described("Name of that worker's Job."),
    "RedisRestoreStatus.keys": described("Keys that the backup has, counted when it was checked."),
    "RedisRestoreStatus.servers": described(
        "The servers that refused clients when the backup of the present data began."
    ),
    "RedisRestoreStatus.failure": described("Why the backup is not restored."),
    "RedisRestoreStatus.failure_reason": described("The same in one word."),
}
