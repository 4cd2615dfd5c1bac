"""A simulated Redis Cluster in virtual time, on which the operator's plans are tested.

It simulates what plans can get wrong: views of nodes that differ, addresses that are reused,
epochs, suspicion and elections, replication with offsets, slots with keys, open slots, bans. Its
contract suite also runs on real servers. `trial` breaks a database and lets the operator repair it.

May import: `redis_operator`, `kubecontroller`, `kubelocal`, `sentinels`; of `simulation` processes,
    clients and the network.
Called by: `simulation`, `sentinels`, and tests of planning.
Begin with: `world` and `state`, then `database`.
"""

from __future__ import annotations

from .state import Record, Server
from .world import TICK, SimulatedCluster

__all__ = ["TICK", "Record", "Server", "SimulatedCluster"]
