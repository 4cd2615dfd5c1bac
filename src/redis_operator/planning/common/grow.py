"""Bigger volumes, one after the other."""

from __future__ import annotations

from ..actions import GrowVolume
from ..advice import Plan, PlanPhase
from ..observed import Volume
from ..topology import Topology

__all__ = ["grow"]


def grow(situation: Topology) -> Plan | None:
    """Request the wanted size on one claim at a time, if the StorageClass allows it. IN-03

    No pod restarts: the next claim waits until the last one has its size. Volumes cannot shrink;
    the API refuses it.
    """
    size = situation.wanted.volume_size
    volumes = situation.observed.volumes
    small = [v for v in volumes if v.requested < size and not v.deleting]
    offline = [v for v in volumes if v.capacity < v.requested and v.needs_restart]
    if not small:
        return _offline(offline)
    waiting = [v for v in volumes if v.capacity < v.requested and not v.needs_restart]
    if waiting:
        blocked = (f"{waiting[0].name} is being resized to {waiting[0].requested} bytes",)
        return Plan(rule="grow", blocked=blocked, phase=PlanPhase.UPDATING)
    fixed = [volume for volume in small if volume.expandable is False]
    if fixed:
        blocked = (
            f"ExpansionUnsupported: the storage class of {fixed[0].name} does not allow expansion",
        )
        return Plan(rule="grow", blocked=blocked)
    first = small[0]
    return Plan(
        rule="grow",
        why=f"{first.name} has {first.requested} bytes and needs {size}",
        stages=((GrowVolume(claim=first.name, uid=first.uid, size=size),),),
        phase=PlanPhase.UPDATING,
    )


def _offline(volumes: list[Volume]) -> Plan | None:
    """Say which pods must be restarted before their bigger volumes can be used."""
    if not volumes:
        return None
    pods = ", ".join(volume.pod for volume in volumes)
    reason = (
        f"the volumes of {pods} were expanded and their file systems grow when the pods are "
        "started again: recreate them one by one, replicas first"
    )
    return Plan(rule="grow", blocked=(reason,), phase=PlanPhase.UPDATING)
