"""Fields of a `RedisFailover` that are not supported: refused, each with its reason.

One table for the rules at admission, for the check of the operator, and for `redis-operator
convert`, which leaves these fields out and says so. Rules over several fields are here too, in CEL.
"""

from __future__ import annotations

from typing import Final

from .limits import RESERVED_ENDING
from .rule import Rule
from .unbuilt import Unbuilt

__all__ = [
    "EVEN_SENTINELS",
    "FEW_SENTINELS",
    "LARGE_QUORUM",
    "NO_REPLICA",
    "REDISFAILOVER_RULES",
    "REFUSED",
    "STORAGE_CHANGED",
]

NO_REPLICA: Final = (
    "is the number of servers, the primary among them: at least 2, or there is no "
    "replica to fail over to; for one server use a Redis of mode Standalone"
)
FEW_SENTINELS: Final = "fewer than 3 sentinels cannot agree without one of them; use 3"
EVEN_SENTINELS: Final = (
    "of an even number of sentinels more than half must agree, or both halves could"
)
LARGE_QUORUM: Final = "may not be more than spec.sentinel.replicas"
STORAGE_CHANGED: Final = (
    "cannot be added to or removed from a database that exists; create another one and copy the "
    "data"
)

_SCRIPT: Final = "the operator starts servers and sentinels with a script of its own; remove it"
_NO_HOST: Final = "pods have a network of their own, and it is what the network policy protects"
_SENTINEL_POD: Final = "pods of sentinels run only the sentinel and its exporter; remove it"
_AS_SERVERS: Final = "sentinels have that of the servers; set it in spec.redis, and remove it here"
_PROBE: Final = "the operator decides how sentinels are probed; remove it"


def _pod(part: str) -> tuple[Unbuilt, ...]:
    return (
        Unbuilt(f"{part}.command", ([],), _SCRIPT),
        Unbuilt(f"{part}.startupConfigMap", ("",), _SCRIPT),
        Unbuilt(f"{part}.hostNetwork", (False,), _NO_HOST),
        Unbuilt(
            f"{part}.dnsPolicy",
            ("", "ClusterFirst"),
            "pods have the policy ClusterFirst; remove it",
        ),
    )


def _exporter(part: str) -> tuple[Unbuilt, ...]:
    return (
        Unbuilt(
            f"{part}.containerSecurityContext",
            (),
            "the exporter runs with the fewest rights possible; remove it",
        ),
    )


REFUSED: Final[tuple[Unbuilt, ...]] = (
    *_pod("redis"),
    Unbuilt(
        "redis.port",
        (6379,),
        "servers listen on 6379; for another port create your own Service, and remove it",
    ),
    Unbuilt(
        "redis.customCommandRenames",
        ([],),
        "it takes away commands that the operator and failover need; remove it",
    ),
    Unbuilt(
        "redis.shutdownConfigMap",
        ("",),
        "before a server ends, the operator has a replica take over; remove it",
    ),
    *_exporter("redis.exporter"),
    *_pod("sentinel"),
    Unbuilt("sentinel.initContainers", ([],), _SENTINEL_POD),
    Unbuilt("sentinel.extraContainers", ([],), _SENTINEL_POD),
    Unbuilt("sentinel.extraVolumes", ([],), _SENTINEL_POD),
    Unbuilt("sentinel.extraVolumeMounts", ([],), _SENTINEL_POD),
    Unbuilt("sentinel.configCopy", (), "there is no such container; remove it"),
    *_exporter("sentinel.exporter"),
    Unbuilt("sentinel.customLivenessProbe", (), _PROBE),
    Unbuilt("sentinel.customReadinessProbe", (), _PROBE),
    Unbuilt("sentinel.customStartupProbe", (), _PROBE),
    Unbuilt(
        "sentinel.disablePodDisruptionBudget",
        (False,),
        "a drain must leave a majority of the sentinels; remove it",
    ),
    Unbuilt(
        "bootstrapNode.allowSentinels",
        (False,),
        "sentinels monitor servers of this database only, and could fail over from another one; "
        "they run, and monitor the primary once bootstrapNode is removed; remove it",
    ),
)

_HAS_CLAIM: Final = (
    "(has({0}.redis) && has({0}.redis.storage) && has({0}.redis.storage.persistentVolumeClaim))"
)

REDISFAILOVER_RULES: Final[tuple[Rule, ...]] = (
    Rule(
        "RedisFailover",
        "metadata.name",
        f"!self.metadata.name.matches('{RESERVED_ENDING}')",
        "its Redis must not have the name of an object of another one; choose a name without this "
        "ending",
    ),
    *(Rule("RedisFailoverSpec", row.path, row.rule, row.message) for row in REFUSED),
    Rule(
        "RedisFailoverSpec",
        "redis.storage.persistentVolumeClaim",
        f"{_HAS_CLAIM.format('self')} == {_HAS_CLAIM.format('oldSelf')}",
        STORAGE_CHANGED,
    ),
    Rule("RedisSettings", "replicas", "!has(self.replicas) || self.replicas >= 2", NO_REPLICA),
    Rule(
        "SentinelSettings", "replicas", "!has(self.replicas) || self.replicas >= 3", FEW_SENTINELS
    ),
    Rule(
        "SentinelSettings",
        "quorum",
        "!has(self.quorum) || !has(self.replicas) || self.replicas % 2 == 1 || "
        "self.quorum * 2 > self.replicas",
        EVEN_SENTINELS,
    ),
    Rule(
        "SentinelSettings",
        "quorum",
        "!has(self.quorum) || self.quorum <= self.replicas",
        LARGE_QUORUM,
    ),
)
