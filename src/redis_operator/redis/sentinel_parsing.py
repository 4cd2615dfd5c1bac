"""Parse raw replies of sentinels into the values of `sentinel_replies`.

Total: any reply gives a value or raises `MalformedReplyError`; nothing else is raised. Pure.
Engines and versions name some fields differently: where they do, every known name is tried.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .errors import MalformedReplyError
from .parsing import as_integer, as_list, as_mapping, as_text, number, parse_lines
from .resp import Reply
from .sentinel_replies import (
    InfoSentinel,
    KnownReplica,
    KnownSentinel,
    MonitoredPrimary,
    PrimaryLine,
    Quorum,
    Vote,
)

__all__ = [
    "parse_address",
    "parse_info_sentinel",
    "parse_known_replicas",
    "parse_known_sentinels",
    "parse_monitored",
    "parse_monitored_primaries",
    "parse_quorum",
    "parse_vote",
]


def parse_monitored(reply: Reply) -> MonitoredPrimary:
    """SENTINEL MASTER."""
    fields = _fields(reply)
    return MonitoredPrimary(
        **_common(fields),
        role_reported=fields.get("role-reported", "master"),
        role_reported_ms=number(fields, "role-reported-time"),
        info_refresh_ms=number(fields, "info-refresh"),
        down_ms=number(fields, "s-down-time"),
        config_epoch=number(fields, "config-epoch"),
        replicas=_number(fields, "num-slaves", "num-replicas"),
        other_sentinels=number(fields, "num-other-sentinels"),
        quorum=number(fields, "quorum"),
        failover_timeout_ms=number(fields, "failover-timeout"),
        parallel_syncs=number(fields, "parallel-syncs"),
        failover_state=fields.get("failover-state", ""),
    )


def parse_monitored_primaries(reply: Reply) -> tuple[MonitoredPrimary, ...]:
    """SENTINEL MASTERS, by name."""
    found = (parse_monitored(entry) for entry in as_list(reply))
    return tuple(sorted(found, key=lambda primary: primary.name))


def parse_known_replicas(reply: Reply) -> tuple[KnownReplica, ...]:
    """SENTINEL REPLICAS, by address."""
    found = (_replica(_fields(entry)) for entry in as_list(reply))
    return tuple(sorted(found, key=lambda replica: (replica.ip, replica.port)))


def _replica(fields: Mapping[str, str]) -> KnownReplica:
    host = _text(fields, "master-host", "primary-host")
    return KnownReplica(
        **_common(fields),
        role_reported=fields.get("role-reported", "slave"),
        info_refresh_ms=number(fields, "info-refresh"),
        primary_host="" if host == "?" else host,
        primary_port=_number(fields, "master-port", "primary-port"),
        link_up=_text(fields, "master-link-status", "primary-link-status") == "ok",
        link_down_ms=_number(fields, "master-link-down-time", "primary-link-down-time"),
        priority=_number(fields, "slave-priority", "replica-priority", default=100),
        offset=_number(fields, "slave-repl-offset", "replica-repl-offset"),
        is_announced=fields.get("replica-announced", "1") != "0",
    )


def parse_known_sentinels(reply: Reply) -> tuple[KnownSentinel, ...]:
    """SENTINEL SENTINELS, by id."""
    found = (_sentinel(_fields(entry)) for entry in as_list(reply))
    return tuple(sorted(found, key=lambda sentinel: (sentinel.run_id, sentinel.ip, sentinel.port)))


def _sentinel(fields: Mapping[str, str]) -> KnownSentinel:
    leader = fields.get("voted-leader", "")
    return KnownSentinel(
        **_common(fields),
        last_hello_ms=number(fields, "last-hello-message"),
        voted_leader="" if leader == "?" else leader,
        voted_leader_epoch=number(fields, "voted-leader-epoch"),
    )


def parse_quorum(reply: Reply) -> Quorum:
    """SENTINEL CKQUORUM: `OK 3 usable Sentinels. ...`."""
    words = as_text(reply).split()
    if len(words) < 2 or words[0] != "OK" or not _is_number(words[1]):
        raise MalformedReplyError("CKQUORUM names no usable sentinels", reply=reply)
    return Quorum(usable=int(words[1]))


def parse_address(reply: Reply) -> tuple[str, int] | None:
    """SENTINEL GET-MASTER-ADDR-BY-NAME: host and port, or None for a name it does not monitor."""
    if reply is None:
        return None
    words = as_list(reply)
    if len(words) != 2:
        raise MalformedReplyError("an address has two parts", reply=reply)
    return as_text(words[0]), as_integer(words[1])


def parse_vote(reply: Reply) -> Vote:
    """SENTINEL IS-MASTER-DOWN-BY-ADDR: down or not, the last vote, and its epoch."""
    words = as_list(reply)
    if len(words) != 3:
        raise MalformedReplyError("a vote has three parts", reply=reply)
    leader = as_text(words[1])
    return Vote(
        down=as_integer(words[0]) == 1,
        leader="" if leader == "*" else leader,
        epoch=as_integer(words[2]),
    )


def parse_info_sentinel(reply: Reply) -> InfoSentinel:
    """INFO of a sentinel, whole or the section alone."""
    fields = parse_lines(reply)
    if "sentinel_masters" not in fields:
        raise MalformedReplyError("INFO has no sentinel section", reply=reply)
    valkey = fields.get("valkey_version", "")
    lines = [fields.get(f"master{n}") for n in range(number(fields, "sentinel_masters"))]
    return InfoSentinel(
        engine="valkey" if valkey else "redis",
        version=valkey or fields.get("redis_version", ""),
        run_id=fields.get("run_id", ""),
        uptime_seconds=number(fields, "uptime_in_seconds"),
        tilt=fields.get("sentinel_tilt", "0") != "0",
        tilt_seconds=number(fields, "sentinel_tilt_since_seconds", -1),
        primaries=tuple(_line(line) for line in lines if line is not None),
    )


def _line(line: str) -> PrimaryLine:
    parts = dict(part.split("=", 1) for part in line.split(",") if "=" in part)
    ip, _, port = parts.get("address", "").rpartition(":")
    return PrimaryLine(
        name=parts.get("name", ""),
        status=parts.get("status", ""),
        ip=ip,
        port=number({"port": port}, "port"),
        replicas=_number(parts, "slaves", "replicas"),
        sentinels=number(parts, "sentinels"),
    )


def _fields(reply: Reply) -> dict[str, str]:
    fields = {name: as_text(value) for name, value in as_mapping(reply).items()}
    if "ip" not in fields or not _is_number(fields.get("port", "")):
        raise MalformedReplyError("a sentinel described something without an address", reply=reply)
    return fields


def _common(fields: Mapping[str, str]) -> dict[str, Any]:
    return {
        "name": fields.get("name", ""),
        "ip": fields["ip"],
        "port": int(fields["port"]),
        "run_id": fields.get("runid", ""),
        "flags": frozenset(fields.get("flags", "").split(",")) - {""},
        "last_ok_ping_ms": number(fields, "last-ok-ping-reply"),
        "down_after_ms": number(fields, "down-after-milliseconds"),
    }


def _text(fields: Mapping[str, str], *names: str) -> str:
    return next((fields[name] for name in names if name in fields), "")


def _number(fields: Mapping[str, str], *names: str, default: int = 0) -> int:
    name = next((name for name in names if name in fields), names[0])
    return number(fields, name, default)


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdecimal() and len(word) < 10
