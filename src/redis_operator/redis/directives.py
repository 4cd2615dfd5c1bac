"""Which directives exist, which engine has them, and which need a restart: one table, no code.

Measured on redis 6.2.14, 7.0.15 and 8.0.2 and on valkey 8.1.1 and 9.1.2 by CONFIG GET * and by
setting each to its own value. A name that is not here may exist in another version: it is tried on
one replica first.
"""

from __future__ import annotations

from typing import Final

__all__ = ["DANGEROUS", "LIVE_SINCE", "MANAGED", "MEASURED", "RESTART", "WORDS_PER_LINE"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_EVERYWHERE: Final = _words(
    """
acl-pubsub-default aclfile acllog-max-len active-defrag-cycle-max active-defrag-cycle-min
active-defrag-ignore-bytes active-defrag-max-scan-fields active-defrag-threshold-lower
active-defrag-threshold-upper active-expire-effort activedefrag activerehashing always-show-logo
aof-load-truncated aof-rewrite-incremental-fsync aof-use-rdb-preamble aof_rewrite_cpulist
appendfilename appendfsync appendonly auto-aof-rewrite-min-size auto-aof-rewrite-percentage
bgsave_cpulist bind bio_cpulist client-output-buffer-limit client-query-buffer-limit
cluster-allow-reads-when-down cluster-allow-replica-migration cluster-announce-bus-port
cluster-announce-ip cluster-announce-port cluster-announce-tls-port cluster-enabled
cluster-migration-barrier cluster-node-timeout cluster-replica-no-failover
cluster-replica-validity-factor cluster-require-full-coverage cluster-slave-no-failover
cluster-slave-validity-factor crash-log-enabled crash-memcheck-enabled daemonize databases
dbfilename dir disable-thp hash-max-ziplist-entries hash-max-ziplist-value hll-sparse-max-bytes
hz ignore-warnings io-threads jemalloc-bg-thread latency-monitor-threshold
lazyfree-lazy-eviction lazyfree-lazy-expire lazyfree-lazy-server-del lazyfree-lazy-user-del
lazyfree-lazy-user-flush lfu-decay-time lfu-log-factor list-compress-depth list-max-ziplist-size
logfile loglevel lua-time-limit masterauth masteruser maxclients maxmemory
maxmemory-eviction-tenacity maxmemory-policy maxmemory-samples min-replicas-max-lag
min-replicas-to-write min-slaves-max-lag min-slaves-to-write no-appendfsync-on-rewrite
notify-keyspace-events oom-score-adj oom-score-adj-values pidfile port proc-title-template
protected-mode proto-max-bulk-len rdb-del-sync-files rdb-save-incremental-fsync rdbchecksum
rdbcompression repl-backlog-size repl-backlog-ttl repl-disable-tcp-nodelay repl-diskless-load
repl-diskless-sync repl-diskless-sync-delay repl-ping-replica-period repl-ping-slave-period
repl-timeout replica-announce-ip replica-announce-port replica-announced
replica-ignore-maxmemory replica-lazy-flush replica-priority replica-read-only
replica-serve-stale-data requirepass save server_cpulist set-max-intset-entries set-proc-title
slave-announce-ip slave-announce-port slave-ignore-maxmemory slave-lazy-flush slave-priority
slave-read-only slave-serve-stale-data slaveof slowlog-log-slower-than slowlog-max-len
stop-writes-on-bgsave-error stream-node-max-bytes stream-node-max-entries supervised
syslog-enabled syslog-facility syslog-ident tcp-backlog tcp-keepalive timeout
tracking-table-max-keys unixsocket unixsocketperm zset-max-ziplist-entries
zset-max-ziplist-value
"""
)

_REDIS_62_ONLY: Final = _words(
    "gopher-enabled key-load-delay lua-replicate-commands rdb-key-save-delay "
    "use-exit-on-panic watchdog-period"
)

_SINCE_REDIS_70: Final = _words(
    """
aof-disable-auto-gc aof-timestamp-enabled appenddirname bind-source-addr busy-reply-threshold
cluster-allow-pubsubshard-when-down cluster-announce-hostname cluster-config-file
cluster-link-sendbuf-limit cluster-port cluster-preferred-endpoint-type dynamic-hz
enable-debug-command enable-module-command enable-protected-configs hash-max-listpack-entries
hash-max-listpack-value io-threads-do-reads latency-tracking latency-tracking-info-percentiles
list-max-listpack-size maxmemory-clients propagation-error-behavior
repl-diskless-sync-max-replicas replica-ignore-disk-write-errors replicaof sanitize-dump-payload
shutdown-on-sigint shutdown-on-sigterm shutdown-timeout socket-mark-id tls-auth-clients
tls-ca-cert-dir tls-ca-cert-file tls-cert-file tls-ciphers tls-ciphersuites tls-client-cert-file
tls-client-key-file tls-client-key-file-pass tls-cluster tls-dh-params-file tls-key-file
tls-key-file-pass tls-port tls-prefer-server-ciphers tls-protocols tls-replication
tls-session-cache-size tls-session-cache-timeout tls-session-caching zset-max-listpack-entries
zset-max-listpack-value
"""
)

_VALKEY: Final = _words(
    """
active-defrag-cycle-us aof-rewrite-cpulist availability-zone bgsave-cpulist bio-cpulist
cluster-announce-client-ipv4 cluster-announce-client-ipv6 cluster-announce-client-port
cluster-announce-client-tls-port cluster-announce-human-nodename cluster-blacklist-ttl
cluster-config-save-behavior cluster-databases cluster-manual-failover-timeout
cluster-slot-migration-log-max-len cluster-slot-stats-enabled commandlog-execution-slower-than
commandlog-large-reply-max-len commandlog-large-request-max-len commandlog-reply-larger-than
commandlog-request-larger-than commandlog-slow-execution-max-len
dual-channel-replication-enabled extended-redis-compatibility hash-seed hide-user-data-from-log
import-mode locale-collate log-format log-timestamp-format max-new-connections-per-cycle
max-new-tls-connections-per-cycle mptcp prefetch-batch-max-size primaryauth primaryuser
rdb-version-check rdma-bind rdma-completion-vector rdma-port rdma-rx-size repl-mptcp
server-cpulist set-max-listpack-entries set-max-listpack-value
slot-migration-max-failover-repl-bytes tls-auth-clients-user tls-auto-reload-interval
unixsocketgroup
"""
)

_VALKEY_LACKS: Final = _words(
    "aof-disable-auto-gc dynamic-hz io-threads-do-reads sanitize-dump-payload"
)

_SINCE_REDIS_80: Final = _words(
    """
aof-rewrite-cpulist bgsave-cpulist bio-cpulist cluster-announce-human-nodename
cluster-compatibility-sample-ratio hide-user-data-from-log locale-collate
max-new-connections-per-cycle max-new-tls-connections-per-cycle replica-full-sync-buffer-limit
server-cpulist set-max-listpack-entries set-max-listpack-value
"""
)

_SINCE_VALKEY_91: Final = _words(
    """
cluster-announce-client-port cluster-announce-client-tls-port cluster-config-save-behavior
cluster-databases cluster-slot-migration-log-max-len hash-seed mptcp repl-mptcp
slot-migration-max-failover-repl-bytes tls-auth-clients-user tls-auto-reload-interval
"""
)

MEASURED: Final = {
    ("redis", 6, 2): _EVERYWHERE
    | _REDIS_62_ONLY
    | _words("dynamic-hz io-threads-do-reads sanitize-dump-payload"),
    ("redis", 7, 0): _EVERYWHERE | _SINCE_REDIS_70,
    ("redis", 8, 0): (_EVERYWHERE | _SINCE_REDIS_70 | _SINCE_REDIS_80)
    - _words("aof-disable-auto-gc io-threads-do-reads"),
    ("valkey", 8, 1): (
        _EVERYWHERE
        | (_SINCE_REDIS_70 - _VALKEY_LACKS)
        | (_VALKEY - _SINCE_VALKEY_91)
        | _words("sanitize-dump-payload")
    ),
    ("valkey", 9, 1): _EVERYWHERE | (_SINCE_REDIS_70 - _VALKEY_LACKS) | _VALKEY,
}
"""Every directive of the versions that were measured."""

RESTART: Final = _words(
    """
always-show-logo aof-rewrite-cpulist aof_rewrite_cpulist bgsave-cpulist bgsave_cpulist
bio-cpulist bio_cpulist cluster-databases databases disable-thp
hash-seed io-threads io-threads-do-reads mptcp rdbchecksum rdma-completion-vector rdma-rx-size
repl-mptcp server-cpulist server_cpulist set-proc-title socket-mark-id syslog-enabled
syslog-facility syslog-ident tcp-backlog
"""
)
"""Directives that a running server does not accept."""

LIVE_SINCE: Final = {("valkey", "io-threads"): (9, 0)}
"""Those of RESTART that newer versions accept while running."""

WORDS_PER_LINE: Final = {
    "save": 2,
    "client-output-buffer-limit": 4,
    "oom-score-adj-values": 3,
    "latency-tracking-info-percentiles": 0,
    "bind": 0,
}
"""Directives whose value is several words; words beyond the number go to another line."""

MANAGED: Final = {
    **dict.fromkeys(_words("port tls-port bind bind-source-addr cluster-port"), ""),
    **dict.fromkeys(_words("unixsocket unixsocketperm unixsocketgroup rdma-bind rdma-port"), ""),
    # Paths of the data: a server that reads another path after a restart finds no data.
    **dict.fromkeys(_words("dir dbfilename appendfilename appenddirname rdb-del-sync-files"), ""),
    **dict.fromkeys(_words("pidfile logfile daemonize supervised"), ""),
    **dict.fromkeys(_words("cluster-enabled cluster-config-file protected-mode include"), ""),
    **dict.fromkeys(_words("cluster-announce-ip cluster-announce-port"), ""),
    **dict.fromkeys(_words("cluster-announce-bus-port cluster-announce-tls-port"), ""),
    **dict.fromkeys(_words("cluster-announce-hostname cluster-announce-human-nodename"), ""),
    **dict.fromkeys(_words("cluster-announce-client-ipv4 cluster-announce-client-ipv6"), ""),
    **dict.fromkeys(_words("cluster-preferred-endpoint-type cluster-allow-replica-migration"), ""),
    **dict.fromkeys(_words("cluster-replica-no-failover cluster-slave-no-failover"), ""),
    **dict.fromkeys(_words("cluster-migration-barrier cluster-config-save-behavior"), ""),
    **dict.fromkeys(_words("replicaof slaveof replica-announced replica-read-only"), ""),
    **dict.fromkeys(_words("slave-read-only replica-announce-ip replica-announce-port"), ""),
    **dict.fromkeys(_words("slave-announce-ip slave-announce-port import-mode"), ""),
    **dict.fromkeys(_words("shutdown-on-sigterm shutdown-on-sigint"), ""),
    **dict.fromkeys(
        _words("requirepass masterauth masteruser primaryauth primaryuser"), "spec.auth"
    ),
    **dict.fromkeys(_words("aclfile user acl-pubsub-default"), "spec.auth"),
    **dict.fromkeys(_words("appendonly"), "spec.durability.persistence"),
    **dict.fromkeys(
        _words("min-replicas-to-write min-slaves-to-write"), "spec.durability.minReplicasToWrite"
    ),
    **dict.fromkeys(
        _words("min-replicas-max-lag min-slaves-max-lag"), "spec.durability.maxLagSeconds"
    ),
    **dict.fromkeys(_words("tls-auth-clients tls-ca-cert-dir tls-ca-cert-file"), "spec.tls"),
    **dict.fromkeys(_words("tls-cert-file tls-key-file tls-key-file-pass tls-cluster"), "spec.tls"),
    **dict.fromkeys(_words("tls-client-cert-file tls-client-key-file"), "spec.tls"),
    **dict.fromkeys(_words("tls-client-key-file-pass tls-replication"), "spec.tls"),
    **dict.fromkeys(_words("tls-dh-params-file tls-auto-reload-interval"), "spec.tls"),
}
"""Directives that the operator sets, and the field to use instead where there is one."""

DANGEROUS: Final = {
    "rename-command": "it takes away commands that the operator and failover need; use ACL rules",
    "loadmodule": "it runs foreign code inside the server; use an image that has the module",
    "enable-debug-command": "DEBUG can crash the server and rewrite its data",
    "enable-module-command": "it lets clients load foreign code into the server",
    "enable-protected-configs": "it lets clients write files anywhere the server may write",
    "rdb-version-check": "relaxing it can load a snapshot that this version misreads",
    "watchdog-period": "the watchdog interrupts the server with signals",
    "key-load-delay": "it exists for the engine's own tests",
    "rdb-key-save-delay": "it exists for the engine's own tests",
    "aof-disable-auto-gc": "old append-only files would fill the disk",
    "hash-seed": "a known seed lets clients slow the server down on purpose",
}
"""Directives that are always refused, and why."""
