"""The samples of a primary: for the segment that grows, or kept for the next history.

A sample pairs a clock with an offset, whether or not the stream has reached it. So samples are also
taken while no server can be attached to. After a promotion those of the new history are kept until
the archive continues in it.
"""

from __future__ import annotations

from msgspec.structs import replace

from .records import Owned, Sample
from .sampler import Asked
from .sealing import Growing

__all__ = ["Samples"]

_MOST = 20_000
"""So many are kept; beyond that every second one is dropped."""


class Samples:
    """The samples of one shard. `newest`: the primary's clock in the last one that was taken."""

    def __init__(self) -> None:
        self.newest = 0
        self._next = Growing("", 0, parent="", now=0)  # without a byte: of the history to come

    def take(self, asked: Asked, growing: Growing | None) -> bool:
        """Keep a reply; False: it is not of a primary that the archive follows."""
        replication = asked.replication
        if growing is None or not replication.is_primary:
            return False
        if replication.replication_id != growing.replication_id:
            if replication.replication_id2 != growing.replication_id:
                return False
            if self._next.replication_id != replication.replication_id:
                self._next = Growing(replication.replication_id, 0, parent="", now=0)
            growing = self._next
        growing.sample(asked.sample)
        _thin(growing.samples)
        self.newest = asked.sample.server
        owned = asked.owned
        if owned is not None and (not growing.owned or _differs(owned, growing.owned[-1])):
            growing.owned.append(owned)
        return True

    def give(self, growing: Growing) -> None:
        """Give a segment that begins another history what was kept for it."""
        known = self._next
        if known.replication_id == growing.replication_id:
            growing.samples[:0] = [s for s in known.samples if s.offset >= growing.first - 1]
            growing.owned[:0] = [o for o in known.owned if o.offset >= growing.first - 1]
            self._next = Growing("", 0, parent="", now=0)


def _thin(samples: list[Sample]) -> None:
    if len(samples) > _MOST:
        samples[:-1] = samples[:-1:2]


def _differs(one: Owned, other: Owned) -> bool:
    return replace(one, offset=0, server=0) != replace(other, offset=0, server=0)
