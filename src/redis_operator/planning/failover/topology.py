"""The state of a database in mode Failover, and the answers to the questions of shared rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from functools import cached_property

from ..actions import Action, LabelRole
from ..advice import Plan, PlanPhase
from ..at import At, at
from ..copies import PORT, address, is_linked
from ..identity import Role
from ..observed import Led, Node, Pod, Seen, SentinelNode, SentinelSeen, Unreachable, Workload
from ..one_group import OneGroup
from ..sentinels import Monitored, SentinelView
from .actions import Follow, SwitchOver, Watch
from .divided import divided, finds_again
from .preconditions import begun_election

__all__ = ["OVERDUE_SECONDS", "PORT", "FailoverTopology", "address"]

OVERDUE_SECONDS = 300.0
"""A pod that neither responds nor is gone after so long is not expected to end or start soon."""
_LAG_BYTES = 1024 * 1024


class FailoverTopology(OneGroup):
    """One group of servers, and the sentinels beside it."""

    # Sentinels

    @cached_property
    def watchers(self) -> tuple[SentinelSeen, ...]:
        """The sentinels that responded."""
        return tuple(n for n in self.observed.sentinels if isinstance(n, SentinelSeen))

    @cached_property
    def silent_watchers(self) -> tuple[Unreachable, ...]:
        """Sentinels that do not respond and may be alive."""
        found = (n for n in self.observed.sentinels if isinstance(n, Unreachable))
        return tuple(node for node in found if not node.dead)

    def monitored(self, sentinel: SentinelSeen) -> Monitored | None:
        """The entry that a sentinel monitors under the name of this database."""
        return sentinel.view.named(self.wanted.primary_name)

    def place_named_by(self, sentinel: SentinelSeen) -> str:
        """The address that a sentinel names as the primary; empty: it monitors none."""
        found = self.monitored(sentinel)
        return f"{found.ip}:{found.port}" if found is not None else ""

    @cached_property
    def views(self) -> tuple[SentinelView, ...]:
        """The views of the sentinels that responded."""
        return tuple(node.view for node in self.watchers)

    @cached_property
    def named(self) -> str:
        """The address that a majority of the wanted sentinels names; empty: there is none."""
        named = Counter(filter(None, map(self.place_named_by, self.watchers)))
        for place, count in named.most_common(1):
            return place if 2 * count > self.wanted.sentinels else ""
        return ""

    @property
    def elected(self) -> str:
        """The pod that the sentinels elected themselves, if its server has only restarted since.

        A pod that was recreated may have the address of another one.
        """
        epochs = [found.config_epoch for node in self.watchers if (found := self.monitored(node))]
        node = next((n for n in self.seen if address(n) == self.named), None)
        if node is None or not node.pod.restarts or not max(epochs, default=0):
            return ""
        return node.pod.name

    @cached_property
    def election(self) -> str | None:
        """Why the sentinels may be about to promote a replica themselves, or None."""
        return begun_election(self.wanted.primary_name, self.views)

    @property
    def workloads(self) -> tuple[Workload, ...]:
        """The StatefulSets of servers and of sentinels."""
        found = self.observed.sentinel_workload
        return self.observed.workloads if found is None else (*self.observed.workloads, found)

    # Pods

    @property
    def leaves_mode(self) -> bool:
        """Whether one server without sentinels is wanted: the mode itself has a replica."""
        return self.wanted.replicas == 0

    @property
    def has_copies(self) -> bool:
        """Whether another server has the data too; the last ones leave when all is done."""
        return not self.leaves_mode or len(self.seen) > 1

    def going(self, pod: Pod) -> bool:
        """Whether a pod is being removed; one that only has no place in the spec still serves."""
        found = self.observed.workload(pod.shard)
        return self.leaving(pod) if found is None else pod.ordinal >= found.pods

    # Roles

    @cached_property
    def led(self) -> Led | None:
        """The primary when the status was last written."""
        return next((led for led in self.observed.led if led.group == 0), None)

    @cached_property
    def primaries(self) -> tuple[Seen, ...]:
        """Servers that say they are primaries."""
        return tuple(node for node in self.seen if node.is_primary and not node.loading)

    @cached_property
    def primary(self) -> Seen | None:
        """The server that accepts the writes; None: there is none, or it is not known which.

        Of several, the one that a majority of the sentinels names, else the one that others follow.
        A primary that they do not name does not count while the one that they name may be alive.
        """
        named = next((n for n in self.observed.nodes if address(n) == self.named), None)
        if isinstance(named, Seen) and named in self.primaries:
            return named
        if self.wrongly_demoted is not None:
            return None
        if isinstance(named, Unreachable) and not named.dead:
            return None
        if len(self.primaries) <= 1:
            return next(iter(self.primaries), None)
        followed = [node for node in self.primaries if self.followers(node)]
        return followed[0] if len(followed) == 1 else None

    @cached_property
    def wrongly_demoted(self) -> Seen | None:
        """The server that led, demoted while another one was promoted with less data.

        It is the very process that the status recorded and the sentinels name, it follows none of
        the primaries, and it accepted writes after the last one that any of them has from it.
        """
        recorded = dict(self.observed.recorded).get(0, "")
        node = next((n for n in self.seen if address(n) == self.named and n.id == recorded), None)
        if node is None or node.is_primary or not self.primaries:
            return None
        places = {address(primary) for primary in self.primaries}
        link = node.replication
        ahead = all(
            link.id == primary.replication.id2 and link.offset > primary.replication.id2_offset
            for primary in self.primaries
        )
        return node if ahead and link.follows not in places and not node.loading else None

    def leader(self, group: int) -> Seen | None:
        """The primary, if it responds."""
        return self.primary if group == 0 else None

    def upstream(self, group: int) -> Seen | None:
        """The primary; in a copy of an external server, the server that follows it."""
        return next(iter(self.heads), None) if self.is_copy else self.leader(group)

    def followers(self, leader: Seen) -> tuple[Seen, ...]:
        """Its replicas that responded."""
        return tuple(n for n in self.seen if n.replication.follows == address(leader))

    def role_of(self, node: Seen) -> Role | None:
        """Only the one primary is labelled primary, whatever others say of themselves. K-18"""
        if self.is_copy:
            return self.role_of_copy(node)
        if self.primary is not None and node.id == self.primary.id:
            return Role.PRIMARY
        if self.primary is None and (node.is_primary or not self.observed.formed):
            return None
        return Role.REPLICA

    def role_of_unreachable(self, node: Unreachable) -> Role | None:
        """Not primary any more once another one leads: it may be alive and accept writes. SE-11"""
        was_primary = node.pod.role_label == Role.PRIMARY.value
        return Role.REPLICA if was_primary and self.primary is not None else None

    def holds_data(self, node: Seen) -> bool:
        """Whether clients are served from its data, or may be."""
        if self.primary is None:
            return node.keys > 0
        return node.id == self.primary.id

    def claims_data(self, node: Seen) -> bool:
        """Whether it says itself that it accepts writes."""
        return node.is_primary

    def is_missed(self, node: Unreachable) -> bool:
        """Whether it was the primary."""
        return node.pod.role_label == Role.PRIMARY.value

    def does_its_part(self, node: Seen) -> bool:
        """Whether it is the primary, or follows it with its link up."""
        if node.loading or self.is_copy:
            return is_linked(node)
        if self.primary is not None and node.id == self.primary.id:
            return True
        return self.out_of_sync(node) is None

    def unsynced(self, replica: Seen, primary: Seen) -> str | None:
        """Why a replica could not replace the primary without a loss, or None."""
        reason = self.out_of_sync(replica)
        if reason:
            return reason
        if replica.loading or replica.pod.deleting:
            return f"{replica.pod.name} is loading or being deleted"
        lag = primary.replication.offset - replica.replication.offset
        if lag > _LAG_BYTES:
            return f"{replica.pod.name} is {lag} bytes behind {primary.pod.name}"
        return None

    def out_of_sync(self, node: Seen) -> str | None:
        """Why a replica does not have all data of the primary, or None."""
        primary, name = self.primary, node.pod.name
        if primary is None:
            return "no server is the primary"
        if node.is_primary:
            return f"{name} is not a replica yet"
        if node.replication.follows != address(primary):
            return f"{name} does not follow {primary.pod.name} yet"
        if not node.replication.link_up or node.replication.syncing:
            return f"{name} is not in sync with {primary.pod.name} yet"
        return None

    # State

    def unsettled(self) -> str | None:
        """Why no planned change may start now, or None."""
        return self.group_unsettled(0) or self.unfinished

    @property
    def unfinished(self) -> str | None:
        """Name sentinels that are not settled: servers and sentinels restart in turn. I8"""
        return self.sentinels_unsettled() or divided(self) or self._unheard

    @property
    def _unheard(self) -> str | None:
        for watcher in self.watchers:
            for node in self.unheard_by(watcher):
                return f"{watcher.pod.name} has not heard of {node.pod.name} yet"
        return None

    @property
    def is_whole_in_a_moment(self) -> bool:
        """Whether only sentinels that were reset and rediscover the others are unsettled."""
        return finds_again(self)

    def group_unsettled(self, group: int) -> str | None:
        """Why the servers are not all in place and in sync, or None."""
        found = (self._node_unsettled(node) for node in self.pods_of(group))
        return self.absent or next(filter(None, found), None)

    def _node_unsettled(self, node: Node) -> str | None:
        name = node.pod.name
        if self.leaving(node.pod) and node is not self.primary:
            return None  # no change depends on it: it may be removed in whatever state it is
        if isinstance(node, Unreachable):
            return self._silence(node)
        if node.pod.deleting:
            return f"{name} is being deleted"
        if node.loading:
            return f"{name} is still loading its data"
        if self.primary is None:
            return "no server is the primary"
        if node.id != self.primary.id:
            reason = self.out_of_sync(node)
            if reason:
                return reason
        return None if node.pod.ready else f"{name} is not ready"

    def _silence(self, node: Unreachable) -> str:
        """What is known of a pod that does not respond; what to do if it never ends."""
        if node.pod.deleting and self._is_overdue(node):
            return (
                f"{node.pod.name} has been terminating for more than {OVERDUE_SECONDS:.0f} s and "
                "it is not known whether it still runs: if its node is off, taint the node with "
                "node.kubernetes.io/out-of-service, or delete the pod with --force"
            )
        return f"{node.pod.name} does not respond: {node.pod.waiting or node.error}"

    def _is_overdue(self, node: Unreachable) -> bool:
        return self.now - max(node.since, node.pod.since) > OVERDUE_SECONDS

    @property
    def recreated_server(self) -> str | None:
        """Which server ends, starts or copies the data, so that no sentinel may end too. I8

        One that has neither responded nor disappeared for minutes is not waited for, nor one that
        Kubernetes refuses to create: these are problems of their own (`overdue_servers`).
        """
        if self.absent and not self._refused:
            return self.absent
        nodes = (
            node
            for node in self.pods_of(0)
            if not (isinstance(node, Unreachable) and self._is_overdue(node))
        )
        return next(filter(None, map(self._node_unsettled, nodes)), None)

    @property
    def overdue_servers(self) -> tuple[str, ...]:
        """The servers that sentinels do not wait for, each with the reason."""
        found = [self.absent] if self.absent and self._refused else []
        for node in self.unreachable:
            if self.leaving(node.pod) or not self._is_overdue(node):
                continue
            late = f"{node.pod.name} has not responded for more than {OVERDUE_SECONDS:.0f} s"
            found.append(self._silence(node) if node.pod.deleting else late)
        return tuple(f"sentinels do not wait for a server: {reason}" for reason in found)

    @property
    def _refused(self) -> bool:
        """Whether Kubernetes refuses to create the missing servers."""
        return any(workload.trouble for workload in self.observed.workloads)

    def sentinels_unsettled(self) -> str | None:
        """Why the sentinels do not all monitor the primary and know each other, or None. SE-14"""
        return self.others_unsettled(())

    def others_unsettled(self, left_out: Collection[SentinelNode]) -> str | None:
        """The same for all sentinels except some."""
        wanted = self.wanted.sentinels
        for node in self.observed.sentinels:
            if node in left_out:
                continue
            if isinstance(node, Unreachable):
                return self._silence(node)
            if node.pod.deleting:
                return f"{node.pod.name} is being deleted"
        if len(self.watchers) < wanted:
            return f"{len(self.watchers)} of {wanted} sentinels exist"
        others = [node for node in self.watchers if node not in left_out]
        return next(filter(None, map(self.watcher_unsettled, others)), None)

    def watcher_unsettled(self, node: SentinelSeen) -> str | None:
        """Why a sentinel could not take part in a failover, or None."""
        name, found = node.pod.name, self.monitored(node)
        if node.view.tilt:
            return (
                f"{name} is in TILT mode: its clock jumped or it stood still; until it trusts its "
                "clock again, for 30 s, it takes part in no failover"
            )
        if self.primary is None or found is None:
            return f"{name} monitors no primary yet"
        if found.in_the_past:
            return f"{name} is inactive since its clock was set back"
        if f"{found.ip}:{found.port}" != address(self.primary):
            return f"{name} does not name {self.primary.pod.name} as the primary"
        if found.failing_over:
            return f"{name} is failing over"
        if not found.up:
            return f"{name} has no connection to {self.primary.pod.name}"
        if len(found.sentinels) < len(self.watchers) - 1 - self._with_clock_set_back(node):
            return f"{name} has not heard of all other sentinels yet"
        return None

    def _with_clock_set_back(self, listener: SentinelSeen) -> int:
        """How many others announce nothing, because their clocks were set back."""
        views = (self.monitored(node) for node in self.watchers if node is not listener)
        return sum(1 for found in views if found is not None and found.in_the_past)

    def unheard_by(self, watcher: SentinelSeen) -> list[Seen]:
        """Replicas in sync that a sentinel could not promote, since it does not know them yet.

        It asks the primary for its replicas every ten seconds.
        """
        found = self.monitored(watcher)
        known = {f"{r.ip}:{r.port}" for r in found.replicas} if found is not None else set()
        synced = (node for node in self.seen if self.out_of_sync(node) is None)
        return [node for node in synced if address(node) not in known]

    @property
    def unserved(self) -> str:
        """Why writes are not accepted."""
        if self.primary is not None:
            return ""
        if self.copy is not None:
            return self.copy.message
        if len(self.primaries) > 1:
            names = ", ".join(node.pod.name for node in self.primaries)
            return f"{names} are all primaries, and it is not known which one of them is right"
        return "no primary accepts writes"

    @property
    def leaders_answer(self) -> bool:
        """Whether there is a primary that responds."""
        return self.primary is not None

    # Handing over

    def hand_over(
        self, leader: Seen, *, rule: str, why: str, phase: PlanPhase, among: list[Seen]
    ) -> Plan:
        """Switch over to the best of some replicas without a loss; or say why not now. I6, SE-01

        Every sentinel must respond and have no election: one that still named the old primary would
        make the others accept it again.
        """
        reason = self.sentinels_unsettled() or self.election
        if reason:
            return _blocked(rule, why, reason, phase)
        able = [node for node in among if self.unsynced(node, leader) is None]
        if not able:
            reasons = [r for node in among if (r := self.unsynced(node, leader))]
            return _blocked(rule, why, next(iter(reasons), "no replica can take over"), phase)
        chosen = max(able, key=lambda n: (not n.pod.draining, n.replication.offset, -n.pod.ordinal))
        step = SwitchOver(
            node=at(chosen),
            primary=at(leader),
            name=self.wanted.primary_name,
            sentinels=tuple(at(node) for node in self.watchers),
        )
        others = [node for node in self.followers(leader) if node.id != chosen.id]
        message = f"{why}; {chosen.pod.name} takes over from {leader.pod.name}"
        after = (LabelRole(leader.pod.name, leader.pod.uid, Role.REPLICA),)
        stages = ((step,), (*after, *self.after_promotion(chosen, others)))
        return Plan(rule=rule, why=message, stages=stages, phase=phase)

    def after_promotion(self, chosen: Seen, others: list[Seen]) -> tuple[Action, ...]:
        """The steps right after a promotion: its label, the sentinels, and its replicas."""
        return (
            LabelRole(chosen.pod.name, chosen.pod.uid, Role.PRIMARY),
            *(self.watch_step(node, chosen) for node in self.watchers),
            *(self.follow_step(node, chosen) for node in others),
        )

    def follow_step(self, node: Seen, primary: Seen) -> Follow:
        """Make one server follow; if it is a primary, unless the sentinels elect it."""
        asked = self.watchers if node.is_primary else ()
        return Follow(
            node=at(node),
            primary=at(primary),
            follows=node.replication.follows,
            sentinels=tuple(at(watcher) for watcher in asked),
            name=self.wanted.primary_name,
            needed=self.wanted.sentinels // 2 + 1 if asked else 0,
        )

    def watch_step(self, node: SentinelSeen, primary: Seen, *, afresh: bool = False) -> Watch:
        """Have one sentinel monitor the primary."""
        wanted = self.wanted
        return Watch(
            node=at(node),
            name=wanted.primary_name,
            primary=at(primary),
            quorum=wanted.quorum,
            settings=wanted.sentinel_settings,
            others=self.others_than(node),
            afresh=afresh,
            named=self.place_named_by(node),
        )

    def others_than(self, node: SentinelSeen) -> tuple[At, ...]:
        """The other sentinels that responded, to introduce them to one."""
        return tuple(at(other) for other in self.watchers if other is not node)


def _blocked(rule: str, why: str, reason: str, phase: PlanPhase) -> Plan:
    return Plan(rule=rule, blocked=(f"{why}; {reason}",), phase=phase, again_after=0.5)
