"""Databases of any number of shards as they are observed: every server knows every other one."""

from __future__ import annotations

from redis_operator.planning.advice import Wanted
from redis_operator.planning.clusters import ClusterFacts, ClusterView, Counted, Peer
from redis_operator.planning.identity import NodeId, Role
from redis_operator.planning.observed import Observed, Pod, Replication, Seen, Workload
from redis_operator.redis.slots import NO_SLOTS, even_shares

CONFIG = (("cluster-node-timeout", "2000"),)


def database(shards: int, replicas: int = 2) -> tuple[Wanted, Observed]:
    """What is wanted and observed of a database at rest; the first pod of each shard leads."""
    wanted = Wanted(
        name="db", shards=shards, replicas=replicas, node_timeout_ms=2000, config=CONFIG
    )
    shares = even_shares(shards)
    peers = {
        (shard, ordinal): Peer(
            id=_id(shard, ordinal),
            ip=f"10.{shard // 250}.{shard % 250}.{ordinal + 1}",
            role=Role.REPLICA if ordinal else Role.PRIMARY,
            replica_of=_id(shard, 0) if ordinal else None,
            config_epoch=shard + 1,
            slots=NO_SLOTS if ordinal else shares[shard],
        )
        for shard in range(shards)
        for ordinal in range(1 + replicas)
    }
    nodes = tuple(
        _seen(shard, ordinal, me, tuple(p for p in peers.values() if p is not me), shards)
        for (shard, ordinal), me in peers.items()
    )
    workloads = tuple(
        Workload(shard=shard, name=f"db-{shard}", uid=f"w{shard}", pods=1 + replicas, revision="r")
        for shard in range(shards)
    )
    return wanted, Observed(
        nodes=nodes, workloads=workloads, formed=True, cluster=ClusterFacts(counted_at=1.0)
    )


def _id(shard: int, ordinal: int) -> NodeId:
    return NodeId(f"{shard:020d}{ordinal:020d}")


def _seen(shard: int, ordinal: int, me: Peer, peers: tuple[Peer, ...], epoch: int) -> Seen:
    pod = Pod(
        name=f"db-{shard}-{ordinal}",
        uid=f"u{shard}-{ordinal}",
        shard=shard,
        ordinal=ordinal,
        ip=me.ip,
        revision="r",
        role_label=me.role.value,
    )
    return Seen(
        pod=pod,
        id=me.id,
        role=me.role,
        replica_of=me.replica_of,
        replication=Replication(id=f"history-{shard}", offset=100),
        keys=10,
        version="9.1.2",
        config=CONFIG,
        view=ClusterView(
            ip=me.ip,
            slots=me.slots,
            config_epoch=me.config_epoch,
            current_epoch=epoch,
            peers=peers,
            stranded=Counted(),
        ),
    )
