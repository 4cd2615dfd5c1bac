"""Parse INFO. Pure; fields that a version does not send keep their default."""

from __future__ import annotations

from collections.abc import Mapping

from .errors import MalformedReplyError
from .parsing import number, parse_lines
from .replies import (
    Info,
    InfoMemory,
    InfoPersistence,
    InfoReplication,
    InfoServer,
    InfoStats,
    ReplicaLine,
)
from .resp import Reply

__all__ = ["parse_info", "parse_replication"]


def parse_info(reply: Reply) -> Info:
    """INFO with at least its server and replication sections."""
    fields = parse_lines(reply)
    if "redis_version" not in fields:
        raise MalformedReplyError("INFO names no redis_version", reply=reply)
    return Info(
        server=_server(fields),
        replication=_replication(fields, reply),
        persistence=_persistence(fields),
        memory=_memory(fields),
        stats=_stats(fields),
        connected_clients=number(fields, "connected_clients"),
        keys=_keys(fields),
        cluster_enabled=fields.get("cluster_enabled") == "1",
        fields=fields,
    )


def parse_replication(reply: Reply) -> InfoReplication:
    """INFO replication alone."""
    return _replication(parse_lines(reply), reply)


def _server(fields: Mapping[str, str]) -> InfoServer:
    valkey = fields.get("valkey_version", "")
    return InfoServer(
        engine="valkey" if valkey else "redis",
        version=valkey or fields["redis_version"],
        run_id=fields.get("run_id", ""),
        mode=fields.get("redis_mode", fields.get("server_mode", "")),
        tcp_port=number(fields, "tcp_port"),
        uptime_seconds=number(fields, "uptime_in_seconds"),
        process_id=number(fields, "process_id"),
    )


def _backlog_first(fields: Mapping[str, str]) -> int:
    if number(fields, "repl_backlog_active") == 0:
        return 0
    return number(fields, "repl_backlog_first_byte_offset")


def _replication(fields: Mapping[str, str], reply: Reply) -> InfoReplication:
    role = fields.get("role", "")
    if role not in ("master", "slave"):
        raise MalformedReplyError("INFO replication names no role", reply=reply)
    is_replica = role == "slave"
    offset = "slave_repl_offset" if is_replica else "master_repl_offset"
    return InfoReplication(
        role=role,
        replication_id=fields.get("master_replid", ""),
        replication_id2=fields.get("master_replid2", ""),
        offset=number(fields, offset),
        second_offset=number(fields, "second_repl_offset", -1),
        connected_replicas=number(fields, "connected_slaves"),
        replicas=_replica_lines(fields),
        primary_host=fields.get("master_host", ""),
        primary_port=number(fields, "master_port"),
        link_up=fields.get("master_link_status") == "up",
        sync_in_progress=fields.get("master_sync_in_progress", "0") != "0",
        sync_bytes_left=number(fields, "master_sync_left_bytes"),
        last_io_seconds=number(fields, "master_last_io_seconds_ago", -1),
        link_down_seconds=number(fields, "master_link_down_since_seconds", -1),
        is_read_only=fields.get("slave_read_only") == "1",
        priority=number(fields, "slave_priority", 100),
        failover_state=fields.get("master_failover_state", ""),
        backlog_bytes=number(fields, "repl_backlog_size"),
        backlog_first=_backlog_first(fields),
    )


def _replica_lines(fields: Mapping[str, str]) -> tuple[ReplicaLine, ...]:
    found = []
    for index in range(number(fields, "connected_slaves")):
        line = fields.get(f"slave{index}")
        if line is None:
            break
        parts = dict(part.split("=", 1) for part in line.split(",") if "=" in part)
        found.append(
            ReplicaLine(
                ip=parts.get("ip", ""),
                port=number(parts, "port"),
                state=parts.get("state", ""),
                offset=number(parts, "offset"),
                lag_seconds=number(parts, "lag", -1),
            )
        )
    return tuple(found)


def _persistence(fields: Mapping[str, str]) -> InfoPersistence:
    return InfoPersistence(
        loading=fields.get("loading", "0") != "0",
        loading_eta_seconds=number(fields, "loading_eta_seconds"),
        bgsave_running=fields.get("rdb_bgsave_in_progress", "0") != "0",
        last_bgsave_ok=fields.get("rdb_last_bgsave_status", "ok") == "ok",
        last_save=number(fields, "rdb_last_save_time"),
        changes_since_save=number(fields, "rdb_changes_since_last_save"),
        rdb_cow_bytes=number(fields, "rdb_last_cow_size"),
        aof_enabled=fields.get("aof_enabled", "0") != "0",
        aof_rewrite_running=fields.get("aof_rewrite_in_progress", "0") != "0",
        aof_rewrite_scheduled=fields.get("aof_rewrite_scheduled", "0") != "0",
        last_aof_rewrite_ok=fields.get("aof_last_bgrewrite_status", "ok") == "ok",
        last_aof_write_ok=fields.get("aof_last_write_status", "ok") == "ok",
        aof_cow_bytes=number(fields, "aof_last_cow_size"),
    )


def _memory(fields: Mapping[str, str]) -> InfoMemory:
    return InfoMemory(
        used_bytes=number(fields, "used_memory"),
        rss_bytes=number(fields, "used_memory_rss"),
        peak_bytes=number(fields, "used_memory_peak"),
        maxmemory_bytes=number(fields, "maxmemory"),
        policy=fields.get("maxmemory_policy", ""),
    )


def _stats(fields: Mapping[str, str]) -> InfoStats:
    return InfoStats(
        commands_processed=number(fields, "total_commands_processed"),
        commands_per_second=number(fields, "instantaneous_ops_per_sec"),
        full_syncs=number(fields, "sync_full"),
        refused_commands=number(fields, "unexpected_error_replies"),
        partial_syncs=number(fields, "sync_partial_ok"),
        partial_sync_errors=number(fields, "sync_partial_err"),
        keyspace_hits=number(fields, "keyspace_hits"),
        keyspace_misses=number(fields, "keyspace_misses"),
        evicted_keys=number(fields, "evicted_keys"),
        rejected_connections=number(fields, "rejected_connections"),
        latest_fork_microseconds=number(fields, "latest_fork_usec"),
    )


def _keys(fields: Mapping[str, str]) -> int:
    total = 0
    for name, value in fields.items():
        if name.startswith("db") and name[2:].isdecimal():
            parts = dict(part.split("=", 1) for part in value.split(",") if "=" in part)
            total += number(parts, "keys")
    return total
