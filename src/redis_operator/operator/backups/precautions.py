"""Backups before changes and deletions that ask for one, and the reasons to wait for them."""

from __future__ import annotations

from contextlib import suppress

from msgspec import Struct

from kubecontroller import AlreadyExists, Client, Forbidden, Key, KubeError, Manifest, meta_of
from redis_operator.api.metadata import Condition
from redis_operator.api.redis import Redis
from redis_operator.api.redisbackup import RedisBackupStatus
from redis_operator.api.redisbackup_validation import load_redisbackup_status
from redis_operator.api.redisbackupschedule import RedisBackupSchedule
from redis_operator.api.redisbackupschedule_validation import load_schedule
from redis_operator.operator.world import REDIS_BACKUPS, World
from redis_operator.planning.backups.precautions import (
    LAST,
    UPDATE,
    Precaution,
    backed_up,
    precaution_backup,
    precaution_limitation,
    update_name,
)

__all__ = ["Precautions", "wants_last_backup"]


def wants_last_backup(raw: Manifest) -> bool:
    """Whether a database that was in use is backed up before its deletion."""
    deletion = (raw.get("spec") or {}).get("deletion") or {}
    return deletion.get("policy") == "Backup" and bool((raw.get("status") or {}).get("binding"))


class Precautions(Struct, frozen=True):
    """Finds these backups in the caches, and creates those that are missing."""

    client: Client
    world: World

    async def before_update(self, redis: Redis) -> str | None:
        """Why servers may not be replaced by those of another version yet, or None."""
        meta = redis.metadata
        if not redis.spec.update.backup_first or redis.status.binding is None:
            return None
        key, name = (meta.namespace, meta.name), update_name(meta)
        try:
            return await self._ensure(UPDATE, key, name)
        except KubeError as error:  # servers are managed all the same
            return f"{UPDATE.field}: RedisBackup {name} cannot be created: {error}"

    async def before_end(self, raw: Manifest) -> str | None:
        """Why a database that is being deleted may not be removed yet, or None."""
        if not wants_last_backup(raw):
            return None
        try:
            return await self._ensure(LAST, meta_of(raw).key, _last_name(raw))
        except Forbidden as error:
            if any(cause.reason == "NamespaceTerminating" for cause in error.causes):
                return None  # nothing can be created there any more, and everything is deleted
            raise

    def waits(self, raw: Manifest) -> str:
        """Return what the deletion of a database waits for; empty: for nothing."""
        if not wants_last_backup(raw):
            return ""
        return self._limitation(LAST, meta_of(raw).key, _last_name(raw)) or ""

    def is_backed_up(self, raw: Manifest) -> bool:
        """Whether the last backup of a database is complete."""
        if not wants_last_backup(raw):
            return False
        return self._limitation(LAST, meta_of(raw).key, _last_name(raw)) is None

    def condition(self, key: Key) -> Condition | None:
        """Report whether there is a good backup of a database; None: none is wanted."""
        found = {meta_of(raw).name: load_redisbackup_status(raw) for raw in self._backups(key)}
        if not found and self._schedule(key) is None:
            return None
        return backed_up(found)

    def _backups(self, key: Key) -> list[Manifest]:
        return [
            raw for raw in self.world.backups.find("database", key) if not meta_of(raw).is_deleting
        ]

    async def _ensure(self, why: Precaution, key: Key, name: str) -> str | None:
        waits = self._limitation(why, key, name)
        schedule = self._schedule(key)
        if waits is None or self._status(key, name) is not None:
            return waits
        with suppress(AlreadyExists):  # the cache does not show it yet
            if schedule is not None:
                await self.client.create(REDIS_BACKUPS, precaution_backup(why, schedule, name))
            elif why is LAST:
                await self._try_to_create(key, name)
        return waits

    async def _try_to_create(self, key: Key, name: str) -> None:
        """Check whether anything can still be created there. Raises `Forbidden` if not.

        A terminating namespace deletes the schedule, and would wait for this database for ever.
        """
        spec = {"redis": key[1], "storage": {"claim": {"name": name}}}
        tried = {"metadata": {"namespace": key[0], "name": name}, "spec": spec}
        await self.client.create(REDIS_BACKUPS, tried, dry_run=True)

    def _limitation(self, why: Precaution, key: Key, name: str) -> str | None:
        raw, status = self.world.backup((key[0], name)) or {}, self._status(key, name)
        return precaution_limitation(
            why,
            name,
            status,
            has_schedule=self._schedule(key) is not None,
            verify=bool((raw.get("spec") or {}).get("verify")),
        )

    def _status(self, key: Key, name: str) -> RedisBackupStatus | None:
        """Return the status of a backup of this same database, unless it is being deleted."""
        raw = self.world.backup((key[0], name))
        if raw is None or meta_of(raw).is_deleting:
            return None
        ours = (raw.get("spec") or {}).get("redis") == key[1]
        return load_redisbackup_status(raw) if ours else None

    def _schedule(self, key: Key) -> RedisBackupSchedule | None:
        """Return the schedule of a database, the first by name."""
        for raw in sorted(self.world.schedules, key=lambda one: meta_of(one).name):
            if meta_of(raw).namespace != key[0] or meta_of(raw).is_deleting:
                continue
            found = load_schedule(raw)
            if isinstance(found, RedisBackupSchedule) and found.spec.redis == key[1]:
                return found
        return None


def _last_name(raw: Manifest) -> str:
    meta = meta_of(raw)
    return LAST.name(meta.name, meta.uid[:8])
