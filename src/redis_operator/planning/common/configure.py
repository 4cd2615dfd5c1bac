"""Settings that can be changed while a server runs."""

from __future__ import annotations

from ...redis.config import equivalent
from ..actions import ConfigSet
from ..advice import Plan, PlanPhase, Wanted
from ..at import at
from ..observed import Observed, Seen, Spelling
from ..sizes import lowered_too_far, must_wait_for_memory
from ..topology import Topology

__all__ = ["absent", "accepted", "configure", "drift", "unpersisted"]


def configure(situation: Topology) -> Plan | None:
    """Set directives that differ: first on one server, preferably a replica, then on the others.

    A value that the engine refuses is found on the first server and goes no further. The rule also
    restores the timeouts of the bootstrap, once replicas are linked; where there are keys, at once.
    A value that a person set by hand is drift and is reverted.
    """
    differing = {node.id: drift(situation, node) for node in situation.by_id.values()}
    reason = lowered_too_far(situation.wanted, situation.observed)
    unsettable = ((reason,) if reason else ()) + absent(situation.wanted, situation.observed)
    for node in situation.by_id.values():
        if reason or must_wait_for_memory(situation.wanted, node):
            differing[node.id] = _without_maxmemory(differing[node.id])
    nodes = [node for node in situation.by_id.values() if differing[node.id]]
    if not nodes:
        return _waiting(situation, unsettable)
    forming = situation.forming
    if forming:
        return Plan(
            rule="configure", blocked=(forming,), phase=PlanPhase.CREATING, again_after=0.05
        )
    first = min(nodes, key=lambda n: (n.is_primary, n.pod.shard, n.pod.ordinal))
    rest = [node for node in nodes if node is not first]
    names = sorted({name for node in nodes for name, _ in differing[node.id]})
    stages = (
        (ConfigSet(node=at(first), values=differing[first.id]),),
        tuple(ConfigSet(node=at(node), values=differing[node.id]) for node in rest),
    )
    return Plan(
        rule="configure",
        why=f"setting {', '.join(names)} to what the spec says on {len(nodes)} servers",
        stages=tuple(stage for stage in stages if stage),
        blocked=unsettable,
        phase=PlanPhase.UPDATING if any(node.keys for node in nodes) else PlanPhase.CREATING,
    )


def _waiting(situation: Topology, unsettable: tuple[str, ...]) -> Plan | None:
    """Nothing is to be set; say what else is missing before the spec is reconciled."""
    kind = situation.wanted.persistence
    reason = unpersisted(situation.wanted, situation.observed)
    blocked = (*unsettable, f"persistence changes to {kind}: {reason}") if reason else unsettable
    if not blocked:
        return None
    again = 1.0 if reason else None
    return Plan(rule="configure", blocked=blocked, phase=PlanPhase.UPDATING, again_after=again)


def unpersisted(wanted: Wanted, observed: Observed) -> str | None:
    """Why servers may not be started with the kind of persistence that the spec asks for, or None.

    Each must have complete files of that kind first: a server that finds none starts empty. CL-33
    """
    if not wanted.persistence:
        return None
    for node in observed.nodes:
        if not isinstance(node, Seen):
            return f"{node.pod.name} does not respond"
        for name in ("appendonly", "save"):
            value, found = dict(wanted.config).get(name, ""), node.setting(name)
            if found is None or not has_value(observed, name, value, found):
                return f"{node.pod.name} does not have {name} yet"
        if node.setting("appendonly") == "yes" and not node.aof_written:
            return f"{node.pod.name} is writing its first append-only file"
    for workload in observed.workloads:
        present = sum(node.pod.shard == workload.shard for node in observed.nodes)
        if present < workload.pods or not workload.pods:
            return f"{workload.name} has {present} pods"
    return None


def absent(wanted: Wanted, observed: Observed) -> tuple[str, ...]:
    """Directives that a person wrote and that a server does not have: never ignored. IN-27"""
    reasons: dict[str, str] = {}
    for node in observed.seen:
        known = {name for name, _ in node.config}
        for name, _ in wanted.config:
            if known and name in wanted.chosen and name not in known:
                text = (
                    f"{node.pod.name} ({node.engine} {node.version}) has no directive {name}; "
                    f"remove spec.config.{name}"
                )
                reasons.setdefault(name, text)
    return tuple(reasons.values())


def drift(situation: Topology, node: Seen) -> tuple[tuple[str, str], ...]:
    """Directives whose value on a server is not the wanted one, without those not asked for."""
    return tuple(
        (name, value)
        for name, value in situation.wanted.config
        if (found := node.setting(name)) is not None
        and not has_value(situation.observed, name, value, found)
    )


def has_value(observed: Observed, name: str, value: str, found: str) -> bool:
    """Whether a server's answer is the wanted value, by a table or by a spelling of servers."""
    return equivalent(name, value, found) or Spelling(name, value, found) in observed.spellings


def accepted(wanted: Wanted, observed: Observed) -> dict[str, str]:
    """Wanted directives that a server has at the wanted value: the engine accepts these."""
    return {
        name: value
        for name, value in wanted.config
        if any(
            (found := node.setting(name)) is not None and has_value(observed, name, value, found)
            for node in observed.seen
        )
    }


def _without_maxmemory(values: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    return tuple(pair for pair in values if pair[0] != "maxmemory")
