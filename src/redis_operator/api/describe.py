"""The description and the limits of every field of the CRDs.

A key is the name of a type and the Python name of a field. A test makes sure that none is missing
and none is left over.
"""

from __future__ import annotations

from typing import Any, Final

from .describe_redisbackup import FOLDER, ONE_STORE, ONE_STORE_RULE
from .limits import (
    DATABASE_NAME,
    LOCAL_NAME,
    PLAIN_TEXT,
    POINT_NAME,
    RESERVED_ENDING,
    TIME,
)
from .limits import HOST as _HOST
from .limits import IMAGE as _IMAGE
from .limits import QUANTITIES as _QUANTITIES
from .limits import TEXTS as _TEXTS
from .limits import VERSION as _VERSION
from .limits import WORD as _WORD
from .limits import described as _f
from .limits import named as _secret
from .quantity import QUANTITY_PATTERN

__all__ = ["FIELDS", "LOCAL_NAME", "PLAIN_TEXT", "RESERVED_ENDING"]

FIELDS: Final[dict[str, dict[str, Any]]] = {
    "Metadata.name": {"pattern": DATABASE_NAME, "maxLength": 40},
    # --- spec
    "Redis.spec": _f("The desired state."),
    "Redis.status": _f("The observed state. Only the operator writes it."),
    "RedisSpec.mode": _f(
        "How the servers work together: Standalone is one server, Failover is a primary with "
        "replicas watched by Sentinel, Cluster spreads the keys over shards. Standalone and "
        "Failover can be changed into each other while the database is in use."
    ),
    "RedisSpec.engine": _f("The server software."),
    "RedisSpec.version": _f(
        "Version of the engine: a RedisVersion of the cluster, or one that is built in. "
        "Absent: the newest that is built in.",
        pattern=_VERSION,
        maxLength=11,
    ),
    "RedisSpec.image": _f(
        "Image to run instead of the version's own; needs version, which says what it can do.",
        pattern=_IMAGE,
        maxLength=500,
    ),
    "RedisSpec.shards": _f(
        "Number of shards in mode Cluster, from 3 to 1000. Change it to scale out or in.",
        minimum=1,
        maximum=1000,
        unsaid=True,
    ),
    "RedisSpec.replicas": _f(
        "Copies besides the primary: of each shard in mode Cluster, of the primary in mode "
        "Failover. Absent: 1. Always 0 in mode Standalone.",
        minimum=0,
        maximum=10,
        unsaid=True,
    ),
    "RedisSpec.sentinel": _f("The Sentinels of a database in mode Failover."),
    "RedisSpec.storage": _f("A volume for each server. Absent: data is in memory only."),
    "RedisSpec.durability": _f("Persistence and replication of writes."),
    "RedisSpec.resources": _f("Resources of each server. The memory limit decides maxmemory."),
    "RedisSpec.maxmemory_percent": _f(
        "Share of the memory limit that data may use: maxmemory. Absent: what is left when the "
        "server saves and syncs at the same time.",
        minimum=10,
        maximum=95,
    ),
    "RedisSpec.config": _f(
        "Directives of redis.conf or valkey.conf. Applied live where the engine allows it, by a "
        "rolling restart where it does not. Those that the operator sets itself are refused.",
        maxProperties=128,
        values={"maxLength": 2048, "pattern": PLAIN_TEXT},
        rules=[
            (
                "self.all(name, name.matches('^[a-z][a-z0-9_-]*$'))",
                "names of directives are written in lower case, like maxmemory-policy",
            )
        ],
    ),
    "RedisSpec.auth": _f("Who may connect."),
    "RedisSpec.tls": _f("Encryption of all connections."),
    "RedisSpec.pod": _f("What is added to the pods that run servers."),
    "RedisSpec.service": _f("The Service for clients."),
    "RedisSpec.monitoring": _f("Metrics, alerts and dashboards."),
    "RedisSpec.disruption_budget": _f("Limits on voluntary disruption, one for each shard."),
    "RedisSpec.network_policy": _f("Who may reach the servers over the network."),
    "RedisSpec.update": _f("How changes reach running servers."),
    "RedisSpec.deletion": _f("What happens to the data when the database is deleted."),
    "RedisSpec.hibernate": _f("Run no pods; keep data, secrets and services."),
    "RedisSpec.paused": _f("The operator observes and reports, but changes nothing."),
    "RedisSpec.bootstrap": _f("Where the initial data comes from."),
    "Sentinel.replicas": _f(
        "Number of Sentinels, preferably odd: 4 tolerate no more failures than 3.",
        minimum=3,
        maximum=9,
    ),
    "Sentinel.quorum": _f(
        "How many must agree that the primary is down; absent: more than half.",
        minimum=1,
        maximum=9,
    ),
    "Sentinel.resources": _f("Resources of each Sentinel."),
    "Sentinel.down_after_milliseconds": _f(
        "After how long a Sentinel considers an unresponsive primary dead. The operator does not "
        "wait for it where it knows that the process has ended.",
        minimum=1000,
        maximum=600_000,
    ),
    "Sentinel.failover_timeout_milliseconds": _f(
        "How long a failover may take before another one is tried.",
        minimum=3000,
        maximum=3_600_000,
    ),
    "Sentinel.parallel_syncs": _f(
        "Replicas that may copy from a new primary at the same time.", minimum=1, maximum=10
    ),
    "Sentinel.pod": _f(
        "Where Sentinels run and how they are marked. Absent: as the servers, by spec.pod."
    ),
    "Sentinel.exporter": _f("The exporter for Prometheus beside each Sentinel."),
    "SentinelExporter.enabled": _f(
        "Run an exporter beside each Sentinel, and create a Service for it."
    ),
    "SentinelExporter.image": _f(
        "Image of the exporter. Absent: as for the servers, by spec.monitoring.exporterImage or "
        "the version.",
        pattern=_IMAGE,
        maxLength=500,
    ),
    "SentinelExporter.resources": _f("Resources of the exporter, instead of the default."),
    "SentinelExporter.args": _f(
        "Arguments of the exporter; those that say how it reaches the Sentinel are set.",
        maxItems=64,
        values={"maxLength": 1024, "pattern": PLAIN_TEXT},
    ),
    "SentinelExporter.env": _f("Environment of the exporter's container.", maxItems=64),
    "SentinelPod.affinity": _f("Affinity, instead of the default that spreads them."),
    "SentinelPod.tolerations": _f("Tolerations.", maxItems=64),
    "SentinelPod.node_selector": _f("Labels that a node must have.", **_TEXTS),
    "SentinelPod.topology_spread_constraints": _f(
        "Spread constraints, instead of the default over zones.", maxItems=16
    ),
    "SentinelPod.annotations": _f("Annotations of the pods.", **_TEXTS),
    "SentinelPod.priority_class_name": _f("Priority class.", pattern=LOCAL_NAME, maxLength=253),
    "SentinelPod.security_context": _f("Security context of the pods, laid over the default."),
    "Storage.size": _f(
        "Size of each volume. It can grow, never shrink.", pattern=QUANTITY_PATTERN, maxLength=40
    ),
    "Storage.class_name": _f(
        "Storage class; absent: the cluster's default. It cannot be changed.",
        pattern=LOCAL_NAME,
        maxLength=253,
    ),
    "Storage.access_modes": _f(
        "Access modes of the volumes. They cannot be changed.", minItems=1, maxItems=3
    ),
    "Storage.labels": _f(
        "Labels of the claims, besides those of the operator. A label that is removed here stays "
        "on claims that exist.",
        **_TEXTS,
    ),
    "Storage.retain": _f("Keep volumes when their shard or replica is removed."),
    "Durability.persistence": _f(
        "What servers write to disk: aof, rdb, both or none. Absent: aof with storage, else none."
    ),
    "Durability.min_replicas_to_write": _f(
        "Replicas that must be in sync for a write to be accepted.", minimum=0, maximum=10
    ),
    "Durability.max_lag_seconds": _f(
        "How old a replica's last sign may be to count as in sync.", minimum=1, maximum=3600
    ),
    "Durability.on_data_loss": _f(
        "What to do when every copy of some slots is gone. StartEmpty: they are served again, "
        "empty. Hold: they are reported and stay as they are until a person names them in the "
        "annotation redisoperator.dev/accept-data-loss. Absent: StartEmpty without storage, Hold "
        "with it."
    ),
    "Resources.requests": _f("What a server is guaranteed to get.", **_QUANTITIES),
    "Resources.limits": _f("What a server may use at most.", **_QUANTITIES),
    "Auth.secret_name": _secret(
        "Secret in the same namespace whose key `password` is the password of the default user. "
        "Absent: one is generated."
    ),
    "Auth.users": _f("More users for applications.", maxItems=64, listKey="name"),
    "User.name": _f("Name of the user.", pattern=_WORD, maxLength=64),
    "User.rules": _f("ACL rules, without passwords.", pattern=PLAIN_TEXT, maxLength=1024),
    "User.password_secret": _f("Where the password is."),
    "SecretKey.name": _secret("Name of a Secret in the same namespace."),
    "SecretKey.key": _f("Key in the Secret.", pattern=_WORD, maxLength=253),
    "Tls.secret_name": _secret("Secret with tls.crt, tls.key and ca.crt."),
    "Tls.issuer_ref": _f("cert-manager issuer that signs the certificate."),
    "Tls.self_signed": _f("Let the operator sign the certificate."),
    "IssuerReference.name": _secret("Name of the issuer."),
    "IssuerReference.kind": _f("Issuer or ClusterIssuer.", pattern=_WORD, maxLength=63),
    "IssuerReference.group": _f("API group of the issuer.", pattern=LOCAL_NAME, maxLength=253),
    "LocalName.name": _secret("Name of an object in the same namespace."),
    "ProbeTimes.initial_delay_seconds": _f(
        "Delay before the first probe.", minimum=0, maximum=3600
    ),
    "ProbeTimes.period_seconds": _f("Time between probes.", minimum=1, maximum=3600),
    "ProbeTimes.timeout_seconds": _f("Timeout of one probe.", minimum=1, maximum=3600),
    "ProbeTimes.failure_threshold": _f(
        "Consecutive failures until the probe fails.", minimum=1, maximum=100_000
    ),
    "Probes.startup": _f("Startup probe: whether the server has started to listen."),
    "Probes.liveness": _f("Liveness probe: a server that no longer listens is restarted."),
    "Probes.readiness": _f("Readiness probe: whether clients are routed to the server."),
    "PodOptions.image_pull_policy": _f("When a node pulls the images of servers and exporter."),
    "PodOptions.image_pull_secrets": _f(
        "Secrets with the credentials of image registries.", maxItems=16, listKey="name"
    ),
    "PodOptions.affinity": _f("Affinity, instead of the default that spreads each shard."),
    "PodOptions.anti_affinity": _f(
        "Required: two servers of one shard never share a node; one without a node of its own "
        "waits. Preferred: they share one when there is no other way."
    ),
    "PodOptions.tolerations": _f("Tolerations.", maxItems=64),
    "PodOptions.node_selector": _f("Labels that a node must have.", **_TEXTS),
    "PodOptions.topology_spread_constraints": _f(
        "Spread constraints, instead of the default over zones.", maxItems=16
    ),
    "PodOptions.annotations": _f("Annotations of the pods.", **_TEXTS),
    "PodOptions.labels": _f("Labels of the pods, besides those of the operator.", **_TEXTS),
    "PodOptions.priority_class_name": _f("Priority class.", pattern=LOCAL_NAME, maxLength=253),
    "PodOptions.runtime_class_name": _f("Runtime class.", pattern=LOCAL_NAME, maxLength=253),
    "PodOptions.termination_grace_period_seconds": _f(
        "Time a server has to hand over, save and end before it is killed.",
        minimum=30,
        maximum=86_400,
    ),
    "PodOptions.probes": _f("Timings of the probes of the server."),
    "PodOptions.service_account_name": _f(
        "Service account to use instead of one without permissions.",
        pattern=LOCAL_NAME,
        maxLength=253,
    ),
    "PodOptions.security_context": _f("Security context of the pods, laid over the default."),
    "PodOptions.sidecars": _f("Containers that run beside the server.", maxItems=16),
    "PodOptions.init_containers": _f("Containers that run before the server.", maxItems=16),
    "PodOptions.volumes": _f(
        "Volumes for sidecars, init containers and volumeMounts.", maxItems=32
    ),
    "PodOptions.volume_mounts": _f(
        "Mounts of these volumes into the server's container.", maxItems=32
    ),
    "PodOptions.env": _f("Environment of the server's container.", maxItems=64),
    "ServiceOptions.type": _f("Type of the Service."),
    "ServiceOptions.annotations": _f("Annotations of the Service.", **_TEXTS),
    "Monitoring.exporter": _f("Run an exporter beside each server, and create a Service for it."),
    "Monitoring.exporter_image": _f(
        "Image of the exporter instead of the version's own.", pattern=_IMAGE, maxLength=500
    ),
    "Monitoring.exporter_resources": _f("Resources of the exporter, instead of the default."),
    "Monitoring.exporter_args": _f(
        "Arguments of the exporter; those that say how it reaches the server are set.",
        maxItems=64,
        values={"maxLength": 1024, "pattern": PLAIN_TEXT},
    ),
    "Monitoring.exporter_env": _f("Environment of the exporter's container.", maxItems=64),
    "Monitoring.service_monitor": _f("Create a ServiceMonitor."),
    "Monitoring.prometheus_rule": _f("Create alerting rules."),
    "Monitoring.dashboard": _f("Create a Grafana dashboard."),
    "DisruptionBudget.enabled": _f("Let a drain take only one server of a shard at a time."),
    "DisruptionBudget.max_unavailable": _f(
        "Servers of a shard that may be down at a time for a drain. Absent: 1, or as "
        "minAvailable says.",
        minimum=0,
        maximum=10,
    ),
    "DisruptionBudget.min_available": _f(
        "Servers of a shard that a drain must leave, instead of maxUnavailable.",
        minimum=0,
        maximum=11,
    ),
    "NetworkPolicy.enabled": _f("Create a NetworkPolicy."),
    "NetworkPolicy.clients": _f(
        "Peers that may connect, as in a NetworkPolicy. Empty: every pod of the namespace.",
        maxItems=64,
    ),
    "Update.strategy": _f("Rolling: replicas first, then a planned switchover, the primary last."),
    "Update.paused": _f("Do not replace running pods for now."),
    "Update.parallel_shards": _f(
        "Shards that may have a pod replaced at the same time.", minimum=1, maximum=1000
    ),
    "Update.balance_primaries": _f(
        "Spread primaries over zones when nothing else is being changed."
    ),
    "Update.backup_first": _f(
        "Servers are replaced by those of another version after a backup has completed; a "
        "RedisBackupSchedule of this database must say where to."
    ),
    "Deletion.policy": _f(
        "Delete removes volumes, Retain keeps them, Backup removes them after a last backup has "
        "completed; a RedisBackupSchedule of this database must say where to."
    ),
    "Deletion.protected": _f(
        "While true, a deletion is not carried out: the database continues as before."
    ),
    "Bootstrap.from_backup": _f(
        "Start with the content of a backup: by the name of a RedisBackup, the newest of a "
        "RedisBackupSchedule, or by the store and the folder that it is in. With at or "
        "restorePoint: with that of a moment which the archive of a schedule has."
    ),
    "Bootstrap.from_redis": _f(
        "Start as a replica of an external server and follow it; no writes are accepted meanwhile. "
        "Removed: once all data has arrived, the database gets a primary of its own."
    ),
    "BootstrapFromBackup.name": _secret("Name of a RedisBackup in the same namespace."),
    "BootstrapFromBackup.schedule": _secret(
        "Name of a RedisBackupSchedule in the same namespace: its newest completed backup that no "
        "verification found damaged, when the restore begins."
    ),
    "BootstrapFromBackup.storage": _f(
        "The store that has the backup, where there is no RedisBackup of it here: one of another "
        "namespace, of another cluster, or whose object is gone.",
        rules=[(ONE_STORE_RULE, ONE_STORE)],
    ),
    "BootstrapFromBackup.path": _f(
        "The folder of its manifest.json, from the root of the volume or the bucket: what "
        "status.path of its RedisBackup says, or said. With at or restorePoint: the folder of an "
        "archive, which has one for each shard.",
        pattern=FOLDER,
        maxLength=1024,
    ),
    "BootstrapFromBackup.encryption": _f("The keys that it was encrypted with, if it was."),
    "BootstrapFromBackup.at": _f(
        "The moment to go back to, for a schedule with continuous: true or an archive in a store: "
        "a time such as 2026-01-31T12:00:00.5Z. All shards are of this moment.",
        pattern=TIME,
        maxLength=40,
    ),
    "BootstrapFromBackup.bound": _f(
        "On which side of the time: NotAfter holds nothing that was written later, and may miss "
        "the last 100 ms before it. Include misses nothing that was acknowledged by then, and may "
        "hold up to 100 ms more.",
        unsaid=True,
    ),
    "BootstrapFromBackup.restore_point": _f(
        "Name of a restore point to go back to instead of a time: exactly what was there then.",
        pattern=POINT_NAME,
        maxLength=63,
    ),
    "BootstrapFromRedis.host": _f(
        "Address or name of the server, as the pods of this database reach it.",
        pattern=_HOST,
        maxLength=253,
    ),
    "BootstrapFromRedis.port": _f("Its port.", minimum=1, maximum=65535),
    "BootstrapFromRedis.username": _f(
        "The user of it to log in as; it needs the commands PSYNC, REPLCONF, PING and INFO. "
        "Absent: the default user.",
        pattern=PLAIN_TEXT,
        maxLength=253,
    ),
    "BootstrapFromRedis.password_secret": _f("The password of that user. Absent: none is sent."),
    # --- status
    "RedisStatus.observed_generation": _f("The generation of the spec that this status is about."),
    "RedisStatus.phase": _f("The state in one word."),
    "RedisStatus.message": _f("The state in one sentence."),
    "RedisStatus.conditions": _f(
        "Conditions in the standard format of Kubernetes.", listKey="type"
    ),
    "RedisStatus.plan": _f("What will be done next, and why."),
    "RedisStatus.progress": _f("How far a running slot move has come."),
    "RedisStatus.shards": _f("Each shard as last observed.", listKey="name"),
    "RedisStatus.shard_count": _f("Shards that own slots; 1 in modes without slots."),
    "RedisStatus.replicas": _f("Desired replicas of each shard."),
    "RedisStatus.selector": _f("Label selector of the pods."),
    "RedisStatus.ready": _f("Ready servers of the desired number."),
    "RedisStatus.primary": _f("Pods that are primaries."),
    "RedisStatus.slots": _f("Slots that are served, of all."),
    "RedisStatus.memory": _f("Memory that primaries use."),
    "RedisStatus.engine": _f("Engine that runs."),
    "RedisStatus.version": _f("Oldest version that runs."),
    "RedisStatus.target_version": _f("Version that the servers run or are brought to."),
    "RedisStatus.endpoints": _f("Where clients connect."),
    "RedisStatus.last_operation": _f("The change or repair in progress, or the last one."),
    "RedisStatus.ready_shards": _f("Shards whose slots are served and whose servers are ready."),
    "RedisStatus.pods": _f("Each server as last observed; left out above 400.", listKey="name"),
    "RedisStatus.pod_count": _f("Desired number of servers."),
    "RedisStatus.ready_pods": _f("Servers that serve slots or follow a primary."),
    "Endpoints.clients": _f("Any server; clients discover the others from it."),
    "Endpoints.primaries": _f("Servers that are primaries."),
    "Endpoints.replicas": _f("Servers that are replicas."),
    "Endpoints.sentinels": _f("Sentinels, which clients ask for the primary."),
    "Endpoints.primary_name": _f("Name of the primary at the sentinels."),
    "Operation.type": _f("Creating, Healing, Scaling, Updating, Hibernating or Waking."),
    "Operation.start_time": _f("When it began."),
    "Operation.end_time": _f("When it ended; absent while it is in progress."),
    "Operation.result": _f("Succeeded or DataLost; absent while it is in progress."),
    "Operation.message": _f("Why it began."),
    "PodStatus.name": _f("Name of the pod."),
    "PodStatus.shard": _f("Number of its shard."),
    "PodStatus.role": _f(
        "primary or replica, as the server says; absent when it does not respond."
    ),
    "PodStatus.ready": _f("Whether it does its part: serves slots, or follows a primary."),
    "PodStatus.node": _f("Node it runs on."),
    "PodStatus.zone": _f("Zone of that node."),
    "PodStatus.address": _f("Its address."),
    "PodStatus.engine": _f("Engine that it runs."),
    "PodStatus.version": _f("Version that it runs."),
    "PodStatus.memory": _f("Memory it uses, to a tenth."),
    "PodStatus.keys": _f("Keys it holds, to a tenth."),
    "PodStatus.lag_bytes": _f("How far it is behind its primary, in whole MiB."),
    "PodStatus.restarts": _f("Restarts of its server."),
    "PodStatus.reason": _f("Why it does not respond."),
    "RedisStatus.image": _f("Image that all servers run."),
    "RedisStatus.last_data_loss": _f(
        "Slots that last lost every copy of their data, and what was done about it."
    ),
    "DataLoss.time": _f("When it was found."),
    "DataLoss.slots": _f("Ranges of slots whose data is lost."),
    "DataLoss.reason": _f("How they were lost."),
    "DataLoss.action": _f("What was done, or what a person has to decide."),
    "RedisStatus.binding": _f("Secret in the format of the Service Binding specification."),
    "Binding.name": _f("Name of the Secret."),
    "Progress.slots_moved": _f("Slots moved so far."),
    "Progress.slots_total": _f("Slots to move."),
    "Progress.keys_moved": _f("Keys moved so far."),
    "Progress.bytes_moved": _f("Bytes moved so far, if the engine reports them."),
    "Progress.seconds_left": _f("Estimate of the time left."),
    "ShardStatus.name": _f("Name of the shard, like shard-0."),
    "ShardStatus.slots": _f("Slots it owns."),
    "ShardStatus.primary": _f("Pod of its primary."),
    "ShardStatus.node_id": _f("Node id of the primary; of a dead one while it still owns slots."),
    "ShardStatus.replication_id": _f("Replication id of the data, as reported by that node."),
    "ShardStatus.replicas": _f("Its replicas."),
    "ShardStatus.last_failover_time": _f("When its primary last changed."),
    "ShardStatus.last_primary": _f("Pod that was its primary last, while it has none."),
    "RedisStatus.source": _f("The external server that the database follows, if it does."),
    "RedisStatus.restore": _f(
        "The backup that a new database is given key by key before it serves; absent where servers "
        "copy it whole."
    ),
    "RedisStatus.restoring": _f(
        "The RedisRestore that replaces the data; clients cannot connect meanwhile."
    ),
    "RestoringStatus.name": _f("Name of the RedisRestore."),
    "RestoringStatus.uid": _f("Its uid."),
    "RestoringStatus.shut": _f("Every server refuses clients."),
    "RestoringStatus.closed": _f("And every replica has all that was written before that."),
    "RestoringStatus.replacing": _f(
        "The data may be those of the backup, those before, or a part of either."
    ),
    "RestoringStatus.opened": _f("Clients can connect to every server that responds."),
    "RestoringStatus.servers": _f("A value that changes when any server restarts."),
    "RestoringStatus.filled": _f("The Job whose worker restored all keys."),
    "RestoreStatus.backup": _f("Name of the backup."),
    "RestoreStatus.keys": _f("How many keys the new primaries had when this was last observed."),
    "RestoreStatus.start_time": _f(
        "When the database was observed formed and empty: no key is restored before."
    ),
    "RestoreStatus.completion_time": _f("When all of it was restored."),
    "SourceStatus.address": _f("Where the server is."),
    "SourceStatus.pod": _f("The pod that follows it; the others follow that pod."),
    "SourceStatus.link": _f("State of the link to it."),
    "SourceStatus.lag_bytes": _f("How far the pod is behind it, where that is known."),
    "ReplicaStatus.pod": _f("Name of the pod."),
    "ReplicaStatus.lag_bytes": _f("How far it is behind its primary."),
    "ReplicaStatus.link": _f("State of its link to the primary."),
    "Condition.type": _f("What the condition is about."),
    "Condition.status": _f("True, False or Unknown."),
    "Condition.reason": _f("Why, in one word."),
    "Condition.message": _f("Why, in a sentence."),
    "Condition.last_transition_time": _f("When the status last changed."),
    "Condition.observed_generation": _f("The generation that the condition is about."),
    # --- RedisVersion
    "RedisVersion.spec": _f("Which image runs which version."),
    "RedisVersionSpec.engine": _f("Which server it is."),
    "RedisVersionSpec.version": _f("Its version, like 9.1.", pattern=_VERSION, maxLength=11),
    "RedisVersionSpec.image": _f("Image that runs it.", pattern=_IMAGE, maxLength=500),
    "RedisVersionSpec.exporter_image": _f("Image of its exporter.", pattern=_IMAGE, maxLength=500),
    "RedisVersionSpec.deprecated": _f("Databases that use it report that it is deprecated."),
    "RedisVersionSpec.minimum_patch": _f(
        "Oldest patch level that is safe.", pattern=_VERSION, maxLength=11
    ),
}
