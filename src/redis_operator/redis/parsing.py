"""Parse raw replies into the values of `replies`.

Total: any reply gives a value or raises `MalformedReplyError`; nothing else is raised. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from .errors import MalformedReplyError
from .replies import (
    ClusterInfo,
    ClusterLink,
    ClusterNode,
    MigrationJob,
    PrimaryRole,
    ReplicaRole,
    Role,
    SentinelRole,
    ShardNode,
    ShardView,
)
from .resp import Reply
from .slots import SLOTS, SlotSet

__all__ = [
    "as_integer",
    "as_list",
    "as_mapping",
    "as_ok",
    "as_text",
    "number",
    "parse_cluster_info",
    "parse_cluster_links",
    "parse_cluster_nodes",
    "parse_cluster_shards",
    "parse_lines",
    "parse_migrations",
    "parse_role",
]


def as_text(reply: Reply) -> str:
    """Return a string reply. Bytes that are not UTF-8 are escaped, not lost."""
    if isinstance(reply, bytes):
        return reply.decode("utf-8", "backslashreplace")
    raise MalformedReplyError("expected a string", reply=reply)


def as_optional_bytes(reply: Reply) -> bytes | None:
    """Return bytes, or None."""
    if reply is None or isinstance(reply, bytes):
        return reply
    raise MalformedReplyError("expected bytes or nothing", reply=reply)


def as_integer(reply: Reply) -> int:
    """Return a whole number, sent as an integer or as a string."""
    if isinstance(reply, bool):
        raise MalformedReplyError("expected a number", reply=reply)
    if isinstance(reply, int):
        return reply
    if isinstance(reply, bytes):
        try:
            return int(reply)
        except ValueError:
            pass
    raise MalformedReplyError("expected a number", reply=reply)


def as_list(reply: Reply) -> list[Reply]:
    """Return an array reply."""
    if isinstance(reply, list):
        return reply
    raise MalformedReplyError("expected a list", reply=reply)


def as_mapping(reply: Reply) -> dict[str, Reply]:
    """Return a flat array of names and values as a mapping; nested errors are malformed."""
    items = as_list(reply)
    if len(items) % 2:
        raise MalformedReplyError("expected pairs", reply=reply)
    return {as_text(name): value for name, value in zip(items[::2], items[1::2], strict=True)}


def as_ok(reply: Reply) -> None:
    """Check the reply OK of a command without a result."""
    if reply not in (b"OK", b"QUEUED"):
        raise MalformedReplyError("expected OK", reply=reply)


def parse_lines(reply: Reply) -> dict[str, str]:
    """Parse `name:value` lines, as in INFO and CLUSTER INFO; comments and other lines are
    skipped."""
    fields: dict[str, str] = {}
    for line in as_text(reply).splitlines():
        name, colon, value = line.partition(":")
        if colon and not line.startswith("#"):
            fields[name] = value
    return fields


def number(fields: Mapping[str, str], name: str, default: int = 0) -> int:
    """Return a numeric field, or its default when it is absent or not a number."""
    try:
        return int(fields.get(name, default))
    except ValueError:
        return default


def parse_cluster_info(reply: Reply) -> ClusterInfo:
    """CLUSTER INFO."""
    fields = parse_lines(reply)
    if "cluster_state" not in fields:
        raise MalformedReplyError("CLUSTER INFO names no cluster_state", reply=reply)
    return ClusterInfo(
        is_ok=fields["cluster_state"] == "ok",
        slots_assigned=number(fields, "cluster_slots_assigned"),
        slots_ok=number(fields, "cluster_slots_ok"),
        slots_pfail=number(fields, "cluster_slots_pfail"),
        slots_fail=number(fields, "cluster_slots_fail"),
        known_nodes=number(fields, "cluster_known_nodes"),
        size=number(fields, "cluster_size"),
        current_epoch=number(fields, "cluster_current_epoch"),
        my_epoch=number(fields, "cluster_my_epoch"),
    )


_MOST_LINES = 16384
"""How many lines are cached: observing N nodes parses N times N lines, and N of them differ."""


def parse_cluster_nodes(reply: Reply) -> tuple[ClusterNode, ...]:
    """CLUSTER NODES, one value for each line, in the order of the reply."""
    lines = [line for line in as_text(reply).splitlines() if line.strip()]
    nodes = tuple(_node(line) for line in lines)
    if not nodes:
        raise MalformedReplyError("CLUSTER NODES is empty", reply=reply)
    return nodes


def _node(line: str) -> ClusterNode:
    words = line.split(None, 6)
    if len(words) < 7:
        raise MalformedReplyError("a line of CLUSTER NODES has 8 words or more", reply=line)
    try:
        int(words[4]), int(words[5])
        return _node_without_times(words[0], words[1], words[2], words[3], words[6])
    except ValueError as error:
        raise MalformedReplyError(
            f"a line of CLUSTER NODES is broken ({error})", reply=line
        ) from None


@lru_cache(maxsize=_MOST_LINES)
def _node_without_times(id_: str, address: str, flags: str, primary: str, rest: str) -> ClusterNode:
    """Parse a line without its times: nodes that agree send the same line about a third."""
    epoch, link, *claims = rest.split()
    ip, port, bus_port, hostname, extras = _address(address)
    slots, migrating, importing = _slots(claims)
    return ClusterNode(
        id=id_,
        ip=ip,
        port=port,
        bus_port=bus_port,
        flags=frozenset(flags.split(",")) - {"noflags"},
        primary=None if primary == "-" else primary,
        config_epoch=int(epoch),
        link_connected=link == "connected",
        slots=slots,
        migrating=migrating,
        importing=importing,
        hostname=hostname,
        shard_id=extras.get("shard-id", ""),
    )


def _address(word: str) -> tuple[str, int, int, str, dict[str, str]]:
    """Split `ip:port@bus,hostname,shard-id=...`; the parts after the port came with later
    versions."""
    endpoint, *names = word.split(",")
    place, _, bus = endpoint.partition("@")
    ip, _, port = place.rpartition(":")
    extras = dict(name.split("=", 1) for name in names if "=" in name)
    hostname = names[0] if names and "=" not in names[0] else ""
    return ip, int(port), int(bus) if bus else 0, hostname, extras


_Open = tuple[tuple[int, str], ...]


def _slots(words: list[str]) -> tuple[SlotSet, _Open, _Open]:
    bits = 0
    migrating: list[tuple[int, str]] = []
    importing: list[tuple[int, str]] = []
    for word in words:
        if word.startswith("["):
            slot, arrow, node = word.strip("[]").split("-", 2)
            found = migrating if arrow == ">" else importing
            found.append((_slot(slot), node))
        else:
            first, dash, last = word.partition("-")
            bits |= SlotSet.span(int(first), int(last if dash else first)).bits
    return SlotSet.from_bits(bits), tuple(migrating), tuple(importing)


def _slot(text: str) -> int:
    slot = int(text)
    if not 0 <= slot < SLOTS:
        raise ValueError(f"slot {slot} does not exist")
    return slot


def parse_role(reply: Reply) -> Role:
    """ROLE, as one of three values."""
    words = as_list(reply)
    kind = as_text(words[0]) if words else ""
    if kind == "master" and len(words) >= 3:
        replicas = [as_list(entry) for entry in as_list(words[2])]
        return PrimaryRole(
            offset=as_integer(words[1]),
            replicas=tuple(_role_replica(entry) for entry in replicas),
        )
    if kind == "slave" and len(words) >= 5:
        return ReplicaRole(
            primary_host=as_text(words[1]),
            primary_port=as_integer(words[2]),
            state=as_text(words[3]),
            offset=as_integer(words[4]),
        )
    if kind == "sentinel" and len(words) >= 2:
        return SentinelRole(watched=tuple(as_text(name) for name in as_list(words[1])))
    raise MalformedReplyError("ROLE names no known role", reply=reply)


def _role_replica(entry: list[Reply]) -> tuple[str, int, int]:
    if len(entry) < 3:
        raise MalformedReplyError("ROLE lists a replica without an offset", reply=entry)
    return as_text(entry[0]), as_integer(entry[1]), as_integer(entry[2])


def parse_cluster_shards(reply: Reply) -> tuple[ShardView, ...]:
    """CLUSTER SHARDS."""
    return tuple(_shard(as_mapping(entry)) for entry in as_list(reply))


def _shard(entry: Mapping[str, Reply]) -> ShardView:
    bounds = [as_integer(bound) for bound in as_list(entry.get("slots"))]
    if len(bounds) % 2:
        raise MalformedReplyError("CLUSTER SHARDS has a slot range without an end", reply=bounds)
    bits = 0
    try:
        for first, last in zip(bounds[::2], bounds[1::2], strict=True):
            bits |= SlotSet.span(first, last).bits
    except ValueError as error:
        raise MalformedReplyError(f"CLUSTER SHARDS: {error}", reply=bounds) from None
    identity = entry.get("id")
    return ShardView(
        slots=SlotSet.from_bits(bits),
        nodes=tuple(_shard_node(as_mapping(node)) for node in as_list(entry.get("nodes"))),
        id=as_text(identity) if isinstance(identity, bytes) else "",
    )


def _shard_node(entry: Mapping[str, Reply]) -> ShardNode:
    def text(name: str) -> str:
        value = entry.get(name)
        return as_text(value) if isinstance(value, bytes) else ""

    def whole(name: str) -> int:
        value = entry.get(name)
        return as_integer(value) if value is not None else 0

    return ShardNode(
        id=as_text(entry.get("id")),
        ip=text("ip"),
        endpoint=text("endpoint"),
        port=whole("port"),
        tls_port=whole("tls-port"),
        role=text("role"),
        offset=whole("replication-offset"),
        health=text("health"),
    )


def parse_cluster_links(reply: Reply) -> tuple[ClusterLink, ...]:
    """CLUSTER LINKS."""
    links = []
    for entry in as_list(reply):
        fields = as_mapping(entry)
        links.append(
            ClusterLink(
                direction=as_text(fields.get("direction")),
                node=as_text(fields.get("node")),
                created_ms=as_integer(fields.get("create-time", 0)),
                events=as_text(fields.get("events", b"")),
                send_buffer_bytes=as_integer(fields.get("send-buffer-allocated", 0)),
            )
        )
    return tuple(links)


def parse_migrations(reply: Reply) -> tuple[MigrationJob, ...]:
    """CLUSTER GETSLOTMIGRATIONS (Valkey) and CLUSTER MIGRATION STATUS (Redis), newest first."""
    return tuple(_migration(as_mapping(entry)) for entry in as_list(reply))


def _migration(entry: Mapping[str, Reply]) -> MigrationJob:
    def text(*names: str) -> str:
        found = (entry[name] for name in names if name in entry)
        return next((as_text(value) for value in found if isinstance(value, bytes)), "")

    ranges = text("slot_ranges", "slots")
    try:
        slots = SlotSet.parse(ranges)
    except ValueError as error:
        raise MalformedReplyError(
            f"a slot migration names no slots ({error})", reply=ranges
        ) from None
    remaining = entry.get("remaining_repl_size", 0)
    return MigrationJob(
        name=text("name", "id"),
        operation=text("operation").lower(),
        state=text("state").lower(),
        slots=slots,
        source=text("source_node", "source"),
        target=text("target_node", "dest"),
        message=text("message", "last_error"),
        remaining_bytes=as_integer(remaining) if remaining is not None else 0,
    )
