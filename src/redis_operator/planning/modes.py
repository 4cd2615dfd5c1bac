"""The modes of a database as data: which rules and guards each has, and how it answers them.

Cluster, Failover and Standalone differ in their rows here, and in those of `manifests.layouts` and
`operator.servers.dialects`: no other code compares modes, except `operator.mode_change`. The order
of a mode's rules is its policy. All modes have the same conditions: a mode only words Available.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from ..api.redis import Mode
from .advice import Wanted
from .cluster import guards as cluster_guards
from .cluster import rules as cluster_rules
from .cluster.topology import ClusterTopology
from .failover import guards as failover_guards
from .failover import rules as failover_rules
from .failover.topology import FailoverTopology
from .guards import Guards
from .observed import Observed
from .row import Companion, Row
from .standalone import guards as standalone_guards
from .standalone import rules as standalone_rules
from .standalone.topology import StandaloneTopology
from .topology import Topology

__all__ = ["MODES", "ModePlan", "is_sharded", "situation"]


class ModePlan(Struct, frozen=True):
    """How databases of one mode are planned."""

    rules: tuple[Row, ...]
    companions: tuple[Companion, ...]
    guards: Guards
    situation: Callable[[Wanted, Observed, float], Topology]
    served: tuple[str, str]  # reason and message of Available while everything is served
    is_sharded: bool = False  # keys are spread over shards by their slots, and slots can move
    lists_replicas: bool = False  # sentinels list whatever replicates from a primary, permanently


MODES: Final[Mapping[Mode, ModePlan]] = {
    Mode.CLUSTER: ModePlan(
        rules=cluster_rules.RULES,
        companions=cluster_rules.COMPANIONS,
        guards=cluster_guards.GUARDS,
        situation=ClusterTopology,
        served=("AllSlotsServed", "every slot is served"),
        is_sharded=True,
    ),
    Mode.FAILOVER: ModePlan(
        rules=failover_rules.RULES,
        companions=failover_rules.COMPANIONS,
        guards=failover_guards.GUARDS,
        situation=FailoverTopology,
        served=("Serving", "the primary accepts writes"),
        lists_replicas=True,
    ),
    Mode.STANDALONE: ModePlan(
        rules=standalone_rules.RULES,
        companions=standalone_rules.COMPANIONS,
        guards=standalone_guards.GUARDS,
        situation=StandaloneTopology,
        served=("Serving", "the server accepts commands"),
    ),
}


def situation(wanted: Wanted, observed: Observed, now: float) -> Topology:
    """Combine the wanted and the observed state into the topology of the database's mode."""
    return MODES[wanted.mode].situation(wanted, observed, now)


def is_sharded(mode: str) -> bool:
    """Whether the mode of this name, as objects have it, is sharded; not if there is none."""
    return any(found.is_sharded for name, found in MODES.items() if name.value == mode)
