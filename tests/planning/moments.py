"""A whole database as it was seen, and small changes of what was seen: for tables of situations."""

from __future__ import annotations

from functools import cache
from typing import Any

from msgspec.structs import replace

from redis_operator.planning.advice import Wanted
from redis_operator.planning.cluster.topology import ClusterTopology
from redis_operator.planning.clusters import Counted, Peer
from redis_operator.planning.identity import NodeId, Role
from redis_operator.planning.observed import Evidence, Observed, Pod, Seen, Unreachable
from redis_operator.redis.slots import NO_SLOTS
from support.situations import WANTED, whole_database
from support.situations import but as changed

NOW = 1_000_000.0
STRANGER = NodeId("f" * 40)


@cache
def whole(replicas: int = 1) -> Observed:
    """Three shards that are well, all keys counted; the first pod of each shard leads."""
    observed = whole_database(replace(WANTED, replicas=replicas)).observe()
    nodes = [changed(node, stranded=Counted()) for node in observed.seen]
    return replace(observed, nodes=tuple(nodes))


def situation(observed: Observed, **wanted: Any) -> ClusterTopology:
    """What follows from it for a database of three shards."""
    return ClusterTopology(replace(WANTED, **wanted), observed, NOW)


def wanted(**fields: Any) -> Wanted:
    """The database that is wanted, but for these fields."""
    return replace(WANTED, **fields)


def server(observed: Observed, pod: str) -> Seen:
    """The server of a pod, by the end of its name: `0-1`."""
    return next(node for node in observed.seen if node.pod.name == f"db-{pod}")


def but(observed: Observed, pod: str, **fields: Any) -> Observed:
    """The same, but for fields of one server; those of its pod begin with `pod_`."""
    own = {name: value for name, value in fields.items() if not name.startswith("pod_")}
    of_pod = {name.removeprefix("pod_"): v for name, v in fields.items() if name not in own}

    def change(node: Seen | Unreachable) -> Seen | Unreachable:
        if node.pod.name != f"db-{pod}":
            return node
        pod_changed = replace(node.pod, **of_pod)
        if isinstance(node, Seen):
            return changed(node, pod=pod_changed, **own)
        return replace(node, pod=pod_changed, **own)

    return replace(observed, nodes=tuple(change(node) for node in observed.nodes))


def knowing(observed: Observed, **facts: Any) -> Observed:
    """Return a moment with other facts of the cluster, beside what servers say."""
    return replace(observed, cluster=replace(observed.cluster, **facts))


def replicating(observed: Observed, pod: str, **fields: Any) -> Observed:
    """The same, but for what one server says of its replication."""
    return but(observed, pod, replication=replace(server(observed, pod).replication, **fields))


def without(observed: Observed, *pods: str) -> Observed:
    """The same without these pods."""
    names = {f"db-{pod}" for pod in pods}
    return replace(observed, nodes=tuple(n for n in observed.nodes if n.pod.name not in names))


def silent(
    observed: Observed, pod: str, evidence: Evidence = Evidence.SILENT, *, known: bool = True
) -> Observed:
    """The same, but one server does not answer; where it is not `known`, it may be anybody."""
    node = server(observed, pod)
    pod = node.pod if known else replace(node.pod, ip="10.8.8.8")
    away = Unreachable(pod, "no answer", NOW, evidence, node.id if known else None)
    nodes = tuple(away if n.pod.name == node.pod.name else n for n in observed.nodes)
    return replace(observed, nodes=nodes)


def dead(observed: Observed, pod: str, *, known: bool = True) -> Observed:
    """The same, but the process of one server is gone."""
    return silent(observed, pod, Evidence.REFUSED, known=known)


def viewed(observed: Observed, node: NodeId, *by: str, **fields: Any) -> Observed:
    """The same, but for what servers (all, or those of the pods `by`) say of a node."""
    names = {f"db-{pod}" for pod in by}

    def change(one: Seen | Unreachable) -> Seen | Unreachable:
        if not isinstance(one, Seen) or (names and one.pod.name not in names):
            return one
        peers = tuple(replace(p, **fields) if p.id == node else p for p in one.peers)
        return changed(one, peers=peers)

    return replace(observed, nodes=tuple(change(one) for one in observed.nodes))


def met(observed: Observed, **fields: Any) -> Observed:
    """The same, but all servers know a node that no pod of ours is."""
    peer = replace(Peer(id=STRANGER, ip="10.9.9.9", role=Role.PRIMARY), **fields)

    def change(one: Seen | Unreachable) -> Seen | Unreachable:
        return changed(one, peers=(*one.peers, peer)) if isinstance(one, Seen) else one

    return replace(observed, nodes=tuple(change(one) for one in observed.nodes))


def emptied(observed: Observed, pod: str) -> Observed:
    """The same, but one server is a primary that has neither slots nor keys."""
    return but(observed, pod, role=Role.PRIMARY, replica_of=None, slots=NO_SLOTS, keys=0)


def pod_of(observed: Observed, pod: str) -> Pod:
    """A pod, whether its server answers or not."""
    return next(node.pod for node in observed.nodes if node.pod.name == f"db-{pod}")
