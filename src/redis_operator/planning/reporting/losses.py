"""What is reported and recorded of slots that lost every copy of their data. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from ...api.status import DataLoss, RedisStatus, ShardStatus
from ...redis.slots import NO_SLOTS, SlotSet
from ..advice import ACCEPT_LOSS, Loss, Plan, Wanted

__all__ = ["action_on", "explain", "is_recorded", "lasting", "recorded", "until_recorded"]

_SOON_SECONDS = 0.2


def recorded(wanted: Wanted, plan: Plan, previous: RedisStatus, now: str) -> DataLoss | None:
    """Return the last loss: that of this plan, which may be recorded already, or an older one.

    What else is lost before every slot is served again belongs to the same record.
    """
    old = previous.last_data_loss
    if not plan.losses:
        return old
    slots, why = _slots(plan.losses), "; ".join(dict.fromkeys(loss.why for loss in plan.losses))
    action = action_on(wanted, plan.losses)
    if old is None:
        return DataLoss(now, str(slots), why, action)
    both = str(slots | SlotSet.parse(old.slots))
    if _stands(previous):
        return DataLoss(old.time, both, old.reason, action)
    if slots and _never_available_since(previous, old.time):
        return DataLoss(now, both, why if why == old.reason else f"{old.reason}; {why}", action)
    return DataLoss(now, str(slots), why, action)


def lasting(wanted: Wanted, previous: RedisStatus, shards: Iterable[ShardStatus]) -> str:
    """Return what to report of the recorded loss while none of its slots is served, or "".

    Servers in memory that ended together start one after the other. They are seen in turns as dead,
    as starting and as new nodes, and not each of these observations alone shows the loss.
    """
    loss = previous.last_data_loss
    if loss is None or not loss.slots or not wanted.volatile or not _stands(previous):
        return ""
    served = NO_SLOTS
    for shard in shards:
        served |= SlotSet.parse(shard.slots) if shard.primary else NO_SLOTS
    if served & SlotSet.parse(loss.slots):
        return ""
    return f"slots {loss.slots}: {loss.reason}; {loss.action}"


def until_recorded(plan: Plan, reported: RedisStatus) -> Plan:
    """Return the plan without its steps while the status in the API does not have its losses.

    Once slots are served again, no observation shows that their data was lost: an operator that
    dies before it has written the status would never report it.
    """
    if not plan.stages or is_recorded(plan, reported):
        return plan
    what = ", ".join(dict.fromkeys(loss.what for loss in plan.losses))
    why = f"the loss of {what} is not in the status yet: it is recorded before they start empty"
    return replace(plan, stages=(), blocked=(*plan.blocked, why), again_after=_SOON_SECONDS)


def is_recorded(plan: Plan, reported: RedisStatus) -> bool:
    """Whether the status in the API has every loss of this plan, and as one that stands."""
    if not plan.losses:
        return True
    last = reported.last_data_loss
    return (
        last is not None and _stands(reported) and _slots(plan.losses) <= SlotSet.parse(last.slots)
    )


def _never_available_since(status: RedisStatus, time: str) -> bool:
    available = next((c for c in status.conditions if c.type == "Available"), None)
    if available is None or available.status == "True":
        return False
    return available.last_transition_time <= time


def _stands(status: RedisStatus) -> bool:
    return any(c.type == "Degraded" and c.reason == "DataLost" for c in status.conditions)


def explain(wanted: Wanted, plan: Plan) -> str:
    """Return each loss with its slots and reason, and what happens or has to be done next."""
    parts = [f"{loss.what}: {loss.why}" for loss in plan.losses]
    return "; ".join([*parts, action_on(wanted, plan.losses)])


def action_on(wanted: Wanted, losses: tuple[Loss, ...]) -> str:
    """Return what is done about losses, or what a person has to decide."""
    held = tuple(loss for loss in losses if not loss.accepted)
    if not held:
        whole = not _slots(losses)
        took = "the server continues empty" if whole else "the slots are assigned to empty servers"
        return f"StartedEmpty: {took}"
    slots = _slots(held)
    problem = f" ({wanted.unreadable_acceptance})" if wanted.unreadable_acceptance else ""
    return (
        f"Held: restore the data, or start {'these slots' if slots else 'it'} empty: "
        f"kubectl annotate redis {wanted.name} --overwrite {ACCEPT_LOSS}={slots or 'all'}{problem}"
    )


def _slots(losses: tuple[Loss, ...]) -> SlotSet:
    slots = NO_SLOTS
    for loss in losses:
        slots |= loss.slots
    return slots
