"""Servers that take the wrong node for the owner of slots, and will not correct it themselves."""

from __future__ import annotations

from msgspec import Struct

from ...redis.versions import heals_maps, parse_version
from ..clusters import Counted
from ..observed import Seen
from .situation import Situation

__all__ = ["Misbelief", "limitation", "misbelief"]


class Misbelief(Struct, frozen=True):
    """A server that is wrong, the owner of the slots, and the node that it takes for the owner."""

    believer: Seen
    owner: Seen
    believed: Seen

    def __str__(self) -> str:
        """Describe which server is wrong."""
        return (
            f"{self.believer.pod.name} takes slots of {self.owner.pod.name} for "
            f"{self.believed.pod.name}'s, whose epoch is higher"
        )


def misbelief(situation: Situation) -> Misbelief | None:
    """A server whose slot map gossip alone never corrects, or None. CL-29

    Of two nodes that may own a slot, a server believes the one with the higher epoch, even when
    that one gave the slot away and got its epoch for another reason. A replica that believes this
    of its primary claims the slot when it is promoted, and the owner deletes its keys. Most engines
    note that a node does not claim a slot any more, and correct their map themselves.
    """
    views = situation.views
    usual = ((node, views.usual.get(node.id)) for node in situation.by_id.values())
    wrong = [node.id for node, view in usual if view is not None and view.slots - node.slots]
    for believer in situation.by_id.values():
        if _learns(believer) or (situation.leaving(believer.pod) and not believer.slots):
            continue
        for node in views.suspects(believer, wrong):
            view, believed = situation.view(believer, node), situation.by_id.get(node)
            if view is None or believed is None or believed is believer:
                continue
            taken = view.slots - believed.slots
            for owner in situation.voters if taken else ():
                if taken & owner.slots and view.config_epoch >= owner.config_epoch:
                    return Misbelief(believer, owner, believed)
    return None


def _learns(believer: Seen) -> bool:
    version = parse_version(believer.engine, believer.version)
    return version is not None and heals_maps(version)


def limitation(situation: Situation, owner: Seen) -> str | None:
    """Why the claim of an owner may not get a higher epoch now, or None. I3, I5, I14

    Every server must respond and say its id; each slot has one owner; no slot is being migrated;
    all servers know each other's epochs; and no other server holds keys of the owner's slots.
    """
    return _partial(situation) or _contested(situation, owner) or _held(situation, owner)


def _partial(situation: Situation) -> str | None:
    if situation.unreachable:
        return f"{situation.unreachable[0].pod.name} does not respond"
    missing = (*situation.missing_pods, *(f"shard {s}" for s in situation.missing_shards))
    if missing:
        return f"{missing[0]} does not exist yet"
    if situation.duplicate_ids:
        return "two pods have one node id"
    return None


def _contested(situation: Situation, owner: Seen) -> str | None:
    if not situation.all_owned or situation.owned.keys() - situation.by_id.keys():
        return "not every slot has an owner that responds"
    if owner.slots != situation.owned.get(owner.id):
        return f"{owner.pod.name} does not own all that it claims"
    return next(iter(situation.unfinished_moves), None) or situation.unsettled_epochs


def _held(situation: Situation, owner: Seen) -> str | None:
    for node in situation.seen:
        strays = node.stranded
        if not node.is_primary or node.id == owner.id:
            continue
        if not isinstance(strays, Counted):
            return f"keys on {node.pod.name} are not counted yet"
        if strays.slots & owner.slots - situation.observed.cluster.duplicate_strays_of(node.id):
            return f"{node.pod.name} holds keys of slots of {owner.pod.name}"
    return None
