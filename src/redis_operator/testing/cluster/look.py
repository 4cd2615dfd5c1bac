"""Look at a simulated database as the operator would: an `Observed`, straight from the servers."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from msgspec.structs import replace

from ...planning.observed import (
    Counted,
    Election,
    Evidence,
    Node,
    NodeId,
    NotCounted,
    NotWeighed,
    Observed,
    OpenSlot,
    Peer,
    PeerFlag,
    Pod,
    Replication,
    Role,
    Seen,
    SlotState,
    Unreachable,
    Volume,
    Weighed,
    Workload,
)
from ...redis.slots import SlotSet
from .state import Record, Server
from .world import SimulatedCluster

__all__ = ["look", "see"]


def look(
    world: SimulatedCluster,
    pods: Iterable[tuple[Pod, Server | None]],
    *,
    workloads: Iterable[Workload] = (),
    volumes: Iterable[Volume] = (),
    elections: Iterable[Election] = (),
    last_ids: Mapping[str, NodeId] | None = None,
    count_on: Container[str] = (),
    counted_at: float | None = None,
    formed: bool = False,
) -> Observed:
    """One round of questions: who answers is `Seen`, who refuses is dead, who is silent unknown."""
    known = last_ids or {}
    nodes = [_look_at(world, pod, server, known.get(pod.uid)) for pod, server in pods]
    nodes = [_counted(node, count_on) for node in nodes]
    return Observed(
        nodes=tuple(sorted(nodes, key=lambda node: (node.pod.shard, node.pod.ordinal))),
        workloads=tuple(workloads),
        volumes=tuple(volumes),
        elections=tuple(elections),
        counted_at=counted_at,
        formed=formed,
    )


def _counted(node: Node, count_on: Container[str]) -> Node:
    """Stray keys are known only where they were asked for, as counting costs."""
    if isinstance(node, Seen) and node.is_primary and node.keys and node.pod.name not in count_on:
        return replace(node, stranded=NotCounted(), weighed=NotWeighed())
    return node


def _look_at(
    world: SimulatedCluster, pod: Pod, server: Server | None, last_id: NodeId | None
) -> Node:
    if server is None:
        return Unreachable(
            pod=pod,
            error="no process yet",
            since=world.now,
            evidence=Evidence.NOT_STARTED,
            last_id=last_id,
        )
    if not server.alive:
        return Unreachable(
            pod=pod,
            error="connection refused",
            since=world.now,
            evidence=Evidence.REFUSED,
            last_id=last_id,
        )
    if not server.answers(world.now):
        return Unreachable(pod=pod, error="no answer in time", since=world.now, last_id=last_id)
    return see(world, pod, server)


def see(world: SimulatedCluster, pod: Pod, server: Server) -> Seen:
    """A server in its own words."""
    me = server.me
    return Seen(
        pod=pod,
        id=NodeId(server.id),
        role=Role.PRIMARY if server.is_primary else Role.REPLICA,
        ip=me.ip,
        replica_of=NodeId(me.replica_of) if me.replica_of is not None else None,
        slots=SlotSet.from_bits(me.slots),
        config_epoch=me.epoch,
        current_epoch=server.current_epoch,
        state_ok=world.state_ok(server),
        peers=tuple(_peer(record) for record in server.others()),
        open_slots=_open_slots(server),
        replication=Replication(
            id=server.replication_id,
            id2=server.replication_id2,
            offset=server.offset,
            link_up=server.is_primary or server.link_up,
            syncing=server.sync_done_at is not None,
            down_seconds=0.0 if server.link_up else world.now - server.link_down_since,
        ),
        keys=server.key_count,
        stranded=_stranded(server),
        weighed=_weighed(server),
        engine=server.engine,
        version=server.version,
        config=tuple(sorted(server.config.items())),
        used_memory=server.used_memory,
        max_memory=int(server.config["maxmemory"]),
        started_at=server.started_at,
    )


def _stranded(server: Server) -> Counted:
    if not server.is_primary:
        return Counted()
    return Counted(
        by_slot=tuple(
            (slot, len(keys))
            for slot, keys in sorted(server.keys.items())
            if keys and not server.me.slots >> slot & 1
        )
    )


def _weighed(server: Server) -> Weighed:
    if not server.is_primary:
        return Weighed()
    owned = ((s, len(keys)) for s, keys in sorted(server.keys.items()) if server.me.slots >> s & 1)
    return Weighed(by_slot=tuple(pair for pair in owned if pair[1]))


def _open_slots(server: Server) -> tuple[OpenSlot, ...]:
    found = [OpenSlot(slot, SlotState.IMPORTING, NodeId(p)) for slot, p in server.importing.items()]
    found += [
        OpenSlot(slot, SlotState.MIGRATING, NodeId(p)) for slot, p in server.migrating.items()
    ]
    return tuple(sorted(found, key=lambda o: (o.slot, o.state.value)))


def _peer(record: Record) -> Peer:
    flags = {
        PeerFlag.PFAIL: record.pfail and not record.fail,
        PeerFlag.FAIL: record.fail,
        PeerFlag.NOADDR: record.noaddr,
    }
    return Peer(
        id=NodeId(record.id),
        ip="" if record.noaddr else record.ip,
        role=Role.PRIMARY if record.is_primary else Role.REPLICA,
        replica_of=NodeId(record.replica_of) if record.replica_of is not None else None,
        config_epoch=record.epoch,
        slots=SlotSet.from_bits(record.slots),
        connected=record.connected,
        flags=frozenset(flag for flag, set_ in flags.items() if set_),
    )
