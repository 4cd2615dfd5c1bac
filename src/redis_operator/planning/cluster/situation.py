"""The wanted and the observed state together: slot owners, leaders of shards, and voters.

Computed once for all rules. Ownership follows the engine's own law: of all servers that claim a
slot, the one with the highest epoch owns it. A server speaks for itself; about a server that does
not respond, only what a majority of the seen slot owners say counts. I2
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
    """A node's effective ownership: its slots without those that a higher epoch has taken."""

    __slots__ = ("epoch", "id", "slots")

    def __init__(self, node: NodeId, epoch: int, slots: SlotSet) -> None:
        self.id = node
        self.epoch = epoch
        self.slots = slots


class Situation(Topology):
    """The state of one database at one moment, with conclusions. Immutable by convention."""

    # Identities

    @cached_property
    def duplicate_ids(self) -> frozenset[NodeId]:
        """Ids that more than one pod says are its own."""
        count = Counter(node.id for node in self.seen)
        return frozenset(node for node, times in count.items() if times > 1)

    @cached_property
    def by_id(self) -> dict[NodeId, Seen]:
        """The servers that responded, by id; servers that share an id are left out."""
        return {node.id: node for node in self.seen if node.id not in self.duplicate_ids}

    @cached_property
    def identities(self) -> dict[NodeId, Unreachable]:
        """Ids of servers that do not respond: as last reported, or as their address is known."""
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
    def unidentified(self) -> tuple[Unreachable, ...]:
        """Pods that do not respond and whose id is not known: each may be any missing node."""
        identified = {node.pod.name for node in self.identities.values()}
        return tuple(node for node in self.unreachable if node.pod.name not in identified)

    @cached_property
    def unseen_pods(self) -> tuple[str, ...]:
        """Names that pods of this database may have and that no observed pod has."""
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
    def sleeping_pods(self) -> tuple[str, ...]:
        """Pods that the spec wants and no StatefulSet has: their volumes may hold the data.

        After a hibernation, or when a person scaled a StatefulSet or deleted it, until the rule
        `pods` could scale it up.
        """
        if self.wanted.volatile:
            return ()
        present = {node.pod.name for node in self.observed.nodes}
        sizes = dict.fromkeys(range(self.wanted.shards), 0)
        for workload in self.observed.workloads:
            if not workload.deleting and (workload.shard in sizes or not workload.pods):
                sizes[workload.shard] = workload.pods
        names = (
            f"{self.wanted.name}-{shard}-{ordinal}"
            for shard, pods in sorted(sizes.items())
            for ordinal in range(pods, self.wanted.pods_per_shard)
        )
        return tuple(name for name in names if name not in present)

    @cached_property
    def missing_shards(self) -> tuple[int, ...]:
        """Wanted shards that have no pod at all."""
        present = {node.pod.shard for node in self.observed.nodes}
        return tuple(shard for shard in range(self.wanted.shards) if shard not in present)

    @cached_property
    def others(self) -> dict[NodeId, tuple[Peer, ...]]:
        """Nodes that servers know and that no pod of this database is known to be, with the views.

        Views of several servers that are equal may be listed once.
        """
        own = set(self.by_id) | self.duplicate_ids | set(self.identities)
        return {node: views for node, views in sorted(self.views.about.items()) if node not in own}

    def pod_of(self, node: NodeId) -> Pod | None:
        """The pod that a node runs in, as far as that is known."""
        holder: Node | None = self.by_id.get(node) or self.identities.get(node)
        return holder.pod if holder is not None else None

    def name_of(self, node: NodeId) -> str:
        """The name of a node in a message: its pod, or the start of its id."""
        pod = self.pod_of(node)
        return pod.name if pod is not None else f"node {node[:8]}"

    def view(self, viewer: Seen, node: NodeId) -> Peer | None:
        """The view that one server has of a node, or None when it does not know it."""
        return self.views.of(viewer, node)

    @cached_property
    def views(self) -> Views:
        """The views that servers have of each other."""
        return Views(self.seen)

    # Ownership

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        """The effective ownership of all nodes that own slots, highest epoch first."""
        seen = [
            (node.config_epoch, node.id, node.slots)
            for node in self.seen
            if node.is_primary and node.slots
        ]
        silent = [(epoch, node, slots) for node, epoch, slots in self._claims_of_silent()]
        taken, found = NO_SLOTS, []
        for epoch, node, slots in sorted(seen + silent, key=lambda c: (-c[0], c[1])):
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
        """Slots that no server claims and no view gives to a server that does not respond."""
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
        """Whether every slot has an owner that responds."""
        owned = NO_SLOTS
        for node, slots in self.owned.items():
            if node in self.by_id:
                owned |= slots
        return owned == ALL_SLOTS

    def owner_of(self, slot: int) -> NodeId | None:
        """The effective owner of a slot."""
        return next((claim.id for claim in self.claims if slot in claim.slots), None)

    # Votes

    @cached_property
    def voters(self) -> tuple[Seen, ...]:
        """Seen primaries that own slots: the only servers whose vote and view count."""
        return tuple(n for n in self.by_id.values() if n.id in self.owned and n.is_primary)

    @property
    def quorum(self) -> int:
        """How many votes a promotion needs."""
        return len(self.claims) // 2 + 1

    @property
    def has_majority(self) -> bool:
        """Whether enough slot owners respond to vote."""
        return len(self.voters) >= self.quorum

    # Leaders

    @cached_property
    def owners_by_shard(self) -> dict[int, tuple[NodeId, ...]]:
        """Slot owners by the shard that their pod belongs to, in the order of `_owner_order`."""
        found: dict[int, list[NodeId]] = {}
        for node in self.owned:
            pod = self.pod_of(node)
            if pod is not None:
                found.setdefault(pod.shard, []).append(node)
        return {
            shard: tuple(sorted(ids, key=self._owner_order)) for shard, ids in sorted(found.items())
        }

    @cached_property
    def leaders(self) -> dict[int, NodeId]:
        """For each shard the primary that its pods must follow: Redis decides, ordinals never do.

        A shard whose pods own nothing adopts a surplus owner of another shard, or, when there is
        none, is led by one of its own empty primaries.
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
            leader = self._empty_leader(shard)
            if leader is not None:
                found[shard] = leader.id
        return found

    def replicas_of(self, primary: NodeId) -> tuple[Seen, ...]:
        """Seen replicas that say they follow this primary."""
        return self._replicas.get(primary, ())

    @cached_property
    def _replicas(self) -> dict[NodeId, tuple[Seen, ...]]:
        found: dict[NodeId, list[Seen]] = {}
        for node in self.seen:
            if node.replica_of is not None:
                found.setdefault(node.replica_of, []).append(node)
        return {primary: tuple(nodes) for primary, nodes in found.items()}

    def copies_of(self, primary: NodeId) -> tuple[Seen, ...]:
        """Its seen replicas that hold its data: a replica that never synced holds none."""
        return tuple(node for node in self.replicas_of(primary) if self.is_copy(node))

    def is_copy(self, replica: Seen) -> bool:
        """Whether a replica holds data of the primary that it says it follows.

        A container that restarts keeps its address: the link of an empty replica may lead to an
        empty server with another id at the address of its primary. CL-32
        """
        if replica.never_synced:
            return False
        linked = (n for n in self.seen if n.is_primary and n.id != replica.replica_of)
        return bool(replica.keys) or all(n.replication.id != replica.replication.id for n in linked)

    @cached_property
    def possible_owners(self) -> tuple[str, ...]:
        """Pods that may be, or come back as, a slot owner that no seen server is.

        A server without a disk that owned slots comes back with another id.
        """
        volatile = self.wanted.volatile
        away = [n.pod.name for n in self.unidentified if not (volatile and n.dead)]
        return (*away, *self.missing_pods, *self.sleeping_pods)

    @cached_property
    def possible_holders(self) -> tuple[str, ...]:
        """Why data that no seen server holds may not be lost: servers that may hold it.

        The data of a process in memory alone ended with it, so only a silent process is waited for.
        """
        volatile = self.wanted.volatile
        away = [n for n in self.unreachable if not (volatile and n.dead)]
        reasons = [f"{n.pod.name} does not respond: {n.pod.waiting or n.error}" for n in away]
        reasons += [f"{pod} does not exist yet" for pod in self.missing_pods]
        reasons += [f"{pod} does not run and has a volume" for pod in self.sleeping_pods]
        reasons += [f"{n.pod.name} is still loading its data" for n in self.seen if n.loading]
        if self.duplicate_ids:
            reasons.append("two pods have one node id")
        return tuple(reasons)

    # Unfinished work

    @cached_property
    def unfinished_moves(self) -> tuple[str, ...]:
        """Reasons why slots are not settled: no disruptive change may start. I5"""
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
        """Why no slot may change owner: two owners share an epoch, or do not know of each other.

        An old primary that has just come back accepts slots as if nothing had happened, and drops
        them with all their keys as soon as it learns that another server leads in its place.

        When two owners have the same epoch, the engine gives one of them the next, and with it a
        claim stronger than that of a server that has just got a slot from it, which would then
        delete the slot's keys. A server that takes a slot takes the next epoch it knows of, so it
        must know it. I14
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
        """Slots in migration from one server to another, by this process or by the engine."""
        slots = NO_SLOTS
        for move in self.observed.cluster.moving:
            slots |= move.slots
        for node in self.seen:
            for job in node.jobs:
                slots |= job.slots
        return slots

    @cached_property
    def uncounted(self) -> tuple[Seen, ...]:
        """Primaries that hold keys and whose stray keys were not counted yet."""
        return tuple(
            node
            for node in self.seen
            if node.is_primary and node.keys and not isinstance(node.stranded, Counted)
        )

    @cached_property
    def key_holders(self) -> tuple[str, ...]:
        """Pods of primaries that hold keys. A count covers all: a partial one decides nothing."""
        return tuple(node.pod.name for node in self.seen if node.is_primary and node.keys)

    @cached_property
    def to_count(self) -> tuple[str, ...]:
        """Pods to count stray keys on, when a rule must know; none when all were counted."""
        return self.key_holders if self.uncounted else ()

    # Private

    def _claims_of_silent(self) -> Iterable[tuple[NodeId, int, SlotSet]]:
        """For nodes that did not respond: the slots that most of the seen owners say they own."""
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

    def _owner_order(self, node: NodeId) -> tuple[int, int, str]:
        """Sort key: owners with more followers in their own shard first, then by ordinal."""
        pod = self.pod_of(node)
        assert pod is not None
        near = sum(1 for f in self.replicas_of(node) if f.pod.shard == pod.shard)
        return (-near, pod.ordinal, node)

    def _empty_leader(self, shard: int) -> Seen | None:
        """The empty primary that must lead a shard which owns no slots yet."""
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
    """Slots that more than half of the views name."""
    if views and len(views) * 2 > voices and all(view == views[0] for view in views):
        return views[0]
    count = Counter(slot for view in views for slot in view)
    return SlotSet(slot for slot, times in count.items() if times * 2 > voices)
