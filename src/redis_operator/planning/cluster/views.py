"""The views that servers have of each other: each different view once, and the exceptions.

N servers write N lines each, and nearly all of them are the same N lines. Equal lines are one
object (`Peer`s are interned when read), so the views of a server are compared by identity, in
sets; only views that differ from the usual ones are compared one by one. Lines that are equal and
not the same object are handled correctly as well, and cost more.
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
        """The usual view of a node. Servers with another view are in `unusual`."""
        self.unusual: dict[str, dict[NodeId, Peer | None]] = {}
        """By the uid of the viewer's pod: its own view instead; None where it has none."""
        self._note(viewers)

    def of(self, viewer: Seen, node: NodeId) -> Peer | None:
        """The view that one server has of a node, or None when it does not know it."""
        own = self.unusual[viewer.pod.uid]
        return own[node] if node in own else self.usual.get(node)

    @cached_property
    def distinct(self) -> tuple[Peer, ...]:
        """Each different view once, if equal views are one object."""
        found = {id(peer): peer for peer in self.usual.values()}
        for own in self.unusual.values():
            found.update((id(peer), peer) for peer in own.values() if peer is not None)
        return tuple(found.values())

    @cached_property
    def about(self) -> dict[NodeId, tuple[Peer, ...]]:
        """The different views of each node."""
        found: dict[NodeId, list[Peer]] = {}
        for peer in self.distinct:
            found.setdefault(peer.id, []).append(peer)
        return {node: tuple(peers) for node, peers in found.items()}

    @cached_property
    def greetings(self) -> tuple[Peer, ...]:
        """Views of nodes with which a server has a handshake in progress."""
        return tuple(peer for peer in self.distinct if PeerFlag.HANDSHAKE in peer.flags)

    def suspects(self, viewer: Seen, wrong: Collection[NodeId]) -> Iterator[NodeId]:
        """Nodes for which a server has an unusual view, or the usual view that is `wrong`."""
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
            listed = set(map(id, viewer.peers))
            own: dict[NodeId, Peer | None] = dict.fromkeys(
                map(usual.__getitem__, everything - listed)
            )
            odd = listed - everything
            if odd:
                own.update((peer.id, peer) for peer in viewer.peers if id(peer) in odd)
            self.unusual[viewer.pod.uid] = own


def _typical(viewers: Sequence[Seen]) -> list[Seen]:
    """Two servers that have the most common views: the second provides the view of the first.

    Only a few servers are compared. If none of those is typical, the result is correct and costs
    more.
    """
    few = viewers[:: max(1, len(viewers) // _CANDIDATES)]
    listed = [set(map(id, viewer.peers)) for viewer in few]
    shared = [sum(len(one & two) for two in listed) for one in listed]
    best = sorted(range(len(few)), key=lambda place: -shared[place])
    return [few[place] for place in best[:2]]
