"""The conditions of a database, each judged by itself, then *Ready* from all others. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from kubecontroller.custom import dated

from ...api.metadata import Condition
from .. import advice
from ..actions import ConfigSet
from ..advice import Plan, Wanted
from ..common.configure import configure
from ..common.fill import unfilled
from ..common.roll import outdated
from ..copies import Copy
from ..observed import Observed, Unreachable
from ..repeats import last_error
from ..topology import Topology
from .context import Context
from .degradations import Degradation, degradations
from .inventory import is_going, is_replaced, is_waking, numbers
from .losses import explain

__all__ = ["bounded", "conditions", "since"]

_LONGEST = 2000  # characters of one message
_ASLEEP = "no pod runs; data, Secrets and Services are kept"
_WAKING_EXPLAINS = ("ReplicaOutOfSync",)  # primaries load their files first
_CHANGING = (
    advice.PlanPhase.CREATING,
    advice.PlanPhase.FOLLOWING,
    advice.PlanPhase.SCALING,
    advice.PlanPhase.UPDATING,
)


def conditions(
    situation: Topology, plan: Plan, context: Context, served: tuple[str, str], loss: str = ""
) -> tuple[Condition, ...]:
    """Return every condition, in a fixed order, each with the time of its last change.

    A loss is one that was recorded and lasts, though this plan does not show it.
    """
    wanted, observed = situation.wanted, situation.observed
    available = _available(situation, plan, served)
    degraded = _degraded(situation, plan, context, loss)
    progressing = _progressing(plan, context, formed=observed.formed)
    ready = _ready(available, degraded, progressing, plan)
    if ready.status == "True":
        ready = _with_companions(situation, ready)
    found = [
        ready,
        available,
        progressing,
        degraded,
        _config_applied(situation, plan, context),
        _auth_applied(context),
        _paused(wanted),
        _hibernated(wanted, observed),
        _version_supported(wanted, observed),
    ]
    if wanted.volume_size:
        found.append(_storage_resized(wanted, observed))
    if situation.copy is not None:
        found.append(_following(situation.copy))
    if context.backed_up is not None:
        found.append(context.backed_up)
    if context.protected:
        found.append(_deletion_held(context))
    was = {c.type: c for c in context.previous.conditions}
    return tuple(since(c, was.get(c.type), context) for c in found)


def _available(situation: Topology, plan: Plan, served: tuple[str, str]) -> Condition:
    formed, unserved = situation.observed.formed, situation.unserved
    filling = situation.wanted.filling
    if not unserved and filling is not None and not filling.served:
        text = unfilled(situation, filling) or "the last key has arrived"
        was = (
            "clients cannot connect" if situation.observed.formed else "clients cannot connect yet"
        )
        text = f"{was}: {text}"
        return Condition(type="Available", status="False", reason="Restoring", message=text)
    if not unserved:
        reason, text = served
        text += _advice(situation.wanted)
        return Condition(type="Available", status="True", reason=reason, message=text)
    if plan.phase is advice.PlanPhase.HIBERNATED and not plan.losses:
        text = "spec.hibernate is set: the database does not serve until it is set to false"
        return Condition(type="Available", status="False", reason="Hibernated", message=text)
    if plan.phase is advice.PlanPhase.WAKING:
        text = f"the database is waking: {unserved}"
        return Condition(type="Available", status="False", reason="Waking", message=text)
    if situation.copy is not None and not plan.losses:
        text = f"no writes are accepted: {unserved}"
        return Condition(type="Available", status="False", reason="ReadOnly", message=text)
    reason = "DataLost" if plan.losses else "NotServing" if formed else "NotFormed"
    text = unserved if formed else "the database is not formed yet"
    return Condition(type="Available", status="False", reason=reason, message=text)


def _following(copy: Copy) -> Condition:
    """Report the state of the link to an external server."""
    return Condition(
        type="Following",
        status="True" if copy.in_sync else "False",
        reason=copy.reason,
        message=f"{copy.message} (link {copy.link})",
    )


def _advice(wanted: Wanted) -> str:
    """Suggest an improvement, though nothing is wrong; or return an empty string."""
    if not wanted.sentinels or wanted.sentinels % 2:
        return ""
    return (
        f". {wanted.sentinels} sentinels survive the loss of no more than {wanted.sentinels - 1} "
        "would, and an equal split of the network leaves no majority: use an odd number "
        "(spec.sentinel.replicas)"
    )


def _degraded(situation: Topology, plan: Plan, context: Context, loss: str) -> Condition:
    if plan.losses or loss:
        text = explain(situation.wanted, plan) if plan.losses else loss
        return Condition(type="Degraded", status="True", reason="DataLost", message=text)
    formed = situation.observed.formed
    # A change reports what it waits for as progress: nothing is wrong by itself.
    sleeps = plan.phase in (advice.PlanPhase.HIBERNATED, advice.PlanPhase.WAKING)
    changing = sleeps or plan.phase in _CHANGING
    silent = [
        f"{node.pod.name} does not respond: {node.pod.waiting or node.error}"
        for node in (*situation.unreachable, *(_silent_sentinels(situation) if changing else ()))
        if not _is_expected(situation, plan, node)
    ]
    waits = () if changing else plan.blocked
    reasons = [*waits, *context.failures, *(silent if formed else ())]
    found = degradations(situation, _reported_reason(context))
    if plan.phase is advice.PlanPhase.WAKING:
        found = tuple(one for one in found if one.reason not in _WAKING_EXPLAINS)
    if context.hindrance is not None:
        found = (context.hindrance, *found)
    if plan.stalled:
        found = (*found, Degradation("NoEffect", plan.stalled))
    if found:
        text = "; ".join(dict.fromkeys([*(degradation.message for degradation in found), *reasons]))
        return Condition(type="Degraded", status="True", reason=found[0].reason, message=text)
    if reasons and formed:
        kind = "Unreachable" if silent else "Blocked" if waits else "StepFailed"
        text = "; ".join(dict.fromkeys(reasons))
        return Condition(type="Degraded", status="True", reason=kind, message=text)
    if formed and plan.phase is advice.PlanPhase.HEALING:
        text = plan.why or plan.held or "a repair is in progress"
        return Condition(type="Degraded", status="True", reason="Healing", message=text)
    if formed and situation.unserved and not sleeps:
        text = situation.unserved
        return Condition(type="Degraded", status="True", reason="NotServing", message=text)
    return Condition(type="Degraded", status="False", reason="Healthy", message="nothing is wrong")


def _silent_sentinels(situation: Topology) -> list[Unreachable]:
    """Sentinels that a change may wait for, also for their end; else the plan reports them."""
    observed, wanted = situation.observed, situation.wanted.sentinels
    found = (node for node in observed.sentinels if isinstance(node, Unreachable))
    return [node for node in found if node.pod.ordinal < wanted or node.pod.deleting]


def _is_expected(situation: Topology, plan: Plan, node: Unreachable) -> bool:
    """Whether a pod does not respond because of the change that is in progress."""
    if plan.phase is advice.PlanPhase.WAKING:
        return is_waking(situation, node)
    if plan.phase is advice.PlanPhase.HIBERNATED:
        return True
    if is_going(situation, node) and is_replaced(situation, node):
        return True  # also after the last step of the change
    return plan.phase in _CHANGING and is_replaced(situation, node)


def _reported_reason(context: Context) -> str:
    return next((c.reason for c in context.previous.conditions if c.type == "Degraded"), "")


def _progressing(plan: Plan, context: Context, *, formed: bool) -> Condition:
    if plan.held:
        return Condition(type="Progressing", status="False", reason="Paused", message=plan.held)
    sleeps = plan.phase is advice.PlanPhase.HIBERNATED and not plan.blocked
    if not plan.stages and (sleeps or plan.phase is advice.PlanPhase.READY):
        if context.unseen:
            return Condition(
                type="Progressing", status="True", reason="Observing", message=context.unseen
            )
        return Condition(
            type="Progressing",
            status="False",
            reason="Reconciled",
            message="nothing is in progress",
        )
    text = plan.why or "; ".join(plan.blocked)
    phase = plan.phase
    if phase is advice.PlanPhase.READY:  # upkeep: it is not ready before its end
        phase = advice.PlanPhase.HEALING if formed else advice.PlanPhase.CREATING
    return Condition(type="Progressing", status="True", reason=phase.value, message=text)


def _config_applied(situation: Topology, plan: Plan, context: Context) -> Condition:
    """Judge the settings themselves: another rule may be the one that acts."""
    open_, nodes = configure(situation), situation.observed.nodes
    if open_ is None:
        text = "every server has the settings of the spec"
        if situation.wanted.unwritten or any(outdated(situation, n.pod) for n in nodes):
            text += " that need no restart; pods that are not recreated yet may lack others"
        return Condition(type="ConfigApplied", status="True", reason="Applied", message=text)
    failed = context.failures and any(isinstance(step, ConfigSet) for step in plan.steps)
    refusal = last_error(open_, situation.observed)
    if failed or refusal:
        text = "; ".join(dict.fromkeys(context.failures)) if failed else refusal
        return Condition(type="ConfigApplied", status="False", reason="Refused", message=text)
    text = open_.why or "; ".join(open_.blocked)
    return Condition(type="ConfigApplied", status="False", reason="Applying", message=text)


def _auth_applied(context: Context) -> Condition:
    problem = context.auth
    if problem is None:
        text = "only the current passwords are accepted"
        return Condition(type="AuthApplied", status="True", reason="Applied", message=text)
    return Condition(
        type="AuthApplied", status="False", reason=problem.reason, message=problem.message
    )


def _ready(
    available: Condition, degraded: Condition, progressing: Condition, plan: Plan
) -> Condition:
    if plan.phase is advice.PlanPhase.HIBERNATED:
        text = plan.why or "; ".join(plan.blocked) or _ASLEEP
        return Condition(type="Ready", status="False", reason="Hibernated", message=text)
    for condition, bad in ((available, "False"), (degraded, "True"), (progressing, "True")):
        if condition.status == bad or condition.reason == "Paused":
            return Condition(
                type="Ready", status="False", reason=condition.reason, message=condition.message
            )
    text = "the database matches its spec"
    return Condition(type="Ready", status="True", reason="Reconciled", message=text)


def _with_companions(situation: Topology, ready: Condition) -> Condition:
    """Name sidecar containers that do not run: they block nothing. IN-25"""
    broken = [
        f"{node.pod.name} serves, but its pod is not ready while a container beside it fails: "
        f"{node.pod.waiting}; Services route to pods that are not ready meanwhile"
        for node in (*situation.seen, *situation.observed.sentinels)
        if node.pod.ready and node.pod.waiting
    ]
    if not broken:
        return ready
    return replace(ready, reason="SidecarBroken", message="; ".join(broken))


def _paused(wanted: Wanted) -> Condition:
    """Report that a person paused the operator; what it observes is reported all the same."""
    if wanted.paused:
        text = "spec.paused is set: nothing is changed until it is removed"
        return Condition(type="Paused", status="True", reason="Paused", message=text)
    if wanted.update_paused:
        text = "spec.update.paused is set: no pod is replaced for a change"
        return Condition(type="Paused", status="True", reason="UpdatePaused", message=text)
    return Condition(
        type="Paused", status="False", reason="NotPaused", message="changes are carried out"
    )


def _hibernated(wanted: Wanted, observed: Observed) -> Condition:
    if not wanted.hibernate:
        text = "spec.hibernate is not set"
        return Condition(type="Hibernated", status="False", reason="Running", message=text)
    if observed.nodes:
        text = f"{len(observed.nodes)} pods still run"
        return Condition(type="Hibernated", status="False", reason="Hibernating", message=text)
    return Condition(type="Hibernated", status="True", reason="Hibernated", message=_ASLEEP)


def _version_supported(wanted: Wanted, observed: Observed) -> Condition:
    """Name servers with a patch level that has known faults, and deprecated versions."""
    least = numbers(wanted.minimum_patch)
    old = [
        node.pod.name
        for node in observed.seen
        if least[:2] == numbers(node.version)[:2] and numbers(node.version) < least
    ]
    if old:
        text = (
            f"{', '.join(old)} run an older patch level than {wanted.minimum_patch}, with known "
            "faults that can lose data or let applications take a server over: give a newer image "
            "in spec.image or in the RedisVersion"
        )
        return Condition(
            type="VersionSupported", status="False", reason="BelowMinimumPatch", message=text
        )
    if wanted.deprecated:
        text = f"{wanted.engine} {wanted.version} is deprecated: set a newer spec.version"
        return Condition(type="VersionSupported", status="False", reason="Deprecated", message=text)
    text = "the running versions are supported"
    return Condition(type="VersionSupported", status="True", reason="Supported", message=text)


def _storage_resized(wanted: Wanted, observed: Observed) -> Condition:
    """Judge volumes by their actual size, not by the request; one without a size is new."""
    small = [volume for volume in observed.volumes if 0 < volume.capacity < wanted.volume_size]
    if not small:
        text = "every volume has the size of the spec"
        return Condition(type="StorageResized", status="True", reason="Resized", message=text)
    text = f"{len(small)} of {len(observed.volumes)} volumes are smaller than spec.storage.size: "
    text += ", ".join(volume.name for volume in small)
    return Condition(type="StorageResized", status="False", reason="Resizing", message=text)


def _deletion_held(context: Context) -> Condition:
    if not context.deletion_waits:
        return _DELETION_HELD
    text = f"its deletion was requested and waits: {context.deletion_waits}"
    return Condition(type="Deleting", status="False", reason="BackupFirst", message=text)


_DELETION_HELD = Condition(
    type="Deleting",
    status="False",
    reason="DeletionProtected",
    message="its deletion was requested and is refused: spec.deletion.protected is true; "
    "set it to false to delete the database",
)


def since(condition: Condition, old: Condition | None, context: Context) -> Condition:
    """Return a condition with the time of its last change, and shortened to be readable."""
    text = bounded(condition.message)
    short = replace(condition, message=text, observed_generation=context.generation)
    return dated(short, old, context.now)


def bounded(text: str) -> str:
    """Shorten a message for people: a thousand pods can have a thousand reasons."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} … and more"
