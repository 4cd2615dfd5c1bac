"""The status of a `RedisOperator`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from kubecontroller import Manifest
from kubecontroller.client.objects import Deployment
from kubecontroller.custom import dated
from redis_operator.api.metadata import Condition
from redis_operator.api.redisoperator import (
    ComponentStatus,
    InstallationPhase,
    RedisOperatorStatus,
)
from redis_operator.install.inventory import InstallPhase, Inventory
from redis_operator.install.objects import VERSION_LABEL, Component
from redis_operator.install.strategy import Listed, Strategy
from redis_operator.install.waiting import rollout_limitation

__all__ = [
    "Standing",
    "SurveyedObject",
    "component_statuses",
    "installation_status",
    "under_way_for",
]

_LONGEST: Final = timedelta(minutes=10)
_LONGEST_TEXT: Final = 4096
_UNDER_WAY: Final = (
    InstallationPhase.DEPLOYING,
    InstallationPhase.UPDATING,
    InstallationPhase.DELETING,
)


class Standing(Struct, frozen=True):
    """The state of an installation: what is in progress, and what blocks it."""

    waits_for: str = ""  # it continues by itself
    refusal: str = ""  # a person has to do something; one word
    message: str = ""  # with the reason
    ends: bool = False  # it is being removed
    remark: str = ""  # what else is to be known when all is done


class SurveyedObject(Struct, frozen=True):
    """One object of a strategy, and what there is of it."""

    listed: Listed
    live: Manifest | None
    unserved: bool = False  # the cluster does not have its kind


def component_statuses(
    surveys: Sequence[SurveyedObject],
    deployment: Deployment | None,
    target: Strategy | None,
    previous: Sequence[ComponentStatus] = (),
) -> list[ComponentStatus]:
    """Return the status of each component, also of those that are switched off.

    While the desired objects are not known, all but the controller are reported as before.
    """
    if target is None:
        last = next((one for one in previous if one.name == Component.CONTROLLER), None)
        wanted = last.target_version if last is not None else ""
        others = [one for one in previous if one.name != Component.CONTROLLER]
        return [controller_status(deployment, wanted), *others]
    version = target.version
    names = list(
        dict.fromkeys((*Component, *(s.listed.component for s in surveys if s.listed.component)))
    )
    found = [controller_status(deployment, version)]
    for name in names[1:]:
        own = [survey for survey in surveys if survey.listed.component == name]
        if not own:
            text = f"switched off by spec.components.{name}.enabled"
            found.append(ComponentStatus(name=str(name), enabled=False, message=text))
            continue
        found.append(_objects_status(str(name), own, version))
    return found


def _objects_status(name: str, own: Sequence[SurveyedObject], version: str) -> ComponentStatus:
    served = [survey for survey in own if not survey.unserved]
    there = [survey.live for survey in served if survey.live is not None]
    missing = [str(survey.listed.item) for survey in served if survey.live is None]
    unserved = sorted({survey.listed.item.kind for survey in own if survey.unserved})
    problems = [f"not there yet: {', '.join(missing)}"] if missing else []
    problems += [f"this cluster does not serve {', '.join(unserved)}"] if unserved else []
    return ComponentStatus(
        name=name,
        target_version=version,
        observed_version=_oldest(map(_version, there)),
        ready=f"{len(there)}/{len(served)}",
        message="; ".join(problems),
    )


def _version(live: Manifest) -> str:
    return str((live["metadata"].get("labels") or {}).get(VERSION_LABEL, ""))


def _oldest(versions: Iterable[str]) -> str:
    """Return the version that all have, or the oldest."""
    return min(versions, key=_ordered, default="")


def _ordered(version: str) -> list[tuple[int, str]]:
    parts = version.replace("-", ".").replace("+", ".").split(".")
    return [(int(part) if part.isdigit() else -1, part) for part in parts]


def controller_status(found: Deployment | None, version: str) -> ComponentStatus:
    """Return the status of the operator's own pods."""
    name = Component.CONTROLLER.value
    if found is None:
        return ComponentStatus(
            name=name,
            target_version=version,
            ready="0/0",
            message="there is no such Deployment",
        )
    containers = found.spec.template.spec.containers or ()
    return ComponentStatus(
        name=name,
        target_version=version,
        observed_version=found.metadata.label(VERSION_LABEL),
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
    whole = (
        installed if installed is not None and installed.phase is InstallPhase.INSTALLED else None
    )
    is_current = whole is not None and target is not None and whole.digest == target.digest
    version, digest = previous.observed_version, previous.observed_configuration
    if whole is not None:
        version, digest = whole.version, whole.digest
    name = Component.CONTROLLER.value
    controller = next((c for c in components if c.name == name), ComponentStatus(name=name))
    serves = bool(controller.ready) and not controller.ready.startswith("0/")
    if standing.ends:
        phase, message = InstallationPhase.DELETING, standing.message or standing.waits_for
    elif standing.refusal:
        phase, message = InstallationPhase.FAILED, standing.message
    elif standing.waits_for or not is_current:
        phase = InstallationPhase.UPDATING if version else InstallationPhase.DEPLOYING
        message = standing.waits_for or "objects are being applied"
    else:
        remark = f"; {standing.remark}" if standing.remark else ""
        phase = InstallationPhase.DEPLOYED
        message = f"version {version} is installed{remark}"[:_LONGEST_TEXT]
    goes_on = phase in _UNDER_WAY
    runs = "OperatorRuns" if serves else "OperatorDoesNotRun"
    changes = message if goes_on else "nothing is changed"
    refusal, wrong = standing.refusal, standing.message
    if not refusal and goes_on and under_way_for(previous, now) >= _LONGEST:
        refusal, wrong = "NotProgressing", f"for more than ten minutes: {message}"
    conditions = (
        _condition("Available", runs, f"{controller.ready or 'no'} pods are ready", holds=serves),
        _condition("Progressing", phase.value, changes, holds=goes_on),
        _condition(
            "Degraded",
            refusal or "AsExpected",
            wrong if refusal else "nothing is wrong",
            holds=bool(refusal),
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


def under_way_for(status: RedisOperatorStatus, now: str) -> timedelta:
    """Return for how long a change has been in progress; nothing when there is none."""
    since = [c.last_transition_time for c in status.conditions if c.type == "Progressing"]
    begun = since[0] if since and status.phase in _UNDER_WAY else now
    try:
        return datetime.fromisoformat(now) - datetime.fromisoformat(begun)
    except ValueError:
        return timedelta(0)


def _condition(kind: str, reason: str, message: str, *, holds: bool) -> Condition:
    return Condition(kind, "True" if holds else "False", reason, message)


def _dated(
    condition: Condition, previous: RedisOperatorStatus, generation: int, now: str
) -> Condition:
    was = next((c for c in previous.conditions if c.type == condition.type), None)
    return dated(replace(condition, observed_generation=generation), was, now)
