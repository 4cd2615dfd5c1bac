"""The status of a `RedisOperator`. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from kubecontroller.client.workloads import Deployment
from redis_operator.api.metadata import Condition
from redis_operator.api.redisoperator import (
    ComponentStatus,
    InstallationPhase,
    RedisOperatorStatus,
)
from redis_operator.install.inventory import Inventory, Phase
from redis_operator.install.strategy import Strategy
from redis_operator.install.waiting import rollout_limitation

__all__ = ["Standing", "component", "installation_status"]


class Standing(Struct, frozen=True):
    """Where an installation stands: what is under way, and what keeps it."""

    waits_for: str = ""  # it goes on by itself
    refusal: str = ""  # a person has to do something; one word
    message: str = ""  # which says what
    ends: bool = False  # it is being removed


def component(found: Deployment | None, name: str) -> ComponentStatus:
    """Return how one Deployment is doing."""
    if found is None:
        return ComponentStatus(name=name, ready="0/0", message="there is no such Deployment")
    containers = found.spec.template.spec.containers or ()
    return ComponentStatus(
        name=name,
        image=containers[0].image if containers else "",
        ready=f"{found.status.available_replicas}/{found.spec.replicas or 0}",
        message=rollout_limitation(found) or "",
    )


def installation_status(
    previous: RedisOperatorStatus,
    standing: Standing,
    *,
    generation: int,
    target: Strategy | None,
    installed: Inventory | None,
    components: Sequence[ComponentStatus],
    now: str,
) -> RedisOperatorStatus:
    """Return the whole status."""
    whole = installed if installed is not None and installed.phase is Phase.INSTALLED else None
    is_current = whole is not None and target is not None and whole.digest == target.digest
    version, digest = previous.observed_version, previous.observed_configuration
    if whole is not None:
        version, digest = whole.version, whole.digest
    serves = any(one.ready and not one.ready.startswith("0/") for one in components)
    if standing.ends:
        phase, message = InstallationPhase.DELETING, standing.message or standing.waits_for
    elif standing.refusal:
        phase, message = InstallationPhase.FAILED, standing.message
    elif standing.waits_for or not is_current:
        phase = InstallationPhase.UPDATING if version else InstallationPhase.DEPLOYING
        message = standing.waits_for or "objects are being applied"
    else:
        phase, message = InstallationPhase.DEPLOYED, f"version {version} is installed"
    goes_on = phase not in (InstallationPhase.FAILED, InstallationPhase.DEPLOYED)
    runs = "OperatorRuns" if serves else "OperatorDoesNotRun"
    changes = message if goes_on else "nothing is changed"
    wrong = standing.message if standing.refusal else "nothing is wrong"
    conditions = (
        _condition("Available", runs, _said(components), holds=serves),
        _condition("Progressing", phase.value, changes, holds=goes_on),
        _condition(
            "Degraded", standing.refusal or "AsExpected", wrong, holds=bool(standing.refusal)
        ),
    )
    return RedisOperatorStatus(
        observed_generation=generation,
        phase=phase,
        message=message,
        target_version=target.version if target is not None else previous.target_version,
        observed_version=version,
        target_configuration=(
            target.digest if target is not None else previous.target_configuration
        ),
        observed_configuration=digest,
        conditions=tuple(_dated(c, previous, generation, now) for c in conditions),
        components=tuple(components),
    )


def _said(components: Sequence[ComponentStatus]) -> str:
    return "; ".join(f"{one.name}: {one.ready} pods are ready" for one in components)


def _condition(kind: str, reason: str, message: str, *, holds: bool) -> Condition:
    return Condition(kind, "True" if holds else "False", reason, message)


def _dated(
    condition: Condition, previous: RedisOperatorStatus, generation: int, now: str
) -> Condition:
    was = next((c for c in previous.conditions if c.type == condition.type), None)
    same = was is not None and was.status == condition.status and was.last_transition_time
    since = was.last_transition_time if was is not None and same else now
    return Condition(
        condition.type, condition.status, condition.reason, condition.message, since, generation
    )
