"""The defaults of directives: the value of a setting that is removed.

Measured like `directives`, by CONFIG GET on servers without a configuration. The versions agree
with each other; where the engines differ, the table of the engine has the value. A directive that
is not here can only be reset by a restart.
"""

from __future__ import annotations

from typing import Final

from .config import is_known
from .versions import Version

__all__ = ["all_defaults", "default_of"]

_EVERYWHERE: Final = """
acllog-max-len 128
active-defrag-cycle-max 25
active-defrag-cycle-min 1
active-defrag-cycle-us 500
active-defrag-ignore-bytes 104857600
active-defrag-max-scan-fields 1000
active-defrag-threshold-lower 10
active-defrag-threshold-upper 100
active-expire-effort 1
activedefrag no
activerehashing yes
aof-load-truncated yes
aof-rewrite-incremental-fsync yes
aof-timestamp-enabled no
aof-use-rdb-preamble yes
appendfsync everysec
auto-aof-rewrite-min-size 67108864
auto-aof-rewrite-percentage 100
availability-zone
busy-reply-threshold 5000
client-output-buffer-limit normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60
client-query-buffer-limit 1073741824
cluster-allow-pubsubshard-when-down yes
cluster-allow-reads-when-down no
cluster-announce-client-port 0
cluster-announce-client-tls-port 0
cluster-blacklist-ttl 60
cluster-compatibility-sample-ratio 0
cluster-link-sendbuf-limit 0
cluster-manual-failover-timeout 5000
cluster-node-timeout 15000
cluster-replica-validity-factor 10
cluster-require-full-coverage yes
cluster-slot-migration-log-max-len 1000
cluster-slot-stats-enabled no
commandlog-execution-slower-than 10000
commandlog-large-reply-max-len 128
commandlog-large-request-max-len 128
commandlog-reply-larger-than 1048576
commandlog-request-larger-than 1048576
commandlog-slow-execution-max-len 128
crash-log-enabled yes
crash-memcheck-enabled yes
dual-channel-replication-enabled no
dynamic-hz yes
extended-redis-compatibility no
gopher-enabled no
hash-max-listpack-entries 512
hash-max-listpack-value 64
hash-max-ziplist-entries 512
hash-max-ziplist-value 64
hll-sparse-max-bytes 3000
hz 10
ignore-warnings
jemalloc-bg-thread yes
latency-monitor-threshold 0
latency-tracking yes
latency-tracking-info-percentiles 50 99 99.9
lfu-decay-time 1
lfu-log-factor 10
list-compress-depth 0
list-max-listpack-size -2
list-max-ziplist-size -2
locale-collate
log-format legacy
log-timestamp-format legacy
loglevel notice
lua-replicate-commands yes
lua-time-limit 5000
max-new-connections-per-cycle 10
max-new-tls-connections-per-cycle 1
maxclients 10000
maxmemory 0
maxmemory-clients 0
maxmemory-eviction-tenacity 10
maxmemory-policy noeviction
maxmemory-samples 5
no-appendfsync-on-rewrite no
notify-keyspace-events
oom-score-adj no
oom-score-adj-values 0 200 800
prefetch-batch-max-size 16
proc-title-template {title} {listen-addr} {server-mode}
propagation-error-behavior ignore
proto-max-bulk-len 536870912
rdb-save-incremental-fsync yes
rdbcompression yes
repl-backlog-ttl 3600
repl-disable-tcp-nodelay no
repl-diskless-load disabled
repl-diskless-sync-delay 5
repl-diskless-sync-max-replicas 0
repl-ping-replica-period 10
repl-ping-slave-period 10
repl-timeout 60
replica-full-sync-buffer-limit 0
replica-ignore-disk-write-errors no
replica-ignore-maxmemory yes
replica-priority 100
replica-serve-stale-data yes
sanitize-dump-payload no
save 3600 1 300 100 60 10000
set-max-intset-entries 512
set-max-listpack-entries 128
set-max-listpack-value 64
shutdown-timeout 10
slot-migration-max-failover-repl-bytes 0
slowlog-log-slower-than 10000
slowlog-max-len 128
stop-writes-on-bgsave-error yes
stream-node-max-bytes 4096
stream-node-max-entries 100
tcp-keepalive 300
timeout 0
tracking-table-max-keys 1000000
use-exit-on-panic no
zset-max-listpack-entries 128
zset-max-listpack-value 64
zset-max-ziplist-entries 128
zset-max-ziplist-value 64
"""

_OF_ENGINE: Final = {
    "redis": """
hide-user-data-from-log no
lazyfree-lazy-eviction no
lazyfree-lazy-expire no
lazyfree-lazy-server-del no
lazyfree-lazy-user-del no
lazyfree-lazy-user-flush no
replica-lazy-flush no
""",
    "valkey": """
hide-user-data-from-log yes
lazyfree-lazy-eviction yes
lazyfree-lazy-expire yes
lazyfree-lazy-server-del yes
lazyfree-lazy-user-del yes
lazyfree-lazy-user-flush yes
replica-lazy-flush yes
""",
}


def _table(text: str) -> dict[str, str]:
    rows = (line.partition(" ") for line in text.splitlines() if line)
    return {name: value for name, _, value in rows}


_DEFAULTS: Final = {engine: _table(_EVERYWHERE) | _table(own) for engine, own in _OF_ENGINE.items()}


def all_defaults(version: Version) -> dict[str, str]:
    """Return every directive of this version that has a known default."""
    found = _DEFAULTS.get(version.engine, {})
    return {name: value for name, value in found.items() if is_known(name, version)}


def default_of(name: str, version: Version) -> str | None:
    """Return the value of a directive that is not set, or None when it is not known."""
    return _DEFAULTS.get(version.engine, {}).get(name.lower())
