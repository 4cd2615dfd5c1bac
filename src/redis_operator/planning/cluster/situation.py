"""What is wanted and what was seen, put together: who owns what, who leads which shard, who votes.

Computed once for all rules. Ownership follows the engine's own law: of all who claim a slot, the
one with the highest epoch has it. A server speaks for itself; of one that does not respond, only
what a majority of the seen slot owners say counts. I2
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cached_property

from ...redis.slots import ALL_SLOTS, NO_SLOTS, SlotSet
from ..clusters import Counted, Peer
from ..identity import NodeId
from ..observed import Node, Pod, Seen, Unreachable
from ..topology import Topology
from .views import Views

__all__ = ["Claim", "Situation"]


class Claim:
    """A node's effective ownership: what it owns after every higher epoch has taken its part."""

    __slots__ = ("epoch", "id", "slots")

    def __init__(self, node: NodeId, epoch: int, slots: SlotSet) -> None:
        self.id = node
        self.epoch = epoch
        self.slots = slots


class Situation(Topology):
    """One moment of one database, with what follows from it. Immutable by convention."""

    # Who is who

    @cached_property
    def duplicate_ids(self) -> frozenset[NodeId]:
        """Ids that more than one pod says are its own."""
        count = Counter(node.id for node in self.seen)
        return frozenset(node for node, times in count.items() if times > 1)

    @cached_property
    def by_id(self) -> dict[NodeId, Seen]:
        """The servers that answered, by id; those that share an id are left out."""
        return {node.id: node for node in self.seen if node.id not in self.duplicate_ids}

    @cached_property
    def identities(self) -> dict[NodeId, Unreachable]:
        """Ids of servers that do not respond: as they last said, or as their address is known."""
        at_address: dict[str, set[NodeId]] = {}
        for peer in self.views.distinct:
            if peer.ip and peer.id not in self.by_id:
                at_address.setdefault(peer.ip, set()).add(peer.id)
        found: dict[NodeId, Unreachable] = {}
        for node in self.unreachable:
            known = at_address.get(node.pod.ip, set()) if node.pod.ip else set()
            if node.last_id is not None:
                found[node.last_id] = node
            elif len(known) == 1:
                found[next(iter(known))] = node
        return found

    @cached_property
    def strangers(self) -> tuple[Unreachable, ...]:
        """Pods that do not respond and whose id is not known: they may be anyone we miss."""
        identified = {node.pod.name for node in self.identities.values()}
        return tuple(node for node in self.unreachable if node.pod.name not in identified)

    @cached_property
    def unseen_pods(self) -> tuple[str, ...]:
        """Names that pods of this database may have and no observed pod has."""
        present = {node.pod.name for node in self.observed.nodes}
        sizes = dict.fromkeys(range(self.wanted.shards), self.wanted.pods_per_shard)
        for workload in self.observed.workloads:
            sizes[workload.shard] = max(workload.pods, self.wanted.pods_per_shard)
        names = (
            f"{self.wanted.name}-{shard}-{ordinal}"
            for shard, size in sorted(sizes.items())
            for ordinal in range(size)
        )
        return tuple(name for name in names if name not in present)

    @cached_property
    def missing_shards(self) -> tuple[int, ...]:
        """Wanted shards that have no pod at all."""
        present = {node.pod.shard for node in self.observed.nodes}
        return tuple(shard for shard in range(self.wanted.shards) if shard not in present)

    @cached_property
    def others(self) -> dict[NodeId, tuple[Peer, ...]]:
        """Nodes that our servers know and no pod of ours is known to be, with what is said of them.

        What several say alike may be there once.
        """
        own = set(self.by_id) | self.duplicate_ids | set(self.identities)
        return {node: said for node, said in sorted(self.views.about.items()) if node not in own}

    def pod_of(self, node: NodeId) -> Pod | None:
        """The pod a node runs in, as far as that is known."""
        holder: Node | None = self.by_id.get(node) or self.identities.get(node)
        return holder.pod if holder is not None else None

    def name_of(self, node: NodeId) -> str:
        """What to call a node in a sentence: its pod, or the start of its id."""
        pod = self.pod_of(node)
        return pod.name if pod is not None else f"node {node[:8]}"

    def view(self, viewer: Seen, node: NodeId) -> Peer | None:
        """What one server thinks of a node, or None when it does not know it."""
        return self.views.of(viewer, node)

    @cached_property
    def views(self) -> Views:
        """What servers say of each other."""
        return Views(self.seen)

    # Who owns what

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        """Everybody's effective ownership, highest epoch first. Who owns nothing is not listed."""
        spoken = [
            (node.config_epoch, node.id, node.slots)
            for node in self.seen
            if node.is_primary and node.slots
        ]
        told = [(epoch, node, slots) for node, epoch, slots in self._told()]
        taken, found = NO_SLOTS, []
        for epoch, node, slots in sorted(spoken + told, key=lambda c: (-c[0], c[1])):
            left = slots - taken
            taken |= slots
            if left:
                found.append(Claim(node, epoch, left))
        return tuple(found)

    @cached_property
    def owned(self) -> dict[NodeId, SlotSet]:
        """Effective slots by owner."""
        return {claim.id: claim.slots for claim in self.claims}

    @cached_property
    def unclaimed(self) -> SlotSet:
        """Slots that no server claims, not even in a single view of one that does not respond."""
        claimed = NO_SLOTS
        for node in self.seen:
            if node.is_primary:
                claimed |= node.slots
        for peer in self.views.distinct:
            if peer.id not in self.by_id:
                claimed |= peer.slots
        return ALL_SLOTS - claimed

    @cached_property
    def all_owned(self) -> bool:
        """Whether every slot has an owner that answers."""
        owned = NO_SLOTS
        for node, slots in self.owned.items():
            if node in self.by_id:
                owned |= slots
        return owned == ALL_SLOTS

    def owner_of(self, slot: int) -> NodeId | None:
        """The effective owner of a slot."""
        return next((claim.id for claim in self.claims if slot in claim.slots), None)

    # Who votes

    @cached_property
    def voters(self) -> tuple[Seen, ...]:
        """Seen primaries that own slots: the only ones whose vote and view count."""
        return tuple(n for n in self.by_id.values() if n.id in self.owned and n.is_primary)

    @property
    def quorum(self) -> int:
        """How many votes a promotion needs."""
        return len(self.claims) // 2 + 1

    @property
    def has_majority(self) -> bool:
        """Whether enough slot owners answer to vote."""
        return len(self.voters) >= self.quorum

    # Who leads

    @cached_property
    def owners_by_shard(self) -> dict[int, tuple[NodeId, ...]]:
        """Slot owners by the shard their pod belongs to, the best housed first."""
        found: dict[int, list[NodeId]] = {}
        for node in self.owned:
            pod = self.pod_of(node)
            if pod is not None:
                found.setdefault(pod.shard, []).append(node)
        return {shard: tuple(sorted(ids, key=self._housed)) for shard, ids in sorted(found.items())}

    @cached_property
    def leaders(self) -> dict[int, NodeId]:
        """For each shard the primary its pods must follow: Redis says who, ordinals never do.

        A shard whose pods own nothing adopts an owner that is one too many elsewhere, or, when
        there is none, is led by one of its own empty primaries.
        """
        found = {shard: ids[0] for shard, ids in self.owners_by_shard.items()}
        surplus = [node for ids in self.owners_by_shard.values() for node in ids[1:]]
        vacant = [shard for shard in range(self.wanted.shards) if shard not in found]
        for node in list(surplus):
            homes = [s for s in vacant if any(f.pod.shard == s for f in self.replicas_of(node))]
            if homes:
                found[homes[0]] = node
                vacant.remove(homes[0])
                surplus.remove(node)
        for shard in vacant:
            if surplus:
                found[shard] = surplus.pop(0)
                continue
            founder = self._founder(shard)
            if founder is not None:
                found[shard] = founder.id
        return found

    def replicas_of(self, primary: NodeId) -> tuple[Seen, ...]:
        """Seen replicas that say they follow it."""
        return self._replicas.get(primary, ())

    @cached_property
    def _replicas(self) -> dict[NodeId, tuple[Seen, ...]]:
        found: dict[NodeId, list[Seen]] = {}
        for node in self.seen:
            if node.replica_of is not None:
                found.setdefault(node.replica_of, []).append(node)
        return {primary: tuple(nodes) for primary, nodes in found.items()}

    def copies_of(self, primary: NodeId) -> tuple[Seen, ...]:
        """Its seen replicas that hold its data: one that never synced holds nothing."""
        return tuple(node for node in self.replicas_of(primary) if self.is_copy(node))

    def is_copy(self, replica: Seen) -> bool:
        """Whether a replica holds data of the primary that it says it follows.

        A container that restarts keeps its address: the link of an empty replica may lead to the
        empty server, of another id, that is where its primary was. CL-32
        """
        if replica.never_synced:
            return False
        linked = (n for n in self.seen if n.is_primary and n.id != replica.replica_of)
        return bool(replica.keys) or all(n.replication.id != replica.replication.id for n in linked)

    @cached_property
    def possible_owners(self) -> tuple[str, ...]:
        """Pods that may be, or come back as, a slot owner that no seen server is.

        A server without a disk comes back under another id when it owned slots.
        """
        volatile = self.wanted.volatile
        away = [n.pod.name for n in self.strangers if not (volatile and n.dead)]
        return (*away, *self.missing_pods)

    @cached_property
    def possible_holders(self) -> tuple[str, ...]:
        """Why data that no seen server holds may not be lost: who else may hold them.

        What a process held in memory alone ended with it, so only a silent one is waited for.
        """
        volatile = self.wanted.volatile
        away = [n for n in self.unreachable if not (volatile and n.dead)]
        reasons = [f"{n.pod.name} does not respond: {n.pod.waiting or n.error}" for n in away]
        reasons += [f"{pod} does not exist yet" for pod in self.missing_pods]
        reasons += [f"{n.pod.name} is still loading its data" for n in self.seen if n.loading]
        if self.duplicate_ids:
            reasons.append("two pods have one node id")
        return tuple(reasons)

    # What is unfinished

    @cached_property
    def unfinished_moves(self) -> tuple[str, ...]:
        """Reasons why slots are not at rest: nothing disruptive may start. I5"""
        reasons = [
            f"{node.pod.name} has {len(node.open_slots)} open slots"
            for node in self.seen
            if node.is_primary and node.open_slots
        ]
        reasons += [
            f"{node.pod.name} takes part in slot migration {job.id}"
            for node in self.seen
            for job in node.jobs
        ]
        reasons += [
            f"slots move from {self.name_of(move.source)} to {self.name_of(move.target)}"
            for move in self.observed.cluster.moving
        ]
        return tuple(reasons)

    @cached_property
    def unsettled_epochs(self) -> str | None:
        """Why no slot may change hands: two owners share an epoch, or one has not heard of another.

        An old primary that has just come back takes slots as if nothing had happened, and drops
        them with all their keys as soon as it hears that somebody leads in its place.

        The engine parts two owners by giving one of them the next epoch, and with it a claim
        stronger than that of a server that has just got a slot from it: which would then delete
        the slot's keys. Who takes a slot takes the next epoch it knows of, so it must know. I14
        """
        by_epoch: dict[int, Seen] = {}
        for node in self.voters:
            other = by_epoch.setdefault(node.config_epoch, node)
            if other is not node:
                return f"{other.pod.name} and {node.pod.name} share epoch {node.config_epoch}"
        for node in self.seen:
            lost = node.slots - self.owned.get(node.id, NO_SLOTS) if node.is_primary else NO_SLOTS
            if lost:
                return f"{node.pod.name} has not heard yet that slots {lost} have another owner"
        highest = max(by_epoch, default=0)
        for node in self.voters:
            if node.current_epoch < highest:
                return f"{node.pod.name} has not heard of epoch {highest} yet"
        return None

    @cached_property
    def moving_slots(self) -> SlotSet:
        """Slots on their way from one server to another, by this process or by the engine."""
        slots = NO_SLOTS
        for move in self.observed.cluster.moving:
            slots |= move.slots
        for node in self.seen:
            for job in node.jobs:
                slots |= job.slots
        return slots

    @cached_property
    def uncounted(self) -> tuple[Seen, ...]:
        """Primaries whose stray keys were not counted yet though they hold keys."""
        return tuple(
            node
            for node in self.seen
            if node.is_primary and node.keys and not isinstance(node.stranded, Counted)
        )

    @cached_property
    def key_holders(self) -> tuple[str, ...]:
        """Pods of primaries that hold keys. A count asks them all: half a count decides nothing."""
        return tuple(node.pod.name for node in self.seen if node.is_primary and node.keys)

    @cached_property
    def to_count(self) -> tuple[str, ...]:
        """Pods to count stray keys on, when a rule must know; none when all were counted."""
        return self.key_holders if self.uncounted else ()

    # Inside

    def _told(self) -> Iterable[tuple[NodeId, int, SlotSet]]:
        """Of nodes that did not respond: the slots that most of the seen owners say they own."""
        witnesses = [n for n in self.seen if n.is_primary and n.slots] or list(self.seen)
        absent = (
            {peer.id for peer in self.views.distinct if peer.slots}
            - set(self.by_id)
            - self.duplicate_ids
        )
        for node in sorted(absent):
            views = [peer for w in witnesses if (peer := self.view(w, node)) is not None]
            slots = _majority([peer.slots for peer in views], len(witnesses))
            if slots:
                yield node, max(peer.config_epoch for peer in views), slots

    def _housed(self, node: NodeId) -> tuple[int, int, str]:
        """Sort key: owners with more followers in their own shard first, then by ordinal."""
        pod = self.pod_of(node)
        assert pod is not None
        near = sum(1 for f in self.replicas_of(node) if f.pod.shard == pod.shard)
        return (-near, pod.ordinal, node)

    def _founder(self, shard: int) -> Seen | None:
        """The empty primary that shall lead a shard which owns no slots yet."""
        free = [
            node
            for node in self.by_id.values()
            if node.pod.shard == shard
            and node.is_primary
            and not node.slots
            and not node.pod.deleting
        ]
        return min(free, key=lambda n: (-len(self.replicas_of(n.id)), n.pod.ordinal), default=None)


def _majority(views: list[SlotSet], voices: int) -> SlotSet:
    """Slots that more than half of the voices name."""
    if views and len(views) * 2 > voices and all(view == views[0] for view in views):
        return views[0]
    count = Counter(slot for view in views for slot in view)
    return SlotSet(slot for slot, times in count.items() if times * 2 > voices)
