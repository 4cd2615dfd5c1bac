"""What is told about a database: status whole, from what was seen and decided. Pure.

Conditions stand in a fixed order and *Ready* is judged last, from all others. Nothing that moves
all the time is told exactly (lag in whole MiB, memory to a tenth), so that a database at rest is
written to never. Events come from the difference of two statuses, so each is told once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from ..api.metadata import Condition
from ..api.quantity import format_bytes, parse_quantity
from ..api.status import Binding, Phase, Progress, RedisStatus, ReplicaStatus, ShardStatus
from ..redis.slots import ALL_SLOTS, NO_SLOTS, SlotSet
from . import advice
from .actions import ConfigSet
from .advice import Plan, Wanted
from .ailments import Ailment, ailments
from .losses import explain, recorded
from .observed import Node, Observed, Seen
from .rules.configure import configure
from .situation import Situation

__all__ = ["Announcement", "Context", "announcements", "refused", "status"]

_MIB = 1024 * 1024
_LONGEST = 2000  # characters of one sentence
_MOST_LINES = 50
_CHANGING = (advice.Phase.CREATING, advice.Phase.SCALING, advice.Phase.UPDATING)
_WISHED = frozenset({"Hibernated", "Paused", "Applying"})  # as the spec asks: nothing is wrong
_PHASES = {
    advice.Phase.READY: Phase.READY,
    advice.Phase.CREATING: Phase.CREATING,
    advice.Phase.HEALING: Phase.DEGRADED,
    advice.Phase.SCALING: Phase.SCALING,
    advice.Phase.UPDATING: Phase.UPDATING,
    advice.Phase.HIBERNATED: Phase.HIBERNATED,
}


class Context(Struct, frozen=True):
    """What the shell knows besides: what stood before, what failed, what time it is."""

    previous: RedisStatus
    generation: int
    now: str
    failures: tuple[str, ...] = ()
    unseen: str = ""  # objects that were written and are not observed yet
    hindrance: Ailment | None = None  # why the spec is not followed: a last good one is
    auth: Ailment | None = None  # why passwords are not yet what they should be
    binding: str = ""
    selector: str = ""
    progress: Progress | None = None
    image: str = ""


class Announcement(Struct, frozen=True):
    """One event for people: a condition changed."""

    warning: bool
    reason: str
    message: str


def status(wanted: Wanted, observed: Observed, plan: Plan, context: Context) -> RedisStatus:
    """Return the whole status of a database that was looked at."""
    situation = Situation(wanted, observed, _seconds(context.now))
    shards = tuple(_shards(situation, context))
    covered = _covered(observed.seen)
    available = _available(observed, covered, plan)
    degraded = _degraded(situation, plan, context, ALL_SLOTS - covered)
    progressing = _progressing(plan, context)
    applied = _config_applied(situation, plan, context)
    ready = _ready(available, degraded, progressing, plan)
    if ready.status == "True":
        ready = _with_companions(situation, ready)
    was = {c.type: c for c in context.previous.conditions}
    conditions = (ready, available, progressing, degraded, applied, _auth_applied(context))
    used = sum(node.used_memory for node in observed.seen if node.slots)
    primaries = [shard.primary for shard in shards if shard.primary]
    formed = observed.formed or (available.status == "True" and context.previous.binding is None)
    return RedisStatus(
        observed_generation=context.generation,
        phase=_phase(wanted, observed, plan, ready),
        message=_bounded(_message(plan, context, ready)),
        conditions=tuple(_dated(c, was.get(c.type), context) for c in conditions),
        plan=tuple(_bounded(line) for line in islice(_plan_lines(plan), _MOST_LINES)),
        progress=context.progress,
        shards=shards,
        shard_count=len([shard for shard in shards if shard.slots]),
        selector=context.selector,
        ready=f"{_ready_pods(situation)}/{wanted.shards * wanted.pods_per_shard}",
        primary=", ".join(primaries),
        slots=f"{len(covered)}/{len(ALL_SLOTS)}",
        memory=_memory(used, context.previous.memory),
        version=_version(observed.seen) or context.previous.version,
        image=context.image or context.previous.image,
        replicas=wanted.replicas,
        binding=Binding(context.binding) if formed else context.previous.binding,
        last_data_loss=recorded(wanted, plan, context.previous, context.now),
    )


def refused(context: Context, reason: str, messages: Iterable[str]) -> RedisStatus:
    """Return the status of a database whose spec cannot be followed: what runs keeps running."""
    text = "; ".join(messages)
    was = {c.type: c for c in context.previous.conditions}
    told = Condition(type="Ready", status="False", reason=reason, message=text)
    kept = tuple(c for c in context.previous.conditions if c.type != "Ready")
    return replace(
        context.previous,
        observed_generation=context.generation,
        phase=context.previous.phase or Phase.FAILED,
        message=text,
        plan=(),
        conditions=(_dated(told, was.get("Ready"), context), *kept),
    )


def announcements(before: RedisStatus, after: RedisStatus) -> tuple[Announcement, ...]:
    """Return what to report as events: conditions whose status or reason changed, each once."""
    was = {c.type: (c.status, c.reason) for c in before.conditions}
    others = {c.reason for c in after.conditions if c.type != "Ready"}
    found = [
        _announcement(condition)
        for condition in after.conditions
        if was.get(condition.type, ("", "")) != (condition.status, condition.reason)
        and not (condition.type == "Ready" and condition.reason in others)  # it only repeats one
        and _is_news(condition, before, was)
    ]
    loss, known = after.last_data_loss, before.last_data_loss
    if loss is not None and (
        known is None or (loss.time, loss.action) != (known.time, known.action)
    ):
        text = f"slots {loss.slots}: {loss.reason}; {loss.action}"
        found.append(Announcement(warning=True, reason="DataLost", message=text))
    before_primaries = {s.name: s.primary for s in before.shards}
    for shard in after.shards:
        old = before_primaries.get(shard.name, "")
        if old and shard.primary and old != shard.primary:
            text = f"{shard.primary} is the primary of {shard.name} now, before it was {old}"
            found.append(Announcement(warning=False, reason="PrimaryChanged", message=text))
    return tuple(dict.fromkeys(found))


def _is_news(condition: Condition, before: RedisStatus, was: dict[str, tuple[str, str]]) -> bool:
    if condition.reason == "DataLost":
        return False  # reported with its slots
    if condition.type in ("Degraded", "ConfigApplied") and condition.type not in was:
        return not _is_good(condition) and condition.reason != "Applying"
    if condition.type in ("Available", "Progressing") and not _is_good(condition):
        return before.binding is not None  # until it was whole once it is simply being created
    return True


def _is_good(condition: Condition) -> bool:
    return condition.status == ("False" if condition.type == "Degraded" else "True")


def _announcement(condition: Condition) -> Announcement:
    """Return the event of a condition: a warning only when something is wrong."""
    wished = condition.type == "Progressing" or condition.reason in _WISHED
    return Announcement(
        warning=not _is_good(condition) and not wished,
        reason=condition.reason,
        message=condition.message or f"{condition.type} is {condition.status}",
    )


def _shards(situation: Situation, context: Context) -> Iterator[ShardStatus]:
    before = {shard.name: shard for shard in context.previous.shards}
    nodes = situation.observed.nodes
    numbers = {node.pod.shard for node in nodes if not _is_going(situation, node)}
    for number in sorted(numbers):
        name = f"shard-{number}"
        leader = situation.leaders.get(number)
        primary = situation.by_id.get(leader) if leader is not None else None
        old = before.get(name)
        changed = old is not None and old.primary and primary and old.primary != primary.pod.name
        node_id, replication_id = _history(situation, primary, old)
        yield ShardStatus(
            name=name,
            slots=str(situation.owned.get(leader, NO_SLOTS)) if leader is not None else "",
            primary=primary.pod.name if primary is not None else "",
            node_id=node_id,
            replication_id=replication_id,
            replicas=tuple(_replicas(situation, number, primary)),
            last_failover_time=context.now
            if changed
            else (old.last_failover_time if old is not None else ""),
        )


def _history(
    situation: Situation, primary: Seen | None, old: ShardStatus | None
) -> tuple[str, str]:
    """Return whose history a shard's data are; a dead owner's until its last slots are settled."""
    owners = {claim.id for claim in situation.claims}
    if old is not None and old.node_id in owners - situation.by_id.keys():
        return old.node_id, old.replication_id
    return (primary.id, primary.replication.id) if primary is not None else ("", "")


def _is_going(situation: Situation, node: Node) -> bool:
    """Whether a pod ends that has no place any more and owns nothing: it is not told of.

    It ends as soon as no workload wants it, though nobody may have told it yet.
    """
    pod = node.pod
    owns = isinstance(node, Seen) and bool(node.slots)
    kept = any(
        workload.shard == pod.shard and pod.ordinal < workload.pods and not workload.deleting
        for workload in situation.observed.workloads
    )
    return situation.leaving(pod) and not owns and (pod.deleting or not kept)


def _replicas(situation: Situation, shard: int, primary: Seen | None) -> Iterator[ReplicaStatus]:
    for node in situation.pods_of(shard):
        if primary is not None and node.pod.name == primary.pod.name:
            continue
        if _is_going(situation, node):
            continue
        if not isinstance(node, Seen):
            yield ReplicaStatus(pod=node.pod.name, link="unreachable")
            continue
        if primary is None or node.replica_of != primary.id:
            yield ReplicaStatus(pod=node.pod.name, link="none")
            continue
        lag = max(0, primary.replication.offset - node.replication.offset)
        link = (
            "syncing" if node.replication.syncing else "up" if node.replication.link_up else "down"
        )
        yield ReplicaStatus(pod=node.pod.name, lag_bytes=lag // _MIB * _MIB, link=link)


def _covered(seen: Iterable[Seen]) -> SlotSet:
    covered = NO_SLOTS
    for node in seen:
        if node.is_primary and node.state_ok:
            covered |= node.slots
    return covered


def _ready_pods(situation: Situation) -> int:
    """Count servers that do their part: primaries that serve, replicas whose link is up."""
    return sum(
        node.state_ok
        and (bool(node.slots) or (node.replica_of is not None and node.replication.link_up))
        for node in situation.observed.seen
        if not _is_going(situation, node)
    )


def _available(observed: Observed, covered: SlotSet, plan: Plan) -> Condition:
    missing = ALL_SLOTS - covered
    if not missing:
        return Condition(
            type="Available", status="True", reason="AllSlotsServed", message="every slot is served"
        )
    reason = "DataLost" if plan.losses else "NotServing" if observed.formed else "NotFormed"
    text = f"slots {missing} are not served" if observed.formed else "it is not formed yet"
    return Condition(type="Available", status="False", reason=reason, message=text)


def _degraded(situation: Situation, plan: Plan, context: Context, missing: SlotSet) -> Condition:
    if plan.losses:
        text = explain(situation.wanted, plan)
        return Condition(type="Degraded", status="True", reason="DataLost", message=text)
    if plan.stalled:
        return Condition(type="Degraded", status="True", reason="NoEffect", message=plan.stalled)
    silent = [
        f"{node.pod.name}: {node.pod.waiting or node.error}" for node in situation.unreachable
    ]
    formed = situation.observed.formed
    # What a change waits for is reported as progress: nothing is wrong by itself.
    changing = plan.phase in _CHANGING
    waits = () if changing else plan.blocked
    reasons = [*waits, *context.failures, *(silent if formed else ())]
    found = ailments(situation, _told_reason(context))
    if context.hindrance is not None:
        found = (context.hindrance, *found)
    if found:
        text = "; ".join(dict.fromkeys([*(ailment.message for ailment in found), *reasons]))
        return Condition(type="Degraded", status="True", reason=found[0].reason, message=text)
    if reasons and formed:
        kind = "Unreachable" if silent else "Blocked" if waits else "StepFailed"
        text = "; ".join(dict.fromkeys(reasons))
        return Condition(type="Degraded", status="True", reason=kind, message=text)
    if formed and plan.phase is advice.Phase.HEALING:
        text = plan.why or plan.held or "a repair is under way"
        return Condition(type="Degraded", status="True", reason="Healing", message=text)
    if formed and missing and plan.phase is not advice.Phase.HIBERNATED:
        text = f"slots {missing} are not served"
        return Condition(type="Degraded", status="True", reason="NotServing", message=text)
    return Condition(type="Degraded", status="False", reason="Healthy", message="")


def _told_reason(context: Context) -> str:
    return next((c.reason for c in context.previous.conditions if c.type == "Degraded"), "")


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp() if moment else 0.0


def _progressing(plan: Plan, context: Context) -> Condition:
    if plan.held:
        return Condition(type="Progressing", status="False", reason="Paused", message=plan.held)
    if not plan.stages and plan.phase in (advice.Phase.READY, advice.Phase.HIBERNATED):
        if context.unseen:
            updating = advice.Phase.UPDATING.value
            return Condition(
                type="Progressing", status="True", reason=updating, message=context.unseen
            )
        return Condition(type="Progressing", status="False", reason="Reconciled", message="")
    text = plan.why or "; ".join(plan.blocked)
    return Condition(type="Progressing", status="True", reason=plan.phase.value, message=text)


def _config_applied(situation: Situation, plan: Plan, context: Context) -> Condition:
    """Judge the settings themselves: another rule may have the turn."""
    open_ = configure(situation)
    if open_ is None:
        return Condition(type="ConfigApplied", status="True", reason="Applied", message="")
    if context.failures and any(isinstance(step, ConfigSet) for step in plan.steps):
        text = "; ".join(dict.fromkeys(context.failures))
        return Condition(type="ConfigApplied", status="False", reason="Refused", message=text)
    text = open_.why or "; ".join(open_.blocked)
    return Condition(type="ConfigApplied", status="False", reason="Applying", message=text)


def _auth_applied(context: Context) -> Condition:
    problem = context.auth
    if problem is None:
        return Condition(type="AuthApplied", status="True", reason="Applied", message="")
    return Condition(
        type="AuthApplied", status="False", reason=problem.reason, message=problem.message
    )


def _ready(
    available: Condition, degraded: Condition, progressing: Condition, plan: Plan
) -> Condition:
    if plan.phase is advice.Phase.HIBERNATED:
        return Condition(type="Ready", status="False", reason="Hibernated", message=plan.why)
    for condition, bad in ((available, "False"), (degraded, "True"), (progressing, "True")):
        if condition.status == bad or condition.reason == "Paused":
            return Condition(
                type="Ready", status="False", reason=condition.reason, message=condition.message
            )
    return Condition(type="Ready", status="True", reason="Reconciled", message="")


def _with_companions(situation: Situation, ready: Condition) -> Condition:
    """Name containers beside a server that do not run: they hold nothing up. IN-25"""
    broken = [
        f"{node.pod.name} serves, but no Service leads to it while beside it: {node.pod.waiting}"
        for node in situation.seen
        if node.pod.ready and node.pod.waiting
    ]
    if not broken:
        return ready
    return replace(ready, reason="SidecarBroken", message="; ".join(broken))


def _phase(wanted: Wanted, observed: Observed, plan: Plan, ready: Condition) -> Phase:
    if wanted.hibernate and not observed.nodes:
        return Phase.HIBERNATED
    if ready.status == "True":
        return Phase.READY
    if not observed.nodes:
        return Phase.PENDING
    if plan.losses:
        return Phase.FAILED
    told = _PHASES[plan.phase]
    if told is Phase.READY:
        return Phase.DEGRADED if observed.formed else Phase.CREATING
    return told


def _message(plan: Plan, context: Context, ready: Condition) -> str:
    if ready.status == "True":
        return ready.message
    return (
        plan.held or plan.why or next(iter((*plan.blocked, *context.failures)), "") or ready.message
    )


def _plan_lines(plan: Plan) -> Iterator[str]:
    if plan.held:
        yield f"waiting: {plan.held}"
    if plan.stages:
        yield f"{plan.why} ({len(plan.steps)} steps)"
    for reason in plan.blocked:
        yield f"waiting: {reason}"
    for loss in plan.losses:
        yield f"lost: slots {loss.slots}: {loss.why}"


def _dated(condition: Condition, old: Condition | None, context: Context) -> Condition:
    since = context.now
    if old is not None and old.status == condition.status and old.last_transition_time:
        since = old.last_transition_time
    return Condition(
        type=condition.type,
        status=condition.status,
        reason=condition.reason,
        message=_bounded(condition.message),
        last_transition_time=since,
        observed_generation=context.generation,
    )


def _bounded(text: str) -> str:
    """Return what a person reads of it: a thousand pods can have a thousand reasons."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} … and more"


def _memory(used: int, told: str) -> str:
    """Return the memory in use, in two digits; what was told stays while it is nearly right."""
    before = parse_quantity(told) if told else None
    if before and abs(used - before) * 10 <= before:
        return told
    scale: int = 10 ** max(0, len(str(used)) - 2)
    return format_bytes(used // scale * scale) if used else ""


def _version(seen: Iterable[Seen]) -> str:
    """Return the oldest version that runs."""
    versions = {
        tuple(int(p) for p in n.version.split(".") if p.isdecimal()) for n in seen if n.version
    }
    return ".".join(map(str, min(versions))) if versions else ""
