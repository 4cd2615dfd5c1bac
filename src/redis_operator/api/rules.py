"""Rules over several fields and over time, in CEL.

The API server checks them at admission; `validation` checks the same in Python for objects that
were stored without this check. Each row has the type, the field to point at, the rule and the
message. The path of the field is printed before the message.
"""

from __future__ import annotations

from typing import Any, Final

from redis_operator.redis.directives import DANGEROUS, MANAGED

from .describe import RESERVED_ENDING
from .describe_redisrestore import CONSENT, ONCE
from .redisfailover_rules import REDISFAILOVER_RULES
from .rule import Rule
from .unbuilt import UNBUILT

__all__ = [
    "KEYS_OF_STORAGE",
    "LOOPBACK",
    "MODE_CHANGE",
    "MOMENT_OF_ARCHIVE",
    "NAME_OR_STORAGE",
    "NO_CLUSTER_SOURCE",
    "ONE_MOMENT",
    "ONE_ORIGIN",
    "OWN_POD",
    "PATH_OF_STORAGE",
    "RULES",
    "SAVE_POINTS",
    "Rule",
    "rules_of",
]


def _spec(field: str, rule: str, message: str) -> Rule:
    return Rule("RedisSpec", field, rule, message)


SAVE_POINTS: Final = r"^\s*[0-9]+\s+[0-9]+(\s+[0-9]+\s+[0-9]+)*\s*$"
"""The format of `save`: pairs of seconds and changes, at least one."""


MODE_CHANGE: Final = (
    "a database changes between modes Standalone and Failover only, since mode Cluster keeps keys "
    "differently; create another database and copy the data, by restoring a backup or importing"
)


NO_CLUSTER_SOURCE: Final = (
    "servers of mode Cluster are replicas of each other only; use mode Failover, or copy the data "
    "key by key"
)
NAME_OR_STORAGE: Final = "use one of name, schedule and storage"
PATH_OF_STORAGE: Final = (
    "it needs storage: the folder of the backup's manifest.json in it, or of an archive"
)
KEYS_OF_STORAGE: Final = "it goes with storage; for a RedisBackup it is already known"
MOMENT_OF_ARCHIVE: Final = (
    "a RedisBackup is of one moment alone; name a schedule with continuous: true, or the storage "
    "and path of an archive"
)
ONE_MOMENT: Final = "use it or at, not both"
ONE_ORIGIN: Final = "use it or spec.bootstrap.fromRedis, not both"
LOOPBACK: Final = ("localhost", "127.0.0.1", "::1", "0.0.0.0", "::")
OWN_POD: Final = "names the pod itself; use an address that pods reach"


def _refused_directives() -> list[Rule]:
    """Refuse directives by name, each with its own rule, so that the message names it.

    One rule with a list could not say which directive it is: CEL's cost limit refuses such a
    message.
    """
    found = {
        name: "the operator sets it" + (f"; use {field}" if field else "")
        for name, field in MANAGED.items()
    }
    found |= dict.fromkeys(DANGEROUS, "it endangers the server or its data")
    return [
        _spec(
            f"config.{name}",
            f"!has(self.config) || !('{name}' in self.config)",
            f"may not be set: {why}",
        )
        for name, why in sorted(found.items())
    ]


RULES: Final[tuple[Rule, ...]] = (
    Rule(
        "Redis",
        "metadata.name",
        f"!self.metadata.name.matches('{RESERVED_ENDING}')",
        "a database must not have the name of an object of another one; choose a name without this "
        "ending",
    ),
    *(_spec(row.path, row.rule, row.message) for row in UNBUILT),
    _spec(
        "version",
        "!has(self.image) || self.image == '' || (has(self.version) && self.version != '')",
        "spec.image needs it: what a server can do depends on it",
    ),
    _spec(
        "shards",
        "self.mode != 'Cluster' || (has(self.shards) && self.shards >= 3)",
        "mode Cluster needs at least 3 shards",
    ),
    _spec(
        "shards",
        "self.mode == 'Cluster' || !has(self.shards) || self.shards == 1",
        "only mode Cluster has shards",
    ),
    _spec(
        "replicas",
        "self.mode != 'Standalone' || !has(self.replicas) || self.replicas == 0",
        "mode Standalone has no replicas; set it to 0 or use mode Failover",
    ),
    _spec(
        "replicas",
        "self.mode != 'Failover' || !has(self.replicas) || self.replicas >= 1",
        "mode Failover needs at least 1 replica to fail over to; set it to 2, or "
        "use mode Standalone",
    ),
    _spec(
        "mode",
        "self.mode == oldSelf.mode || (self.mode != 'Cluster' && oldSelf.mode != 'Cluster')",
        MODE_CHANGE,
    ),
    _spec(
        "config",
        "self.mode == 'Cluster' || !has(self.config) || "
        "!self.config.exists(name, name.startsWith('cluster-'))",
        "directives that begin with cluster- are for mode Cluster",
    ),
    _spec(
        "config.replica-priority",
        "self.mode != 'Failover' || !has(self.config) || "
        "!('replica-priority' in self.config || 'slave-priority' in self.config)",
        "may not be set in mode Failover: the operator sets it",
    ),
    _spec(
        "update.parallelShards",
        "self.mode == 'Cluster' || !has(self.update) || "
        "!has(self.update.parallelShards) || self.update.parallelShards == 1",
        "only mode Cluster has shards",
    ),
    _spec(
        "sentinel",
        "self.mode == 'Failover' || !has(self.sentinel)",
        "only mode Failover has Sentinels",
    ),
    _spec(
        "durability.minReplicasToWrite",
        "!has(self.durability) || !has(self.durability.minReplicasToWrite) || "
        "self.durability.minReplicasToWrite <= "
        "(has(self.replicas) ? self.replicas : self.mode == 'Standalone' ? 0 : 1)",
        "no write would ever be accepted; it may not be more than spec.replicas",
    ),
    _spec(
        "durability.persistence",
        "!has(self.durability) || !has(self.durability.persistence) || "
        "self.durability.persistence == 'none' || has(self.storage)",
        "writing to disk needs spec.storage",
    ),
    _spec(
        "maxmemoryPercent",
        "!has(self.maxmemoryPercent) || has(self.resources) && has(self.resources.limits) && "
        "'memory' in self.resources.limits",
        "needs spec.resources.limits.memory: it is a percentage of it",
    ),
    _spec(
        "maxmemoryPercent",
        "!has(self.maxmemoryPercent) || !has(self.config) || !('maxmemory' in self.config)",
        "spec.config.maxmemory sets it too; set one of them",
    ),
    *_refused_directives(),
    _spec(
        "config.save",
        "!has(self.config) || !('save' in self.config) || "
        "has(self.durability) && has(self.durability.persistence) && "
        "self.durability.persistence in ['rdb', 'both']",
        "needs spec.durability.persistence rdb or both",
    ),
    _spec(
        "config.save",
        "!has(self.config) || !('save' in self.config) || "
        f"string(self.config['save']).matches(r'{SAVE_POINTS}')",
        "must be pairs of seconds and changes, like 900 1 300 10; "
        "to save nothing, use spec.durability.persistence",
    ),
    _spec(
        "hibernate",
        "!has(self.hibernate) || !self.hibernate || has(self.storage)",
        "without spec.storage the data would be lost",
    ),
    _spec(
        "storage",
        "has(self.storage) == has(oldSelf.storage)",
        "it cannot be added to or removed from a database that exists; "
        "create another one and copy the data",
    ),
    _spec(
        "bootstrap.fromRedis",
        "self.mode != 'Cluster' || !has(self.bootstrap) || !has(self.bootstrap.fromRedis)",
        NO_CLUSTER_SOURCE,
    ),
    _spec(
        "bootstrap.fromBackup",
        "!has(self.bootstrap) || !has(self.bootstrap.fromBackup) || !has(self.bootstrap.fromRedis)",
        ONE_ORIGIN,
    ),
    Rule(
        "Redis",
        "spec.bootstrap.fromBackup",
        "!has(self.spec.bootstrap) || !has(self.spec.bootstrap.fromBackup) || "
        "(has(oldSelf.spec.bootstrap) && has(oldSelf.spec.bootstrap.fromBackup) && "
        "self.spec.bootstrap.fromBackup == oldSelf.spec.bootstrap.fromBackup) || "
        "!has(oldSelf.status) || !has(oldSelf.status.binding)",
        "the database is in use, and its data would be lost; create another one",
    ),
    Rule(
        "Redis",
        "spec.bootstrap.fromRedis",
        "!has(self.spec.bootstrap) || !has(self.spec.bootstrap.fromRedis) || "
        "(has(oldSelf.spec.bootstrap) && has(oldSelf.spec.bootstrap.fromRedis)) || "
        "!has(oldSelf.status) || !has(oldSelf.status.binding)",
        "the database is in use, and its data would be lost; create another one",
    ),
    Rule(
        "BootstrapFromBackup",
        "",
        "[has(self.name), has(self.schedule), has(self.storage)].filter(way, way).size() == 1",
        NAME_OR_STORAGE,
    ),
    Rule(
        "BootstrapFromBackup",
        "path",
        "has(self.path) == has(self.storage)",
        PATH_OF_STORAGE,
    ),
    Rule(
        "BootstrapFromBackup",
        "encryption",
        "!has(self.encryption) || has(self.storage)",
        KEYS_OF_STORAGE,
    ),
    Rule("BootstrapFromBackup", "at", "!has(self.at) || !has(self.name)", MOMENT_OF_ARCHIVE),
    Rule(
        "BootstrapFromBackup",
        "restorePoint",
        "!has(self.restorePoint) || !has(self.name)",
        MOMENT_OF_ARCHIVE,
    ),
    Rule(
        "BootstrapFromBackup",
        "restorePoint",
        "!has(self.restorePoint) || !has(self.at)",
        ONE_MOMENT,
    ),
    Rule(
        "BootstrapFromRedis",
        "host",
        f"!(self.host in [{', '.join(map(repr, LOOPBACK))}])",
        OWN_POD,
    ),
    Rule(
        "Sentinel",
        "quorum",
        "!has(self.quorum) || self.replicas % 2 == 1 || self.quorum * 2 > self.replicas",
        "of an even number of Sentinels more than half must agree, or both halves could",
    ),
    Rule(
        "Sentinel",
        "quorum",
        "!has(self.quorum) || self.quorum <= self.replicas",
        "may not be more than spec.sentinel.replicas",
    ),
    Rule(
        "Storage",
        "className",
        "has(self.className) == has(oldSelf.className) && "
        "(!has(self.className) || self.className == oldSelf.className)",
        "the class of volumes that exist cannot be changed",
    ),
    Rule(
        "Storage",
        "accessModes",
        "has(self.accessModes) == has(oldSelf.accessModes) && "
        "(!has(self.accessModes) || self.accessModes == oldSelf.accessModes)",
        "the access modes of volumes that exist cannot be changed",
    ),
    Rule(
        "Storage",
        "size",
        "!quantity(self.size).isLessThan(quantity(oldSelf.size))",
        "volumes cannot shrink",
    ),
    Rule(
        "DisruptionBudget",
        "minAvailable",
        "!has(self.maxUnavailable) || !has(self.minAvailable)",
        "use it or maxUnavailable, not both",
    ),
    Rule(
        "Tls",
        "",
        "[has(self.secretName), has(self.issuerRef), has(self.selfSigned) && self.selfSigned]"
        ".filter(way, way).size() == 1",
        "use one of secretName, issuerRef and selfSigned",
    ),
    *REDISFAILOVER_RULES,
    Rule(
        "RedisBackup",
        "metadata.name",
        "self.metadata.name.size() <= 50",
        "the names of its workers contain it; use at most 50 characters",
    ),
    Rule("RedisRestoreSpec", "", "self == oldSelf", ONCE),
    Rule(
        "RedisRestoreSpec",
        "discard",
        "has(self.discard) && self.discard.database == self.redis",
        CONSENT,
    ),
    Rule(
        "RedisRestore",
        "metadata.name",
        "self.metadata.name.size() <= 50",
        "the names of its workers contain it; use at most 50 characters",
    ),
    Rule(
        "RedisBackupSchedule",
        "metadata.name",
        "self.metadata.name.size() <= 37",
        "the names of its backups contain it; use at most 37 characters",
    ),
    Rule(
        "RedisOperator",
        "metadata.name",
        "self.metadata.name == 'redis-operator'",
        "a cluster has one operator, and its RedisOperator is called redis-operator",
    ),
)


def rules_of(type_name: str) -> list[dict[str, Any]]:
    """Return the rules on one type as entries of a schema."""
    return [rule.schema() for rule in RULES if rule.type == type_name]
