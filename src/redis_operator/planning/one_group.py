"""What modes without slots share: all servers are one group, which serves all data or none."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property

from ..redis.slots import SlotSet
from .actions import Action
from .copies import Copy, address, copy_of, is_linked
from .identity import Role
from .observed import Seen
from .topology import Topology

__all__ = ["OneGroup"]


class OneGroup(Topology):
    """A database whose servers all hold the same data."""

    def group_name(self, group: int) -> str:
        """The name of the one group in the status."""
        return f"server-{group}"

    @property
    def lasting_groups(self) -> frozenset[int]:
        """The one group: its status records whose data is the database's."""
        return frozenset(self.groups())

    def serves(self, slots: SlotSet) -> bool:
        """Whether clients are served; there are no slots to ask about."""
        del slots
        return not self.unserved

    @property
    def absent(self) -> str | None:
        """Which pod does not exist yet, and why if it is known; None: all exist."""
        if not self.missing_pods and self.observed.nodes:
            return None
        trouble = next((f": {w.trouble}" for w in self.observed.workloads if w.trouble), "")
        if self.missing_pods:
            return f"{self.missing_pods[0]} does not exist yet{trouble}"
        return f"{self.wanted.name} has no pod yet{trouble}"

    # A copy of an external server

    @property
    def source(self) -> str:
        """The external server that is followed, or was until it was removed from the spec."""
        wanted = self.wanted.source
        return wanted.place if wanted is not None else self.observed.copied

    @cached_property
    def is_copy(self) -> bool:
        """Whether the database has only data of an external server so far, and none of its own.

        A server that accepts writes has data of its own, whoever promoted it.
        """
        if self.wanted.filling is not None:
            return False  # it is restored key by key; servers that it followed before held nothing
        leads = any(node.is_primary and not node.loading for node in self.seen)
        return bool(self.source) and not self.observed.formed and not leads

    @cached_property
    def heads(self) -> tuple[Seen, ...]:
        """Servers that follow the source, also a previous source; the best one first."""
        places = {self.source, self.observed.copied} - {""}
        found = [node for node in self.seen if node.replication.follows in places]
        return tuple(
            sorted(
                found,
                key=lambda n: (
                    n.pod.deleting or n.pod.draining,
                    not is_linked(n),
                    -len(self.copiers(n)),
                    -n.replication.offset,
                    n.pod.ordinal,
                ),
            )
        )

    def copiers(self, head: Seen) -> tuple[Seen, ...]:
        """Servers that follow this server of the database."""
        return tuple(n for n in self.seen if n.replication.follows == address(head))

    @cached_property
    def copy(self) -> Copy | None:
        """The progress of the copy of an external server; None: this is not a copy."""
        if not self.is_copy:
            return None
        head = next(iter(self.heads), None)
        others = tuple(n for n in self.seen if head is not None and n.id != head.id)
        return copy_of(
            self.observed,
            place=self.source,
            head=head,
            followers=others,
            missing=self.missing_pods,
            promoting=self.wanted.source is None,
            backup=self.wanted.source.backup if self.wanted.source is not None else "",
        )

    @abstractmethod
    def after_promotion(self, chosen: Seen, others: list[Seen]) -> tuple[Action, ...]:
        """The steps right after a promotion."""

    def role_of_copy(self, node: Seen) -> Role | None:
        """Every server of a copy is a replica: clients may read from it."""
        return Role.REPLICA if is_linked(node) or node.pod.role_label else None
