"""Simulated Redis Cluster, in virtual time: what the operator's plans are tried on.

It has what plans can get wrong: books of nodes that differ, addresses that change hands, epochs,
suspicion and elections, replication with offsets, slots with keys, open slots, bans. Its contract
suite also runs on real servers.
"""

from __future__ import annotations

from .state import Record, Server
from .world import TICK, SimulatedCluster

__all__ = ["TICK", "Record", "Server", "SimulatedCluster"]
