"""The description and the limits of the fields of `RedisFailover`. See `describe`."""

from __future__ import annotations

from typing import Any, Final

from .limits import (
    HOST,
    IMAGE,
    LOCAL_NAME,
    PLAIN_TEXT,
    TEXTS,
    VERSION,
    WORD,
    described,
    named,
)

__all__ = ["REDISFAILOVER_FIELDS"]

_LINES: Final = {"maxItems": 128, "values": {"maxLength": 2048, "pattern": PLAIN_TEXT}}
_WORDS: Final = {"maxItems": 64, "values": {"maxLength": 4096, "pattern": PLAIN_TEXT}}
_REFUSED: Final = " Refused: the message says why."


def _refused(what: str, **limits: Any) -> dict[str, Any]:
    return described(what + _REFUSED, unsaid=True, **limits)


def _pods(of: str) -> dict[str, dict[str, Any]]:
    """The fields that servers and sentinels have in common."""
    return {
        "image_pull_policy": described("When a node pulls the image."),
        "image_pull_secrets": described(
            "Secrets with the credentials of image registries.", maxItems=16, listKey="name"
        ),
        "resources": described(f"Resources of each of the {of}."),
        "command": _refused("What the container runs.", **_WORDS),
        "startup_config_map": _refused(
            "A script to start with.", pattern=LOCAL_NAME, maxLength=253
        ),
        "init_containers": described(f"Containers that run before the {of}.", maxItems=16),
        "extra_containers": described(f"Containers that run beside the {of}.", maxItems=16),
        "extra_volumes": described("Volumes for the other containers.", maxItems=32),
        "extra_volume_mounts": described("Mounts of these volumes.", maxItems=32),
        "affinity": described("Affinity, instead of the default that spreads the pods."),
        "tolerations": described("Tolerations.", maxItems=64),
        "node_selector": described("Labels that a node must have.", **TEXTS),
        "topology_spread_constraints": described(
            "Spread constraints, instead of the default over zones.", maxItems=16
        ),
        "security_context": described("Security context of the pods, laid over the default."),
        "container_security_context": described(
            "Security context of the container; it may not extend the restricted default."
        ),
        "pod_annotations": described("Annotations of the pods.", **TEXTS),
        "service_annotations": described("Annotations of the Service.", **TEXTS),
        "host_network": _refused("Use the network of the node."),
        "dns_policy": described("Only ClusterFirst.", pattern=WORD, maxLength=63),
        "priority_class_name": described("Priority class.", pattern=LOCAL_NAME, maxLength=253),
        "service_account_name": described(
            "Service account to use instead of one without permissions.",
            pattern=LOCAL_NAME,
            maxLength=253,
        ),
        "exporter": described("The exporter for Prometheus."),
    }


def _under(kind: str, fields: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {f"{kind}.{name}": facts for name, facts in fields.items()}


REDISFAILOVER_FIELDS: Final[dict[str, dict[str, Any]]] = {
    "RedisFailover.spec": described("The desired state."),
    "RedisFailover.status": described("The observed state. Only the operator writes it."),
    "RedisFailoverSpec.redis": described("The servers.", default={}),
    "RedisFailoverSpec.sentinel": described("The sentinels.", default={}),
    "RedisFailoverSpec.auth": described("The password of clients."),
    "RedisFailoverSpec.label_whitelist": described(
        "Which labels of this object the Redis and its pods get: patterns of letters, `.`, `.*`, "
        "`^` and `$`. Absent: all.",
        maxItems=64,
        values={"maxLength": 317, "pattern": PLAIN_TEXT},
    ),
    "RedisFailoverSpec.bootstrap_node": described(
        "An external Redis that the servers follow, read only, until this is removed: once all "
        "data has arrived, one of them becomes the primary."
    ),
    **_under("RedisSettings", _pods("servers")),
    "RedisSettings.replicas": described(
        "Number of servers, the primary among them, from 2 to 11.", minimum=0, maximum=11
    ),
    "RedisSettings.image": described(
        "Image of servers and sentinels; its tag says the version. Absent: the default of Redis.",
        pattern=IMAGE,
        maxLength=500,
    ),
    "RedisSettings.engine": described("Which server the image runs, where its name does not say."),
    "RedisSettings.version": described(
        "Version of the engine, where the tag of the image does not say.",
        pattern=VERSION,
        maxLength=11,
    ),
    "RedisSettings.port": described("Only 6379.", minimum=1, maximum=65535, unsaid=True),
    "RedisSettings.custom_config": described(
        "Lines of redis.conf, like `maxmemory-policy allkeys-lru`.", **_LINES
    ),
    "RedisSettings.custom_command_renames": _refused("Commands under other names.", maxItems=64),
    "RedisSettings.shutdown_config_map": _refused(
        "A script to end with.", pattern=LOCAL_NAME, maxLength=253
    ),
    "RedisSettings.storage": described("Where servers keep their data. Absent: in memory."),
    "RedisSettings.termination_grace_period": described(
        "Seconds a server has to hand over, save and end before it is killed.",
        minimum=0,
        maximum=86_400,
    ),
    "RedisSettings.custom_liveness_probe": described(
        "Timings of the probe. The operator defines what it runs."
    ),
    "RedisSettings.custom_readiness_probe": described(
        "Timings of the probe. The operator defines what it runs."
    ),
    "RedisSettings.custom_startup_probe": described(
        "Timings of the probe. The operator defines what it runs."
    ),
    "RedisSettings.disable_pod_disruption_budget": described(
        "Let a drain take any number of servers at a time."
    ),
    **_under("SentinelSettings", _pods("sentinels")),
    "SentinelSettings.replicas": described(
        "Number of sentinels, from 3 to 9, preferably odd: 4 tolerate no more failures than 3.",
        minimum=0,
        maximum=9,
    ),
    "SentinelSettings.quorum": described(
        "How many must agree that the primary is down. Absent: more than half.",
        minimum=1,
        maximum=9,
    ),
    "SentinelSettings.image": described(
        "The same image as that of the servers, or absent.", pattern=IMAGE, maxLength=500
    ),
    "SentinelSettings.custom_config": described(
        "Settings of Sentinel, like `down-after-milliseconds 5000`.", **_LINES
    ),
    "SentinelSettings.config_copy": _refused("The container that copied the configuration."),
    "SentinelSettings.custom_liveness_probe": _refused("A probe."),
    "SentinelSettings.custom_readiness_probe": _refused("A probe."),
    "SentinelSettings.custom_startup_probe": _refused("A probe."),
    "SentinelSettings.disable_pod_disruption_budget": _refused(
        "Let a drain take any number of sentinels at a time."
    ),
    "AuthSettings.secret_path": named(
        "Secret in the same namespace whose key `password` is the password of clients. Absent: one "
        "is generated."
    ),
    "BootstrapNode.host": described(
        "Address or name of the Redis, as the pods of this database reach it.",
        pattern=HOST,
        maxLength=253,
    ),
    "BootstrapNode.port": described("Its port.", pattern="^[0-9]+$", maxLength=5),
    "BootstrapNode.allow_sentinels": described("False: sentinels never monitor an external Redis."),
    "BootstrapNode.username": described(
        "The user of it to log in as. Absent: its default user.",
        pattern=PLAIN_TEXT,
        maxLength=253,
    ),
    "BootstrapNode.password_secret": described(
        "The password of that user. Absent: the one of auth.secretPath, and none without it."
    ),
    "ServerStorage.keep_after_deletion": described("Keep volumes when the object is deleted."),
    "ServerStorage.empty_dir": described("Keep data in memory: the same as no storage."),
    "ServerStorage.persistent_volume_claim": described("A volume for each server."),
    "ClaimTemplate.metadata": described("Labels and annotations of the claims."),
    "ClaimTemplate.spec": described("The volume of each server."),
    "ClaimMetadata.name": described(
        "Claims are called data-POD, whatever the name is.", pattern=WORD, maxLength=253
    ),
    "ClaimMetadata.labels": described("Labels of the claims.", **TEXTS),
    "ClaimMetadata.annotations": described("Annotations of the claims; refused.", **TEXTS),
    "ClaimSpec.access_modes": described(
        "Access modes of the volumes.", maxItems=3, values={"pattern": WORD, "maxLength": 63}
    ),
    "ClaimSpec.resources": described("The size of each volume: requests.storage."),
    "ClaimSpec.storage_class_name": described(
        "Storage class; absent: the cluster's default.", pattern=LOCAL_NAME, maxLength=253
    ),
    "ClaimSpec.volume_mode": described("Filesystem.", pattern=WORD, maxLength=63),
    "ClaimSpec.volume_name": _refused("One volume.", pattern=WORD, maxLength=253),
    "ClaimSpec.selector": _refused("Which volumes."),
    "ClaimSpec.data_source": _refused("What the volumes begin with."),
    "Exporter.enabled": described(
        "Run an exporter beside each server or sentinel, and create a Service for it."
    ),
    "Exporter.image": described(
        "Image of the exporter instead of the version's own.", pattern=IMAGE, maxLength=500
    ),
    "Exporter.image_pull_policy": described("When a node pulls the image."),
    "Exporter.container_security_context": _refused("Security context of the exporter."),
    "Exporter.args": described("More arguments of the exporter.", **_WORDS),
    "Exporter.env": described("Environment of the exporter.", maxItems=64),
    "Exporter.resources": described("Resources of the exporter, instead of the default."),
    "CommandRename.old": described("The command.", pattern=WORD, maxLength=64),
    "CommandRename.to": described("Its new name.", pattern=PLAIN_TEXT, maxLength=64),
    "RedisFailoverStatus.observed_generation": described(
        "The generation of the spec that this status is about."
    ),
    "RedisFailoverStatus.redis": described("The Redis that is owned."),
    "RedisFailoverStatus.phase": described("The state in one word."),
    "RedisFailoverStatus.message": described("The state in one sentence."),
    "RedisFailoverStatus.conditions": described(
        "Those of the Redis; Ready also says why a spec is not applied.", listKey="type"
    ),
    "RedisFailoverStatus.ready": described("Ready servers of the desired number."),
    "RedisFailoverStatus.primary": described("The pod of the primary."),
    "RedisFailoverStatus.version": described("Oldest version that runs."),
    "RedisFailoverStatus.endpoints": described("Where clients connect."),
    "RedisFailoverStatus.binding": described("The Secret with the connection details."),
}
