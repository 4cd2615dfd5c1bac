"""From a spec to the part of it that planning needs. Pure."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from redis_operator.api.quantity import parse_quantity
from redis_operator.api.redis import OnDataLoss, Persistence, Redis
from redis_operator.manifests import names
from redis_operator.manifests.cluster import node_timeout_ms
from redis_operator.manifests.config import live_directives
from redis_operator.manifests.facts import Facts
from redis_operator.manifests.layouts import layout_of
from redis_operator.manifests.memory import memory_limit
from redis_operator.planning.advice import ACCEPT_LOSS, Switchover, Wanted
from redis_operator.planning.sources import ExternalSource, Filling
from redis_operator.redis.slots import ALL_SLOTS, NO_SLOTS, SlotSet

__all__ = [
    "PRIMARY_ANNOTATION",
    "Acceptance",
    "directives",
    "read_acceptance",
    "wanted_of",
]

PRIMARY_ANNOTATION = "redisoperator.dev/switch-primary-to"
"""Set on the database, it asks for one pod to become the primary of its shard."""
_RESTART = "restart"
_SOURCE = "source"


class Acceptance(Struct, frozen=True):
    """A data loss that a person accepts, once."""

    slots: SlotSet = NO_SLOTS
    restart: bool = False  # of pods that have neither a replica nor storage
    source: bool = False  # of data of an external server that did not arrive
    problem: str = ""


def wanted_of(redis: Redis, facts: Facts) -> Wanted:
    """Return the wanted state of one database."""
    spec, annotations = redis.spec, redis.metadata.annotations
    size = parse_quantity(spec.storage.size) if spec.storage is not None else None
    pod = annotations.get(PRIMARY_ANNOTATION, "")
    everything = layout_of(redis).everything
    accepted = read_acceptance(annotations.get(ACCEPT_LOSS, ""), everything=everything)
    started = facts.persistence or spec.persistence
    live = live_directives(spec, facts.version, facts.once_set, started)
    return Wanted(
        name=redis.metadata.name,
        shards=spec.shards,
        replicas=spec.replicas,
        mode=spec.mode,
        engine=spec.engine.value,
        version=f"{facts.version.major}.{facts.version.minor}",
        minimum_patch=facts.minimum_patch,
        deprecated=facts.deprecated,
        persistent=spec.storage is not None and Persistence.NONE not in (spec.persistence, started),
        persistence="" if started is spec.persistence else spec.persistence.value,
        chosen=frozenset(spec.config),
        config=tuple(sorted(live.items())),
        node_timeout_ms=node_timeout_ms(spec),
        volatile=spec.persistence is Persistence.NONE is started,
        start_empty=spec.on_data_loss is OnDataLoss.START_EMPTY,
        accepted_loss=accepted.slots,
        unreadable_acceptance=accepted.problem,
        restart_may_lose=(
            accepted.restart or spec.durability.on_data_loss is OnDataLoss.START_EMPTY
        ),
        min_replicas_to_write=spec.durability.min_replicas_to_write,
        paused=spec.paused,
        update_paused=spec.update.paused,
        rolling_shards=spec.update.parallel_shards,
        hibernate=spec.hibernate,
        switchover=Switchover(pod) if pod else None,
        spread_primaries=spec.update.balance_primaries,
        claim_labels=tuple(sorted(spec.storage.labels.items())) if spec.storage is not None else (),
        volume_size=int(size) if size is not None else 0,
        memory_limit=memory_limit(spec) or 0,
        source=_source(redis, facts),
        filling=_filling(facts),
        backup=facts.backup,
        source_given_up=accepted.source,
        **_sentinels(redis),
    )


def _source(redis: Redis, facts: Facts) -> ExternalSource | None:
    """Return the source of a new database: an external server, or a worker that reads a backup."""
    asked, restore = redis.spec.bootstrap.from_redis, facts.restore
    if asked is not None:
        return ExternalSource(asked.host, asked.port)
    if restore is not None:
        return ExternalSource(restore.host, names.CLIENT_PORT, restore.backup)
    return None


def _filling(facts: Facts) -> Filling | None:
    """Return the backup that a new database is restored from key by key, once that is decided."""
    found = facts.filling
    if found is None or facts.restore is not None:
        return None
    carried = tuple(sorted(found.carried.items())) if found.carried is not None else None
    return Filling(
        found.backup,
        found.message,
        found.problem,
        carried,
        restore=found.restore,
        uid=found.uid,
        job=found.job,
        empties=found.empties,
        closing=found.closing,
        served=found.served,
    )


def _sentinels(redis: Redis) -> dict[str, Any]:
    """Return the wanted settings of the sentinels, if the mode has any."""
    found = layout_of(redis).sentinels
    if found is None:
        return {}
    meta = redis.metadata
    return {
        "sentinels": found.pods(redis.spec),
        "quorum": found.quorum(redis.spec),
        "primary_name": names.primary_name(meta.namespace, meta.name),
        "sentinel_settings": found.settings(redis.spec),
    }


def read_acceptance(text: str, *, everything: str = "") -> Acceptance:
    """Read what a person gave up: ranges of slots, and the words `restart` and `source`.

    If a mode has no slots there is a word for `everything`; otherwise a loss has to be named.
    """
    words = text.replace(",", " ").split()
    losses = [word for word in words if word not in (_RESTART, _SOURCE)]
    ranges = [str(ALL_SLOTS) if word == everything else word for word in losses]
    try:
        slots = SlotSet.parse(" ".join(ranges))
    except ValueError as error:
        return Acceptance(problem=f"annotation {ACCEPT_LOSS} is not followed: {error}")
    return Acceptance(slots=slots, restart=_RESTART in words, source=_SOURCE in words)


def directives(wanted: Wanted) -> tuple[str, ...]:
    """Return the directives whose values planning compares."""
    return tuple(name for name, _ in wanted.config)
