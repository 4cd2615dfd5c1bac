"""What modes without slots share: all servers are one group, which serves all or nothing."""

from __future__ import annotations

from ..redis.slots import SlotSet
from .topology import Topology

__all__ = ["OneGroup"]


class OneGroup(Topology):
    """A database whose servers all hold the same data."""

    def group_name(self, group: int) -> str:
        """What the status calls the one group."""
        return f"server-{group}"

    @property
    def lasting_groups(self) -> frozenset[int]:
        """The one group: what the status says of it tells whose data are the database's."""
        return frozenset(self.groups())

    def serves(self, slots: SlotSet) -> bool:
        """Whether clients are served; there are no slots to ask about."""
        del slots
        return not self.unserved

    @property
    def absent(self) -> str | None:
        """Which pod does not exist yet, and why if it is known; None: all do."""
        if not self.missing_pods and self.observed.nodes:
            return None
        trouble = next((f": {w.trouble}" for w in self.observed.workloads if w.trouble), "")
        if self.missing_pods:
            return f"{self.missing_pods[0]} does not exist yet{trouble}"
        return f"{self.wanted.name} has no pod yet{trouble}"
