"""The values that directives accept, and how servers format them: tables with little code. Pure.

Measured on redis 6.2.14 and valkey 9.1.2 by setting each directive to good and bad values. A
directive that is in no table accepts what the server accepts. Most numbers have no bounds here: the
server knows them, and reports a violation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

__all__ = ["ALIASES", "canonical", "parse_bytes", "value_problem"]

_BYTES = re.compile(r"(\d{1,19})(b|k|kb|m|mb|g|gb)?", re.IGNORECASE | re.ASCII)
_UNITS = {"b": 1, "k": 10**3, "kb": 2**10, "m": 10**6, "mb": 2**20, "g": 10**9, "gb": 2**30}
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,18})", re.ASCII)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ALIASES: Final = {
    **{
        f"{kind}-max-ziplist-{part}": f"{kind}-max-listpack-{part}"
        for kind in ("hash", "zset")
        for part in ("entries", "value")
    },
    "list-max-ziplist-size": "list-max-listpack-size",
    "lua-time-limit": "busy-reply-threshold",
    "slowlog-log-slower-than": "commandlog-execution-slower-than",
    "slowlog-max-len": "commandlog-slow-execution-max-len",
    "repl-ping-slave-period": "repl-ping-replica-period",
    "cluster-slave-validity-factor": "cluster-replica-validity-factor",
    **{
        f"slave-{name}": f"replica-{name}"
        for name in ("ignore-maxmemory", "lazy-flush", "priority", "serve-stale-data")
    },
    **{
        f"{name}_cpulist": f"{name.replace('_', '-')}-cpulist"
        for name in ("aof_rewrite", "bgsave", "bio", "server")
    },
}
"""Older names of directives, where a server may know both: setting one sets the other."""

_YES_NO: Final = _words(
    """
activedefrag activerehashing always-show-logo aof-load-truncated aof-rewrite-incremental-fsync
aof-timestamp-enabled aof-use-rdb-preamble cluster-allow-pubsubshard-when-down
cluster-allow-reads-when-down cluster-require-full-coverage cluster-slot-stats-enabled
crash-log-enabled crash-memcheck-enabled disable-thp dual-channel-replication-enabled dynamic-hz
extended-redis-compatibility gopher-enabled hide-user-data-from-log io-threads-do-reads
jemalloc-bg-thread latency-tracking lazyfree-lazy-eviction lazyfree-lazy-expire
lazyfree-lazy-server-del lazyfree-lazy-user-del lazyfree-lazy-user-flush lua-replicate-commands
mptcp no-appendfsync-on-rewrite rdb-save-incremental-fsync rdbchecksum rdbcompression
repl-disable-tcp-nodelay repl-diskless-sync repl-mptcp replica-ignore-disk-write-errors
replica-ignore-maxmemory replica-lazy-flush replica-serve-stale-data set-proc-title
stop-writes-on-bgsave-error syslog-enabled tls-prefer-server-ciphers tls-session-caching
use-exit-on-panic
"""
)
_NUMBERS: Final = _words(
    """
acllog-max-len active-defrag-cycle-max active-defrag-cycle-min active-defrag-cycle-us
active-defrag-max-scan-fields active-defrag-threshold-lower active-defrag-threshold-upper
active-expire-effort auto-aof-rewrite-percentage busy-reply-threshold cluster-announce-client-port
cluster-announce-client-tls-port cluster-blacklist-ttl cluster-compatibility-sample-ratio
cluster-databases cluster-manual-failover-timeout cluster-node-timeout
cluster-replica-validity-factor cluster-slot-migration-log-max-len commandlog-execution-slower-than
commandlog-large-reply-max-len commandlog-large-request-max-len commandlog-reply-larger-than
commandlog-request-larger-than commandlog-slow-execution-max-len databases
hash-max-listpack-entries hz io-threads latency-monitor-threshold lfu-decay-time lfu-log-factor
list-compress-depth list-max-listpack-size max-new-connections-per-cycle
max-new-tls-connections-per-cycle maxclients maxmemory-eviction-tenacity maxmemory-samples
prefetch-batch-max-size repl-backlog-ttl repl-diskless-sync-delay repl-diskless-sync-max-replicas
repl-ping-replica-period repl-timeout replica-priority set-max-intset-entries
set-max-listpack-entries set-max-listpack-value shutdown-timeout slowlog-log-slower-than
slowlog-max-len socket-mark-id stream-node-max-entries tcp-backlog tcp-keepalive timeout
tls-session-cache-size tls-session-cache-timeout tracking-table-max-keys zset-max-listpack-entries
"""
)
_BELOW_ZERO: Final = _words(
    """
cluster-blacklist-ttl commandlog-execution-slower-than commandlog-reply-larger-than
commandlog-request-larger-than list-max-listpack-size slowlog-log-slower-than
slot-migration-max-failover-repl-bytes
"""
)
_SIZES: Final = _words(
    """
active-defrag-ignore-bytes auto-aof-rewrite-min-size client-query-buffer-limit
cluster-link-sendbuf-limit hash-max-listpack-value hll-sparse-max-bytes maxmemory maxmemory-clients
proto-max-bulk-len repl-backlog-size replica-full-sync-buffer-limit
slot-migration-max-failover-repl-bytes stream-node-max-bytes zset-max-listpack-value
"""
)
_BOUNDS: Final = {
    "cluster-databases": (1, 2**31 - 1),
    "databases": (1, 2**31 - 1),
    "io-threads": (1, 128),
    "socket-mark-id": (0, 2**32 - 1),
    "tcp-backlog": (0, 2**31 - 1),
}
"""Bounds of numbers that only a start applies: a server that refuses one does not start at all."""
_PERCENT: Final = _words("maxmemory-clients")
_ENUMS: Final = {
    "appendfsync": "always everysec no",
    "log-format": "legacy logfmt",
    "log-timestamp-format": "legacy iso8601 milliseconds",
    "loglevel": "debug verbose notice warning nothing",
    "maxmemory-policy": "noeviction allkeys-lfu allkeys-lru allkeys-random volatile-lfu "
    "volatile-lru volatile-random volatile-ttl",
    "oom-score-adj": "no yes relative absolute",
    "propagation-error-behavior": "ignore panic panic-on-replicas",
    "repl-diskless-load": "disabled on-empty-db swapdb flush-before-load",
    "sanitize-dump-payload": "no yes clients",
    "syslog-facility": "user local0 local1 local2 local3 local4 local5 local6 local7",
}
_SAME_WORD: Final = {("oom-score-adj", "relative"): "yes"}
_CLAMPS: Final = {"hz": (1, 500), "repl-backlog-size": (16384, 2**63)}
_TEXTS: Final = _words(
    """
availability-zone ignore-warnings locale-collate proc-title-template syslog-ident tls-ciphers
tls-ciphersuites tls-protocols
"""
)
_ALL_EVENTS: Final = frozenset("g$lshzxetd")
_EVENTS: Final = _ALL_EVENTS | frozenset("KEAmn")


def parse_bytes(text: str) -> int | None:
    """A memory size as servers read it: `64mb` is 64·2²⁰, `64m` is 64·10⁶. None: not a size."""
    match = _BYTES.fullmatch(text.strip())
    if match is None:
        return None
    return int(match.group(1)) * _UNITS[(match.group(2) or "b").lower()]


def value_problem(name: str, value: str, *, measured: bool = True) -> str | None:
    """Return why no server accepts this value for the directive, or None; names in lower case.

    Words that newer versions may have added are refused only where the version was `measured`.
    """
    name = ALIASES.get(name, name)
    if name in _YES_NO:
        return None if value.lower() in ("yes", "no") else "must be yes or no"
    if name in _NUMBERS:
        return _number_problem(name, value)
    if name in _SIZES:
        return _size_problem(name, value)
    if name in _ENUMS and measured:
        words = _ENUMS[name].split()
        return None if value.lower() in words else f"must be one of {', '.join(words)}"
    check = _CHECKS.get(name)
    return check(value, measured) if check is not None else None


def _number_problem(name: str, value: str) -> str | None:
    if not _NUMBER.fullmatch(value) or (value.startswith("-") and name not in _BELOW_ZERO):
        return "must be a whole number"
    low, high = _BOUNDS.get(name, (None, None))
    if low is None or high is None or low <= int(value) <= high:
        return None
    return f"must be a whole number from {low} to {high}"


def _size_problem(name: str, value: str) -> str | None:
    if parse_bytes(value) is not None or (name in _BELOW_ZERO and value == "-1"):
        return None
    if name in _PERCENT and re.fullmatch(r"\d{1,3}%", value, re.ASCII):
        return None
    return "must be a size, like 64mb"


def _events_problem(value: str, measured: bool) -> str | None:
    if not measured or set(value) <= _EVENTS:
        return None
    return f"must be made of the letters {''.join(sorted(_EVENTS))}"


def _limits_problem(value: str, measured: bool) -> str | None:
    del measured
    words = value.split()
    groups = [words[start : start + 4] for start in range(0, len(words), 4)]
    kinds = ("normal", "replica", "slave", "pubsub")
    fine = words and all(
        len(group) == 4
        and group[0].lower() in kinds
        and parse_bytes(group[1]) is not None
        and parse_bytes(group[2]) is not None
        and group[3].isdecimal()
        for group in groups
    )
    return None if fine else "must look like normal 0 0 0 replica 256mb 64mb 60"


def _scores_problem(value: str, measured: bool) -> str | None:
    del measured
    words = value.split()
    fine = len(words) == 3 and all(_NUMBER.fullmatch(word) for word in words)
    return None if fine else "must be three whole numbers, like 0 200 800"


def _percentiles_problem(value: str, measured: bool) -> str | None:
    del measured
    fine = all(re.fullmatch(r"\d{1,3}(\.\d+)?", word, re.ASCII) for word in value.split())
    return None if fine else "must be numbers from 0 to 100, like 50 99 99.9"


_CHECKS: Final[dict[str, Callable[[str, bool], str | None]]] = {
    "notify-keyspace-events": _events_problem,
    "client-output-buffer-limit": _limits_problem,
    "oom-score-adj-values": _scores_problem,
    "latency-tracking-info-percentiles": _percentiles_problem,
}


def canonical(name: str, value: str) -> str:
    """Return one spelling for all values that mean the same to a server."""
    low = ALIASES.get(name.lower(), name.lower())
    if low in _TEXTS:
        return value
    if low == "notify-keyspace-events":
        return _events(value)
    if low == "latency-tracking-info-percentiles":
        return " ".join(map(_fraction, value.split()))
    word = " ".join(_word(low, word) for word in value.split())
    low_end, high_end = _CLAMPS.get(low, (None, None))
    if low_end is not None and high_end is not None and word.isdecimal():
        return str(min(max(int(word), low_end), high_end))
    return word


def _events(value: Iterable[str]) -> str:
    flags = set(value)
    if "A" in flags:
        flags = flags - {"A"} | _ALL_EVENTS
    # Without K and E no event is published, and servers drop the rest.
    return "".join(sorted(flags))


def _fraction(word: str) -> str:
    try:
        return f"{float(word):g}"
    except ValueError:
        return word


def _word(name: str, word: str) -> str:
    low = word.lower()
    size = parse_bytes(low)
    return str(size) if size is not None else _SAME_WORD.get((name, low), low)
