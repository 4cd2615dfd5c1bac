"""Ask the rules in order; the first that wants to act acts alone."""

from __future__ import annotations

from msgspec.structs import replace

from .actions import ON_OBJECTS, DeletePod, LabelRole
from .advice import Loss, Plan, PlanPhase, Wanted
from .common.roll import outdated
from .guards import Guards, breaches
from .modes import MODES
from .observed import Observed
from .repeats import held_back
from .row import Companion, Kind, Row
from .topology import Topology

__all__ = ["plan"]


def plan(wanted: Wanted, observed: Observed, now: float) -> Plan:
    """Decide what to do next with one database, and why.

    Total and pure: any observed state yields a plan, or none with its reasons. A rule that only has
    reasons does not silence the rules after it unless it says so (`final`); those rules check for
    themselves what may not happen meanwhile. Neither does a rule whose plan is refused, or held
    back because it has no effect. Harmless bookkeeping is part of every plan.
    """
    mode = MODES[wanted.mode]
    situation = mode.situation(wanted, observed, now)
    plans: list[Plan] = []
    for row in mode.rules:
        advice = row.rule(situation)
        if advice is None:
            continue
        routine = advice.routine or row.kind is Kind.UPKEEP
        advice = replace(advice, rule=row.name, event=row.event, routine=routine)
        if row.kind is Kind.CHANGE:
            advice = _after_its_objects(advice, wanted)
        advice = held_back(_guarded(situation, mode.guards, row, advice), observed, now)
        plans.append(advice)
        if advice.stages or advice.final:
            break
    chosen = _in_context(situation, _merge(plans))
    if wanted.paused:
        return _paused(wanted, chosen)
    return _with_companions(situation, mode.companions, chosen)


def _paused(wanted: Wanted, chosen: Plan) -> Plan:
    """Hold back the steps of a paused database; its problems are reported all the same.

    A spec that was changed meanwhile has had no effect yet: pods match the objects of another one.
    """
    if not chosen.stages and chosen.phase is PlanPhase.READY and not wanted.unwritten:
        return chosen
    would = f" This would be done: {chosen.why}" if chosen.stages else ""
    waits = f", and {wanted.unwritten}" if wanted.unwritten else ""
    held = f"spec.paused is set: the operator reports and changes nothing{waits}.{would}"
    phase = PlanPhase.UPDATING if chosen.phase is PlanPhase.READY else chosen.phase
    return replace(chosen, stages=(), why="", held=held, phase=phase, count_strays_on=())


def _after_its_objects(advice: Plan, wanted: Wanted) -> Plan:
    """Hold back a change that ends, starts or changes pods while the objects for it are unwritten.

    Pods start with what the objects say: they would start with the previous spec.
    """
    if not wanted.unwritten or not any(isinstance(s, ON_OBJECTS) for s in advice.steps):
        return advice
    waits = f"rule {advice.rule} waits: {wanted.unwritten}"
    return replace(advice, stages=(), blocked=(*advice.blocked, waits))


def _in_context(situation: Topology, chosen: Plan) -> Plan:
    """Pods that come and go because of a change are part of the change, not a degradation."""
    if chosen.phase is not PlanPhase.HEALING or not chosen.routine or chosen.losses:
        return chosen
    if situation.observed.formed and situation.is_outage:
        return chosen  # what is not served is an outage, whatever else is in progress
    pods = [node.pod for node in situation.observed.nodes]
    if any(outdated(situation, pod) for pod in pods):
        return replace(chosen, phase=PlanPhase.UPDATING)
    if situation.is_scaling:
        return replace(chosen, phase=PlanPhase.SCALING)
    return chosen


def _guarded(situation: Topology, guards: Guards, row: Row, chosen: Plan) -> Plan:
    """Refuse a plan that would break an invariant: it is reported, and later rules are asked."""
    reasons = (*row.unexpected_steps(chosen), *breaches(situation, chosen, guards))
    if not reasons:
        return chosen
    messages = tuple(f"refused, this is a bug: rule {chosen.rule} breaks {why}" for why in reasons)
    return replace(chosen, stages=(), blocked=chosen.blocked + messages, final=False)


def _merge(plans: list[Plan]) -> Plan:
    """The last plan, with the reasons of all before it."""
    if not plans:
        return Plan()
    last = plans[-1]
    blocked: dict[str, None] = {}
    losses: dict[Loss, None] = {}
    for advice in plans:
        blocked.update(dict.fromkeys(advice.blocked))
        losses.update(dict.fromkeys(advice.losses))
    spans = [advice.again_after for advice in plans if advice.again_after is not None]
    phase = next((a.phase for a in plans if a.phase is not PlanPhase.READY), PlanPhase.READY)
    return replace(
        last,
        blocked=tuple(blocked),
        losses=tuple(losses),
        phase=last.phase if last.stages else phase,
        again_after=min(spans) if spans else None,
        stalled="; ".join(advice.stalled for advice in plans if advice.stalled),
        count_strays_on=tuple(
            dict.fromkeys(pod for advice in plans for pod in advice.count_strays_on)
        ),
    )


def _with_companions(situation: Topology, companions: tuple[Companion, ...], chosen: Plan) -> Plan:
    ending = {step.uid for step in chosen.steps if isinstance(step, DeletePod)}
    extra = tuple(
        step
        for companion in companions
        for step in companion(situation)
        if not (isinstance(step, LabelRole) and step.uid in ending)
    )
    if not extra:
        return chosen
    if not chosen.stages:
        return replace(chosen, stages=(extra,), why=chosen.why or "labels follow the roles")
    first, *rest = chosen.stages
    return replace(chosen, stages=(first + extra, *rest))
