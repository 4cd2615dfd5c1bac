"""Bigger volumes, one after the other."""

from __future__ import annotations

from ..actions import GrowVolume
from ..advice import Phase, Plan
from ..situation import Situation

__all__ = ["grow"]


def grow(situation: Situation) -> Plan | None:
    """Ask for the wanted size on one claim at a time, where the class allows it. IN-03

    Nothing restarts: the next claim waits until the last one has its size. Shrinking does not
    exist; the API refuses it.
    """
    size = situation.wanted.volume_size
    small = [v for v in situation.observed.volumes if v.requested < size and not v.deleting]
    if not small:
        return None
    waiting = [v for v in situation.observed.volumes if v.capacity < v.requested]
    if waiting:
        blocked = (f"{waiting[0].name} is being resized to {waiting[0].requested} bytes",)
        return Plan(rule="grow", blocked=blocked, phase=Phase.UPDATING)
    stiff = [volume for volume in small if not volume.expandable]
    if stiff:
        blocked = (
            f"ExpansionUnsupported: the storage class of {stiff[0].name} does not allow expansion",
        )
        return Plan(rule="grow", blocked=blocked)
    first = small[0]
    return Plan(
        rule="grow",
        why=f"{first.name} has {first.requested} bytes and wants {size}",
        stages=((GrowVolume(claim=first.name, uid=first.uid, size=size),),),
        phase=Phase.UPDATING,
    )
