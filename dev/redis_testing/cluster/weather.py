"""How messages fare between simulated servers: at once and whole, or as unkindly as a seed draws.

Servers ping each other a few times in each node timeout, with gossip about a few nodes at a time,
and links break: messages come late, twice, in another order, or not at all. The data of replicas is
behind by up to `lag` seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from random import Random

__all__ = ["Weather", "draw_weather"]


@dataclass(frozen=True)
class Weather:
    """What befalls the messages of the cluster bus and of replication; nothing by default."""

    loss: float = 0.0  # the chance of each message
    late: float = 0.0
    seconds: float = 0.0  # by which it is late at most
    double: float = 0.0
    few: int = 0  # nodes in the gossip of one message beside suspected ones; 0: all
    rare: bool = False  # pings only as often as servers send them
    lag: float = 0.0  # seconds

    @cached_property
    def is_still(self) -> bool:
        """Whether each message arrives once, and at once."""
        return not (self.loss or self.late or self.double)

    def loses(self, random: Random) -> bool:
        """Draw whether a message is lost."""
        return self.loss > 0 and random.random() < self.loss

    def delay(self, random: Random) -> float:
        """Draw by how many seconds a message is late."""
        late = self.late > 0 and random.random() < self.late
        return random.uniform(0.0, self.seconds) if late else 0.0

    def copies(self, random: Random) -> int:
        """Draw how often a message arrives."""
        return 2 if self.double > 0 and random.random() < self.double else 1


def draw_weather(random: Random) -> Weather:
    """Draw weather that real networks have on a bad day."""
    return Weather(
        loss=random.choice([0.0, 0.02, 0.1]),
        late=random.choice([0.0, 0.2]),
        seconds=random.choice([0.2, 0.6]),
        double=random.choice([0.0, 0.1]),
        few=random.choice([0, 3]),
        rare=random.choice([False, True]),
        lag=random.choice([0.0, 0.3, 1.0]),
    )
