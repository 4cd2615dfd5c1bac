"""What servers say of each other is the same, whether it is looked up in their lines or not."""

from __future__ import annotations

from random import Random

import pytest
from msgspec.structs import replace

from planning.large import database
from redis_operator.planning.cluster.views import Views
from redis_operator.planning.clusters import Peer, PeerFlag
from redis_operator.planning.identity import NodeId
from redis_operator.planning.observed import Seen
from redis_operator.redis.slots import SlotSet
from support.situations import whole_database

STRANGER = Peer(id=NodeId("f" * 40), ip="10.9.9.9", role=database(1)[1].seen[0].role)


def altered(random: Random, viewer: Seen) -> Seen:
    """The same server with some lines changed, gone, new, or equal and not the same object."""
    assert viewer.view is not None
    lines: list[Peer] = []
    for peer in viewer.peers:
        match random.randrange(12):
            case 0:
                continue
            case 1:
                lines.append(replace(peer, flags=frozenset({PeerFlag.HANDSHAKE})))
            case 2:
                lines.append(replace(peer, slots=SlotSet.span(0, 9), connected=False))
            case 3:
                lines.append(replace(peer))
            case _:
                lines.append(peer)
    if random.random() < 0.3:
        lines.append(STRANGER)
    random.shuffle(lines)
    return replace(viewer, view=replace(viewer.view, peers=tuple(lines)))


@pytest.mark.parametrize("seed", range(40))
def test_what_is_told_by_difference_is_what_was_said(seed: int) -> None:
    random = Random(seed)
    _, observed = database(random.choice([1, 2, 5]), random.choice([0, 1, 2]))
    share = random.choice([0.0, 0.2, 1.0])
    viewers = [altered(random, v) if random.random() < share else v for v in observed.seen]
    if random.random() < 0.3:
        viewers[0] = replace(viewers[0], view=replace(viewers[0].view, peers=()))  # type: ignore[type-var]
    views = Views(viewers)
    known = {peer.id for viewer in viewers for peer in viewer.peers}
    wrong = {node for node in known if random.random() < 0.1}
    for viewer in viewers:
        said = {peer.id: peer for peer in viewer.peers}
        suspects = set(views.suspects(viewer, wrong))
        for node in known:
            assert views.of(viewer, node) is said.get(node)
            plain = views.usual.get(node) is said.get(node) and node not in wrong
            assert node in suspects or plain
    everything = {peer for viewer in viewers for peer in viewer.peers}
    assert set(views.distinct) == everything
    assert {peer for peers in views.about.values() for peer in peers} == everything
    greetings = {peer for peer in everything if PeerFlag.HANDSHAKE in peer.flags}
    assert set(views.greetings) == greetings


def test_lines_that_are_equal_are_read_into_one_object() -> None:
    seen = whole_database().observe().seen
    views = Views(seen)
    assert len(views.distinct) == len(seen)
    assert all(
        list(own) == [viewer.id] for viewer in seen for own in [views.unusual[viewer.pod.uid]]
    )
