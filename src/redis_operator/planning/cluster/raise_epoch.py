"""An owner has the same epoch as a primary that is gone and may come back."""

from __future__ import annotations

from ..advice import Plan, PlanPhase
from ..at import at
from ..clusters import PeerFlag
from ..identity import NodeId, Role
from ..observed import Seen
from .actions import RaiseEpoch
from .misbelief import limitation, misbelief
from .situation import Situation

__all__ = ["convince", "raise_epoch"]


def raise_epoch(situation: Situation) -> Plan | None:
    """Give the living owner another epoch, so that no returning server has the same one.

    When two primaries have the same epoch, the engine gives one of them the next: a claim stronger
    than all others. If that one was dead, and a replica was promoted meanwhile, it takes its slots
    back with old data, and the writes that the replica acknowledged are lost. An owner whose slots
    differ from what it says, or that takes part in a migration, is left alone: its claim must not
    get stronger. I3
    """
    if situation.unfinished_moves:
        return None
    absent = _epochs_of_the_absent(situation)
    for voter in situation.voters:
        other = absent.get(voter.config_epoch)
        if other is None or not _may_rise(situation, voter):
            continue
        step = RaiseEpoch(node=at(voter), epoch=voter.config_epoch, slots=voter.slots)
        return Plan(
            rule="raise_epoch",
            why=f"{voter.pod.name} shares epoch {voter.config_epoch} with "
            f"{situation.name_of(other)}, which does not respond",
            stages=((step,),),
            phase=PlanPhase.HEALING,
            urgent=True,
        )
    return None


def convince(situation: Situation) -> Plan | None:
    """Give an owner the highest epoch, so that servers with another view of its slots accept it.

    This is done only when that is its sole effect: the claim that gets stronger must be the only
    one. Keys are counted to make sure. I3, CL-29
    """
    found = misbelief(situation)
    if found is None:
        return None
    owner = found.owner
    reason = limitation(situation, owner)
    if reason:
        text = f"{found}; {owner.pod.name} gets a higher one later: {reason}"
        return Plan(
            rule="convince",
            blocked=(text,),
            phase=PlanPhase.HEALING,
            count_strays_on=situation.to_count,
        )
    step = RaiseEpoch(node=at(owner), epoch=owner.config_epoch, slots=owner.slots)
    return Plan(rule="convince", why=str(found), stages=((step,),), phase=PlanPhase.HEALING)


def _epochs_of_the_absent(situation: Situation) -> dict[int, NodeId]:
    """The epochs, as servers know them, of primaries that neither respond nor are linked."""
    return {
        peer.config_epoch: peer.id
        for peer in situation.views.distinct
        if peer.role is Role.PRIMARY
        and peer.config_epoch
        and peer.id not in situation.by_id
        and peer.id not in situation.duplicate_ids
        and not peer.healthy
        and PeerFlag.HANDSHAKE not in peer.flags
    }


def _may_rise(situation: Situation, voter: Seen) -> bool:
    """Whether it owns what it says, and the engine would raise it: never the highest epoch."""
    highest = max((peer.config_epoch for peer in voter.peers), default=0)
    is_highest = voter.config_epoch >= max(voter.current_epoch, highest)
    return voter.slots == situation.owned.get(voter.id) and not is_highest
