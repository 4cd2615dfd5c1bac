"""The status of a database as a whole, from what was observed and decided. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice

from msgspec.structs import replace

from ...api.metadata import Condition
from ...api.status import Binding, Operation, Phase, RedisStatus
from .. import advice
from ..advice import Plan, Wanted
from ..modes import MODES
from ..observed import Observed
from ..topology import Topology
from . import inventory
from .conditions import bounded, conditions, since
from .context import Context
from .degradations import degradations
from .losses import lasting, recorded

__all__ = ["refused", "status"]

_MOST_LINES = 50
_CHANGES = {
    Phase.PENDING: advice.PlanPhase.CREATING,
    Phase.CREATING: advice.PlanPhase.CREATING,
    Phase.SCALING: advice.PlanPhase.SCALING,
    Phase.UPDATING: advice.PlanPhase.UPDATING,
}
_PHASES = {
    advice.PlanPhase.READY: Phase.READY,
    advice.PlanPhase.CREATING: Phase.CREATING,
    advice.PlanPhase.FOLLOWING: Phase.FOLLOWING,
    advice.PlanPhase.HEALING: Phase.DEGRADED,
    advice.PlanPhase.SCALING: Phase.SCALING,
    advice.PlanPhase.UPDATING: Phase.UPDATING,
    advice.PlanPhase.HIBERNATED: Phase.HIBERNATED,
    advice.PlanPhase.WAKING: Phase.WAKING,
}
_WAKING_SECONDS = 120.0  # a database that takes longer to wake up is degraded


def status(wanted: Wanted, observed: Observed, plan: Plan, context: Context) -> RedisStatus:
    """Return the whole status of a database that was observed."""
    mode = MODES[wanted.mode]
    situation = mode.situation(wanted, observed, _seconds(context.now))
    previous = context.previous
    plan = _at_rest(plan, situation, previous)
    plan = _woken(_continued(plan, situation, previous), situation, previous)
    shards = tuple(inventory.shards(situation, context))
    loss = lasting(wanted, previous, shards)
    judged = conditions(situation, plan, context, mode.served, loss)
    ready, available = judged[0], judged[1]
    is_wrong = any(c.type == "Degraded" and c.status == "True" for c in judged)
    used = sum(node.used_memory for node in observed.seen if situation.claims_data(node))
    engine, version = inventory.running(observed.seen)
    ready_pods, pod_count = inventory.ready_pods(situation), wanted.shards * wanted.pods_per_shard
    formed = observed.formed or (available.status == "True" and previous.binding is None)
    return RedisStatus(
        observed_generation=context.generation,
        phase=_phase(wanted, observed, plan, ready, is_wrong=is_wrong),
        message=bounded(_message(plan, context, ready)),
        conditions=judged,
        plan=tuple(bounded(line) for line in islice(_plan_lines(plan), _MOST_LINES)),
        progress=context.progress,
        last_operation=_operation(plan, context, ready),
        shards=shards,
        shard_count=len([s for s in shards if s.slots or not situation.slots_summary]),
        ready_shards=inventory.ready_shards(situation),
        pods=tuple(inventory.pods(situation, context)),
        pod_count=pod_count,
        ready_pods=ready_pods,
        selector=context.selector,
        ready=f"{ready_pods}/{pod_count}",
        primary=", ".join(shard.primary for shard in shards if shard.primary),
        slots=situation.slots_summary,
        memory=inventory.memory(used, previous.memory),
        engine=engine or previous.engine,
        version=version or previous.version,
        target_version=wanted.version,
        image=context.image or previous.image,
        replicas=wanted.replicas,
        binding=Binding(context.binding) if formed else previous.binding,
        endpoints=context.endpoints or previous.endpoints,
        last_data_loss=recorded(wanted, plan, previous, context.now),
        source=inventory.source(situation),
        restore=inventory.restore(situation, context),
        restoring=inventory.restoring(situation, context),
    )


def refused(context: Context, reason: str, messages: Iterable[str]) -> RedisStatus:
    """Return the status of a database whose spec cannot be used: what runs keeps running.

    Its servers are not observed meanwhile: a database that served is not reported as one that
    still does.
    """
    text = "; ".join(messages)
    was = {c.type: c for c in context.previous.conditions}
    found = [Condition(type="Ready", status="False", reason=reason, message=text)]
    phase = context.previous.phase or Phase.FAILED
    if context.previous.binding is not None:
        phase = Phase.DEGRADED
        unseen = f"the servers cannot be observed: {text}"
        found += [
            Condition(type="Available", status="Unknown", reason="NotObserved", message=unseen),
            Condition(type="Degraded", status="True", reason=reason, message=text),
        ]
    judged = {c.type: since(c, was.get(c.type), context) for c in found}
    return replace(
        context.previous,
        observed_generation=context.generation,
        phase=phase,
        message=text,
        plan=(),
        conditions=tuple((was | judged).values()),
    )


def _phase(
    wanted: Wanted, observed: Observed, plan: Plan, ready: Condition, *, is_wrong: bool
) -> Phase:
    if wanted.hibernate and not observed.nodes:
        return Phase.HIBERNATED
    if ready.status == "True":
        return Phase.READY
    if not observed.nodes and plan.phase is not advice.PlanPhase.WAKING:
        return Phase.PENDING
    if plan.losses:
        return Phase.FAILED
    reported = _PHASES[plan.phase]
    if reported is Phase.READY and not observed.formed:
        return Phase.CREATING
    if reported is Phase.READY:  # nothing is done: something is wrong, or is not observed yet
        return Phase.DEGRADED if is_wrong else Phase.UPDATING
    return reported


def _at_rest(plan: Plan, situation: Topology, previous: RedisStatus) -> Plan:
    """Return the plan without short upkeep, for a database that was settled.

    It was Ready before its upkeep, and stays Ready during it.
    """
    waits = plan.rule == "wait" and len(plan.blocked) == 1 and not plan.losses
    if previous.phase is not Phase.READY or not waits or not situation.is_whole_in_a_moment:
        return plan
    return replace(plan, blocked=(), phase=advice.PlanPhase.READY)


def _continued(plan: Plan, situation: Topology, previous: RedisStatus) -> Plan:
    """Return the plan as part of the previous change, while its last pods start and get ready.

    Readiness is probed every few seconds: nothing is wrong with a server that has just started.
    """
    change = _CHANGES.get(previous.phase) if previous.phase is not None else None
    usual = (advice.PlanPhase.HEALING, advice.PlanPhase.UPDATING)
    follows = plan.rule == "wait" or (plan.routine and plan.phase in usual)
    if change is None or not follows or plan.losses:
        return plan
    if not situation.leaders_answer:
        return plan  # a shard that had a primary is not served: that is an outage
    if not all(inventory.is_replaced(situation, node) for node in situation.unreachable):
        return plan
    if degradations(situation, ""):
        return plan  # a pod that cannot be created is a problem of its own
    late = [
        node
        for node in situation.seen
        if not (node.pod.ready and situation.does_its_part(node))
        and situation.now - node.started_at > inventory.START_SECONDS
    ]
    return plan if late else replace(plan, phase=change)


def _woken(plan: Plan, situation: Topology, previous: RedisStatus) -> Plan:
    """Return the plan as part of waking up: all pods start at once, and serve a little later."""
    sleeps = situation.wanted.hibernate or previous.phase not in (Phase.HIBERNATED, Phase.WAKING)
    if sleeps or plan.losses or plan.stalled or plan.held or plan.asks:
        return plan
    last = previous.last_operation
    begun = _seconds(last.start_time) if last and last.type == "Waking" else situation.now
    if situation.now - begun > _WAKING_SECONDS:
        return plan
    is_up = plan.phase is advice.PlanPhase.READY and not plan.blocked
    is_up = is_up and inventory.ready_pods(situation) == len(situation.observed.nodes) > 0
    return plan if is_up else replace(plan, phase=advice.PlanPhase.WAKING)


_OPERATIONS = {
    advice.PlanPhase.CREATING: "Creating",
    advice.PlanPhase.HEALING: "Healing",
    advice.PlanPhase.SCALING: "Scaling",
    advice.PlanPhase.UPDATING: "Updating",
    advice.PlanPhase.HIBERNATED: "Hibernating",
    advice.PlanPhase.WAKING: "Waking",
}


def _operation(plan: Plan, context: Context, ready: Condition) -> Operation | None:
    """Return the operation in progress, or the last one: it ends when the database is settled."""
    last = context.previous.last_operation
    runs = last is not None and not last.end_time
    asleep = plan.phase is advice.PlanPhase.HIBERNATED and not plan.stages and not plan.blocked
    if last is not None and runs and (ready.status == "True" or asleep):
        return replace(last, end_time=context.now, result="Succeeded")
    if last is not None and runs and plan.losses:
        return replace(last, end_time=context.now, result="DataLost")
    kind = _OPERATIONS.get(plan.phase)
    if kind is None or asleep or ready.status == "True" or plan.losses:
        return last
    if last is not None and runs and last.type == kind:
        return last
    why = plan.why or next(iter(plan.blocked), "")
    return Operation(type=kind, start_time=context.now, message=bounded(why))


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
        yield f"lost: {loss.what}: {loss.why}"


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp() if moment else 0.0
