"""The parts of a database as last observed: shards, pods, versions, memory. Pure.

Values that change all the time are rounded (lag in whole MiB, memory and keys to a tenth), so that
the status of a settled database is not written again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256

from msgspec.structs import replace

from ...api.quantity import format_bytes, parse_quantity
from ...api.status import (
    PodStatus,
    ReplicaStatus,
    RestoreStatus,
    RestoringStatus,
    ShardStatus,
    SourceStatus,
)
from ..common.fill import unfilled, unsaved, unwatched
from ..observed import Node, Pod, Seen, Unreachable
from ..topology import Topology
from .context import Context

__all__ = [
    "START_SECONDS",
    "is_going",
    "is_replaced",
    "memory",
    "numbers",
    "pods",
    "ready_pods",
    "ready_shards",
    "restore",
    "running",
    "shards",
    "source",
]

START_SECONDS = 60.0
_FEW_KEYS = 10
"""How long after its start a server may take to be settled before something is wrong."""
_SCHEDULING_SECONDS = 10.0
_MIB = 1024 * 1024
_MOST_PODS = 400
"""Pods that are listed one by one; with more, the status would not fit into etcd."""


def shards(situation: Topology, context: Context) -> Iterator[ShardStatus]:
    """Yield each group that has pods which stay, or whose record must outlast them."""
    before = {shard.name: shard for shard in context.previous.shards}
    nodes = situation.observed.nodes
    numbers = {node.pod.shard for node in nodes if not is_going(situation, node)}
    numbers |= situation.lasting_groups
    for number in sorted(numbers):
        lasts = number in situation.lasting_groups
        name = situation.group_name(number)
        primary = situation.leader(number)
        old = before.get(name)
        changed = old is not None and old.primary and primary and old.primary != primary.pod.name
        node_id, replication_id = situation.history(
            number, (old.node_id, old.replication_id) if old is not None else ("", "")
        )
        yield ShardStatus(
            name=name,
            slots=situation.slots_of(number),
            primary=primary.pod.name if primary is not None else "",
            node_id=node_id,
            replication_id=replication_id,
            replicas=tuple(_replicas(situation, number, situation.upstream(number))),
            last_failover_time=context.now
            if changed
            else (old.last_failover_time if old is not None else ""),
            last_primary=_led_last(old) if primary is None and lasts else "",
        )


def source(situation: Topology) -> SourceStatus | None:
    """Return the external server that is followed, once it is recorded that servers hold a copy."""
    copy = situation.copy
    if copy is None or not copy.recorded:
        return None
    lag = copy.lag // _MIB * _MIB
    return SourceStatus(address=copy.address, pod=copy.pod, link=copy.link, lag_bytes=lag)


def restore(situation: Topology, context: Context) -> RestoreStatus | None:
    """Return the backup that the database is restored from, and when it had all of it."""
    filling, known = situation.wanted.filling, context.previous.restore
    if filling is None or filling.restore:
        return known
    backup, begun, whole = filling.backup, "", not situation.unserved
    keys = sum(node.keys for node in situation.serving)
    if known is not None:
        begun = known.start_time
        keys = keys if whole else max(keys, known.keys)
        if known.keys and not known.completion_time:
            backup = known.backup  # whatever is wanted now: its keys are there
    if whole and not keys:
        begun = begun or context.now
    done = backup == filling.backup and unfilled(situation, filling) is None
    return RestoreStatus(
        backup, keys=keys, start_time=begun, completion_time=context.now if done else ""
    )


def restoring(situation: Topology, context: Context) -> RestoringStatus | None:
    """Return the progress of a `RedisRestore` that replaces the data of the database.

    Only an observation that begins after clients were cut off shows that replicas have all writes:
    earlier answers of a server prove nothing.
    """
    filling, known = situation.wanted.filling, context.previous.restoring
    if filling is None or not filling.restore:
        opening = context.opening
        return replace(opening, opened=False) if opening and situation.unserved else opening
    halfway = known is not None and known.replacing  # whichever restore left it so
    if known is None or known.uid != filling.uid:
        known = RestoringStatus(filling.restore, filling.uid)
    # Servers that do not respond refused clients before any data was replaced, and start so too.
    shut = context.shut and (filling.empties or not unwatched(situation))
    filled = filling.carried is not None and unfilled(situation, filling) is None
    return RestoringStatus(
        name=filling.restore,
        uid=filling.uid,
        shut=shut,
        closed=shut and known.shut and unsaved(situation) is None,
        replacing=halfway or filling.empties,
        filled=filling.job if filled and shut else "",
        servers=_processes(situation),
    )


def _processes(situation: Topology) -> str:
    """Return a text that changes as soon as any server restarts."""
    found = sorted((n.pod.uid, n.pod.restarts, n.id) for n in situation.seen)
    return sha256(repr(found).encode()).hexdigest()[:16]


def _led_last(old: ShardStatus | None) -> str:
    """Return the last primary of a group that has no primary now."""
    return (old.primary or old.last_primary) if old is not None else ""


def is_going(situation: Topology, node: Node) -> bool:
    """Whether a pod that ends has no place any more and owns nothing: it is not reported.

    It ends as soon as no workload wants it, though it may not have the signal yet.
    """
    pod = node.pod
    owns = isinstance(node, Seen) and situation.claims_data(node)
    workload = situation.workload(pod.shard)
    kept = workload is not None and pod.ordinal < workload.pods and not workload.deleting
    return situation.leaving(pod) and not owns and (pod.deleting or not kept)


def _replicas(situation: Topology, shard: int, primary: Seen | None) -> Iterator[ReplicaStatus]:
    for node in situation.pods_of(shard):
        if primary is not None and node.pod.name == primary.pod.name:
            continue
        if is_going(situation, node):
            continue
        if not isinstance(node, Seen):
            yield ReplicaStatus(pod=node.pod.name, link="unreachable")
            continue
        if primary is None or node.replica_of != primary.id:
            yield ReplicaStatus(pod=node.pod.name, link="none")
            continue
        link = (
            "syncing" if node.replication.syncing else "up" if node.replication.link_up else "down"
        )
        yield ReplicaStatus(pod=node.pod.name, lag_bytes=_lag(situation, node), link=link)


def ready_pods(situation: Topology) -> int:
    """Count servers that are a serving primary or a linked replica."""
    return sum(
        situation.does_its_part(node) for node in situation.seen if not is_going(situation, node)
    )


def ready_shards(situation: Topology) -> int:
    """Count shards that serve their slots and all of whose servers count as ready."""
    wanted = situation.wanted
    parts = dict.fromkeys(range(wanted.shards), 0)
    serving = set()
    for node in situation.seen:
        if node.pod.shard in parts and situation.does_its_part(node):
            parts[node.pod.shard] += 1
            if situation.claims_data(node):
                serving.add(node.pod.shard)
    return sum(parts[shard] >= wanted.pods_per_shard for shard in serving)


def is_waking(situation: Topology, node: Unreachable) -> bool:
    """Whether a pod of a database that wakes up does not respond because it is starting.

    A pod that reports itself why it does not run has another reason, unless it waits for its
    volume.
    """
    age = situation.now - node.pod.since
    waits = node.pod.waiting.startswith("Unschedulable") and age <= _SCHEDULING_SECONDS
    return not node.pod.waiting or waits


def is_replaced(situation: Topology, node: Unreachable) -> bool:
    """Whether a pod does not respond because it ends or was just created, and owns nothing.

    During a change this is part of the change and not a problem, but only for a limited time.
    """
    pod = node.pod
    if situation.is_missed(node) or situation.now - node.since > START_SECONDS:
        return False
    age = situation.now - pod.since
    if pod.waiting:  # its own claim may take a moment; no other reason disappears by itself
        return pod.waiting.startswith("Unschedulable") and age <= _SCHEDULING_SECONDS
    return pod.deleting or age <= START_SECONDS


def pods(situation: Topology, context: Context) -> Iterator[PodStatus]:
    """Yield each pod that stays; none at all if there are too many to list."""
    stay = [node for node in situation.observed.nodes if not is_going(situation, node)]
    if len(stay) > _MOST_PODS:
        return
    before = {pod.name: pod for pod in context.previous.pods}
    for node in stay:
        old = before.get(node.pod.name, PodStatus(node.pod.name))
        yield _pod(situation, node, old)


def _pod(situation: Topology, node: Node, old: PodStatus) -> PodStatus:
    pod = node.pod
    place = PodStatus(
        name=pod.name,
        shard=pod.shard,
        node=pod.node,
        zone=pod.zone,
        address=pod.ip,
        restarts=pod.restarts,
    )
    if not isinstance(node, Seen):
        return replace(place, reason=pod.waiting or f"unreachable: {node.evidence.value}")
    return replace(
        place,
        ready=situation.does_its_part(node),
        role=node.role.value,
        engine=node.engine,
        version=node.version,
        memory=memory(node.used_memory, old.memory),
        keys=_nearly(node.keys, old.keys) if _is_same(old, pod) else _two_digits(node.keys),
        lag_bytes=_lag(situation, node),
    )


def _is_same(old: PodStatus, pod: Pod) -> bool:
    """Whether the status is of the process that runs now: another one may have lost keys."""
    return bool(old.role) and (old.restarts, old.address) == (pod.restarts, pod.ip)


def _lag(situation: Topology, node: Seen) -> int:
    primary = situation.by_id.get(node.replica_of) if node.replica_of is not None else None
    if primary is None:
        return 0
    lag = max(0, primary.replication.offset - node.replication.offset)
    return lag // _MIB * _MIB


def memory(used: int, reported: str) -> str:
    """Return the memory in use, in two digits; the reported value stays while nearly right.

    A difference below a MiB is nearly right: buffers of an almost empty server come and go.
    """
    before = parse_quantity(reported) if reported else None
    if before and abs(used - before) <= max(_MIB - 1, before // 10):
        return reported
    return format_bytes(_two_digits(used)) if used else ""


def _nearly(count: int, reported: int) -> int:
    """Return a count in two digits; the reported value stays while it is nearly right.

    A difference of ten is nearly the same: a few keys that come and go are not worth a write.
    """
    return (
        reported if abs(count - reported) <= max(_FEW_KEYS, reported // 10) else _two_digits(count)
    )


def _two_digits(count: int) -> int:
    scale: int = 10 ** max(0, len(str(count)) - 2)
    return count // scale * scale


def running(seen: Iterable[Seen]) -> tuple[str, str]:
    """Return the engine and the oldest version that runs; empty if no server responds."""
    found = [(numbers(node.version), node.engine) for node in seen if node.version]
    if not found:
        return "", ""
    version, engine = min(found)
    return engine, ".".join(map(str, version))


def numbers(version: str) -> tuple[int, ...]:
    """Return a version as numbers that compare."""
    return tuple(int(part) for part in version.split(".") if part.isdecimal())
