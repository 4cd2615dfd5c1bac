"""The facts of a pass over a database in use about the `RedisRestore` that replaces its data."""

from __future__ import annotations

from msgspec.structs import replace

from kubecontroller import Key, Manifest, meta_of
from redis_operator.api.redis import Redis
from redis_operator.api.redisrestore import RedisRestoreStatus, RestorePhase
from redis_operator.api.redisrestore_validation import load_redisrestore_status
from redis_operator.manifests.facts import Facts, FillingFacts, Opening
from redis_operator.manifests.replacing_workers import replace_job_name
from redis_operator.operator.backups.fillings import filling_of
from redis_operator.operator.backups.workers import is_controlled_by
from redis_operator.operator.world import World
from redis_operator.planning.backups.redisrestores import CLOSED_PHASES, REPLACING_PHASES, is_whole

__all__ = ["is_orphaned", "replacement_facts", "restore_that_closes"]


def replacement_facts(redis: Redis, facts: Facts, world: World) -> Facts:
    """Return the facts with the restore that has clients disabled or enabled, if there is one.

    A database that a deleted restore left half-way is not served either.
    """
    meta = redis.metadata
    key = (meta.namespace, meta.name)
    raw = restore_that_closes(world, key)
    if raw is not None:
        return replace(facts, filling=_filling(raw, load_redisrestore_status(raw), world))
    if not is_orphaned(redis, world):
        return replace(facts, opening=_opening(world, key))
    restoring = redis.status.restoring
    assert restoring is not None
    text = (
        f"RedisRestore {restoring.name} is gone, and has left a part of the data or none: create "
        "another RedisRestore of this database, from the RedisBackup that kept its data "
        f"({restoring.name}-kept-...) or from any other"
    )
    problem = FillingFacts("", problem=text, restore=restoring.name, uid=restoring.uid)
    return replace(facts, filling=problem)


def restore_that_closes(world: World, key: Key) -> Manifest | None:
    """Return the restore for which a database accepts no client."""
    for raw in world.restores.find("database", key):
        if load_redisrestore_status(raw).phase in CLOSED_PHASES:
            return raw
    return None


def _opening(world: World, key: Key) -> Opening | None:
    """Return the restore that is complete when clients can connect again."""
    for raw in world.restores.find("database", key):
        if load_redisrestore_status(raw).phase is RestorePhase.OPENING:
            return Opening(meta_of(raw).name, meta_of(raw).uid)
    return None


def is_orphaned(redis: Redis, world: World) -> bool:
    """Whether a deleted restore, or one that failed for another reason, left it half-way."""
    restoring = redis.status.restoring
    if restoring is None or not restoring.replacing:
        return False
    raw = world.restores.get((redis.metadata.namespace, restoring.name))
    if raw is None or meta_of(raw).uid != restoring.uid:
        return True
    return not is_whole(load_redisrestore_status(raw))


def _filling(raw: Manifest, status: RedisRestoreStatus, world: World) -> FillingFacts:
    meta = meta_of(raw)
    backup = status.backup
    if status.phase is RestorePhase.ROLLING_BACK:
        backup = status.kept
    # Not its message: it contains what the database says, which would be repeated within itself.
    assert status.phase is not None
    found = FillingFacts(backup, message=f"it is {status.phase.value}")
    job = world.workers.job((meta.namespace, replace_job_name(meta.name, status.attempt)))
    name = ""
    if status.phase in REPLACING_PHASES and job is not None and is_controlled_by(job, meta.uid):
        name, found = job.metadata.name, filling_of(backup, job, world.workers)
    return replace(
        found,
        restore=meta.name,
        uid=meta.uid,
        job=name,
        empties=status.phase in REPLACING_PHASES,
        closing=status.phase is RestorePhase.CLOSING,
        served=status.phase is RestorePhase.CLOSING and not status.closed_time,
    )
