"""An owner shares its epoch with a primary that is gone and may come back."""

from __future__ import annotations

from ..advice import Phase, Plan
from ..at import at
from ..clusters import PeerFlag
from ..identity import NodeId, Role
from ..observed import Seen
from .actions import RaiseEpoch
from .misbelief import limitation, misbelief
from .situation import Situation

__all__ = ["convince", "raise_epoch"]


def raise_epoch(situation: Situation) -> Plan | None:
    """Give the living owner another epoch, so that who comes back meets no server with its own.

    Of two primaries with one epoch the engine gives one the next: a claim stronger than all
    others. When it is one that was dead, and a replica was promoted meanwhile, it takes its slots
    back with the data of the past, and what the replica acknowledged is lost. Who owns something
    else than it says, or has a part in a move, is left alone: its claim must not get stronger. I3
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
            phase=Phase.HEALING,
            urgent=True,
        )
    return None


def convince(situation: Situation) -> Plan | None:
    """Give an owner the highest epoch, so that who takes its slots for another's believes it.

    Done when nothing else could be meant by it: a claim that gets stronger must be the only one.
    Keys are counted for that. I3, CL-29
    """
    found = misbelief(situation)
    if found is None:
        return None
    owner = found.owner
    reason = limitation(situation, owner)
    if reason:
        text = f"{found}; {owner.pod.name} gets a higher one later: {reason}"
        return Plan(
            rule="convince", blocked=(text,), phase=Phase.HEALING, count_on=situation.to_count
        )
    step = RaiseEpoch(node=at(owner), epoch=owner.config_epoch, slots=owner.slots)
    return Plan(rule="convince", why=str(found), stages=((step,),), phase=Phase.HEALING)


def _epochs_of_the_absent(situation: Situation) -> dict[int, NodeId]:
    """The epochs that servers know of primaries that neither answer us nor are linked with them."""
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
    """It owns what it says; and the engine raises no epoch that is the highest there is."""
    highest = max((peer.config_epoch for peer in voter.peers), default=0)
    is_highest = voter.config_epoch >= max(voter.current_epoch, highest)
    return voter.slots == situation.owned.get(voter.id) and not is_highest
