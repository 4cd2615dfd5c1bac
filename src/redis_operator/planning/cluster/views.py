"""What servers say of each other: each different thing once, and who says otherwise.

N servers write N lines each, and nearly all of them are the same N lines. Equal lines are one
object (`Peer`s are read once), so what each server says is compared by identity, in sets; only
what differs from what is usual is looked at one by one. Lines that are equal and not the same
object are right as well, and cost more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property

from ..clusters import Peer, PeerFlag
from ..identity import NodeId
from ..observed import Seen

__all__ = ["Views"]

_CANDIDATES = 5


class Views:
    """All views of one moment."""

    def __init__(self, viewers: Sequence[Seen]) -> None:
        self.usual: dict[NodeId, Peer] = {}
        """What is usually said of a node. Whoever says something else is in `unusual`."""
        self.unusual: dict[str, dict[NodeId, Peer | None]] = {}
        """By the uid of the viewer's pod: what it says instead; None where it says nothing."""
        self._note(viewers)

    def of(self, viewer: Seen, node: NodeId) -> Peer | None:
        """What one server says of a node, or None when it does not know it."""
        own = self.unusual[viewer.pod.uid]
        return own[node] if node in own else self.usual.get(node)

    @cached_property
    def distinct(self) -> tuple[Peer, ...]:
        """Each different thing that is said, once, if equal things are one object."""
        found = {id(peer): peer for peer in self.usual.values()}
        for own in self.unusual.values():
            found.update((id(peer), peer) for peer in own.values() if peer is not None)
        return tuple(found.values())

    @cached_property
    def about(self) -> dict[NodeId, tuple[Peer, ...]]:
        """The different things that are said of each node."""
        found: dict[NodeId, list[Peer]] = {}
        for peer in self.distinct:
            found.setdefault(peer.id, []).append(peer)
        return {node: tuple(peers) for node, peers in found.items()}

    @cached_property
    def greetings(self) -> tuple[Peer, ...]:
        """What is said of nodes that somebody is shaking hands with."""
        return tuple(peer for peer in self.distinct if PeerFlag.HANDSHAKE in peer.flags)

    def suspects(self, viewer: Seen, wrong: Collection[NodeId]) -> Iterator[NodeId]:
        """Nodes of which a server says something unusual, or the usual that is `wrong`."""
        own = self.unusual[viewer.pod.uid]
        yield from own
        yield from (node for node in wrong if node not in own)

    def _note(self, viewers: Sequence[Seen]) -> None:
        spoken = [peer for viewer in _typical(viewers) for peer in viewer.peers]
        for peer in spoken:
            self.usual.setdefault(peer.id, peer)
        usual = {id(peer): node for node, peer in self.usual.items()}
        everything = set(usual)
        for viewer in viewers:
            said = set(map(id, viewer.peers))
            own: dict[NodeId, Peer | None] = dict.fromkeys(
                map(usual.__getitem__, everything - said)
            )
            odd = said - everything
            if odd:
                own.update((peer.id, peer) for peer in viewer.peers if id(peer) in odd)
            self.unusual[viewer.pod.uid] = own


def _typical(viewers: Sequence[Seen]) -> list[Seen]:
    """Two servers that say what most others say: the second speaks of the first.

    Only a few are compared. If none of those is typical, all is right and costs more.
    """
    few = viewers[:: max(1, len(viewers) // _CANDIDATES)]
    said = [set(map(id, viewer.peers)) for viewer in few]
    shared = [sum(len(one & two) for two in said) for one in said]
    best = sorted(range(len(few)), key=lambda place: -shared[place])
    return [few[place] for place in best[:2]]
