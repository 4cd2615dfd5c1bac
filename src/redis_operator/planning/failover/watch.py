"""What sentinels monitor: the primary, under its name, with the wanted settings."""

from __future__ import annotations

from ..advice import Plan, PlanPhase
from ..observed import SentinelSeen
from ..sentinels import Monitored
from .topology import FailoverTopology, address

__all__ = ["watch"]

_NOTHING = "monitors no primary"  # it has just started
_OTHER_SETTINGS = "has other settings"  # those of the spec before its last change, most often
_USUAL = frozenset({_NOTHING, _OTHER_SETTINGS})  # after a change of the spec
_SETTINGS = {
    "down-after-milliseconds": "down_after_ms",
    "failover-timeout": "failover_timeout_ms",
    "parallel-syncs": "parallel_syncs",
}


def watch(topology: FailoverTopology) -> Plan | None:
    """Have every sentinel monitor the primary. SE-05, SE-06, SE-07, SE-15

    A sentinel that has restarted monitors nothing. One that names another address is corrected,
    unless one of them fails over: then the operator waits for their own announcement.
    """
    primary = topology.primary
    if primary is None:
        return None
    wrong = {
        node.pod.name: reason for node in topology.watchers if (reason := _wrong(topology, node))
    }
    if not wrong:
        return None
    formed = topology.observed.formed
    phase = PlanPhase.HEALING if formed else PlanPhase.CREATING
    if formed and _OTHER_SETTINGS in wrong.values() and {*wrong.values()} <= _USUAL:
        phase = PlanPhase.UPDATING
    if topology.election:
        return Plan(rule="watch", blocked=(topology.election,), phase=phase, again_after=0.2)
    steps = tuple(
        topology.watch_step(node, primary) for node in topology.watchers if node.pod.name in wrong
    )
    reasons = "; ".join(f"{name} {reason}" for name, reason in wrong.items())
    return Plan(
        rule="watch",
        why=reasons,
        stages=(steps,),
        phase=phase,
        routine={*wrong.values()} <= _USUAL,
    )


def _wrong(topology: FailoverTopology, node: SentinelSeen) -> str:
    """Describe what a sentinel has wrong, or an empty string."""
    primary, found = topology.primary, topology.monitored(node)
    assert primary is not None
    if found is None:
        return _NOTHING
    if f"{found.ip}:{found.port}" != address(primary):
        return f"names {found.ip}:{found.port} as the primary"
    if _settings_of(found, topology) or found.quorum != topology.wanted.quorum:
        return _OTHER_SETTINGS
    return ""


def _settings_of(found: Monitored, topology: FailoverTopology) -> list[str]:
    """The settings that differ."""
    return [
        name
        for name, value in topology.wanted.sentinel_settings
        if str(getattr(found, _SETTINGS[name])) != value
    ]
