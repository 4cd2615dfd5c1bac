"""What the rules do in single situations that no other test told from their opposite.

Each was found by a small change of the program that all other tests passed (`make mutants`).
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from planning.moments import knowing
from redis_operator.planning.actions import LabelRole
from redis_operator.planning.cluster.actions import Forget, Meet, ResetEmptyNode
from redis_operator.planning.cluster.connect import connect
from redis_operator.planning.cluster.duplicate_ids import duplicate_ids
from redis_operator.planning.cluster.election import ranked
from redis_operator.planning.cluster.leave import leave
from redis_operator.planning.cluster.rescue import rescue
from redis_operator.planning.cluster.settle import settle
from redis_operator.planning.cluster.topology import ClusterTopology
from redis_operator.planning.clusters import Counted, Moving, OpenSlot, PeerFlag, SlotState
from redis_operator.planning.common.label import label
from redis_operator.planning.identity import Role
from redis_operator.planning.observed import Observed, Seen
from redis_operator.redis.slots import NO_SLOTS, SlotSet
from support.situations import WANTED, but, whole_database

NOW = 1_000_000.0


def healthy() -> Observed:
    return whole_database().observe()


def changed(observed: Observed, name: str, change: Callable[[Seen], Seen]) -> Observed:
    nodes = tuple(change(n) if n.pod.name == name else n for n in observed.nodes)  # type: ignore[arg-type]
    return replace(observed, nodes=nodes)


def situation(observed: Observed) -> ClusterTopology:
    return ClusterTopology(WANTED, observed, NOW)


def primary_of(observed: Observed, shard: int) -> Seen:
    return next(n for n in observed.seen if n.pod.shard == shard and n.slots)


def replica_of(observed: Observed, shard: int) -> Seen:
    return next(n for n in observed.seen if n.pod.shard == shard and not n.is_primary)


# Labels


@pytest.mark.parametrize("worn", ["", "replica", "primary"])
@pytest.mark.parametrize("deleting", [False, True])
def test_a_pod_gets_the_label_of_its_role_unless_it_has_it_or_goes(
    worn: str, *, deleting: bool
) -> None:
    observed = healthy()
    for node, role in (
        (primary_of(observed, 0), Role.PRIMARY),
        (replica_of(observed, 0), Role.REPLICA),
    ):
        found = changed(
            observed,
            node.pod.name,
            lambda n: replace(n, pod=replace(n.pod, role_label=worn, deleting=deleting)),
        )
        steps = [s for s in label(situation(found)) if getattr(s, "pod", "") == node.pod.name]
        wanted = [LabelRole(pod=node.pod.name, uid=node.pod.uid, role=role)]
        assert steps == ([] if deleting or worn == role.value else wanted)


@pytest.mark.parametrize("worn", ["", "primary"])
def test_an_empty_primary_keeps_having_no_label_and_is_not_called_primary(worn: str) -> None:
    observed = healthy()
    replica = replica_of(observed, 0)
    found = changed(
        observed,
        replica.pod.name,
        lambda n: but(
            n,
            role=Role.PRIMARY,
            replica_of=None,
            slots=NO_SLOTS,
            pod=replace(n.pod, role_label=worn),
        ),
    )
    steps = [s for s in label(situation(found)) if getattr(s, "pod", "") == replica.pod.name]
    expected = LabelRole(pod=replica.pod.name, uid=replica.pod.uid, role=Role.REPLICA)
    assert steps == ([expected] if worn else [])


# Names


def test_names_of_pods_that_a_larger_workload_still_has_may_come_back() -> None:
    observed = healthy()
    workloads = tuple(replace(w, pods=4) if w.shard == 1 else w for w in observed.workloads)
    found = situation(replace(observed, workloads=workloads)).unseen_pods
    assert found == ("db-1-2", "db-1-3")
    fewer = tuple(replace(w, pods=1) for w in observed.workloads)
    assert situation(replace(observed, workloads=fewer)).unseen_pods == ()


# Introductions


@pytest.mark.parametrize(
    ("flags", "meets"),
    [
        pytest.param(frozenset({PeerFlag.NOADDR}), True, id="its address is not known"),
        pytest.param(frozenset({PeerFlag.FAIL}), False, id="its link is down: the engine's task"),
        pytest.param(frozenset(), False, id="all is well"),
    ],
)
def test_a_server_is_introduced_again_when_its_address_is_not_known(
    flags: frozenset[PeerFlag], *, meets: bool
) -> None:
    observed = healthy()
    one, two = primary_of(observed, 0), primary_of(observed, 1)
    found = changed(
        observed,
        one.pod.name,
        lambda n: but(
            n, peers=tuple(replace(p, flags=flags) if p.id == two.id else p for p in n.peers)
        ),
    )
    advice = connect(situation(found))
    if not meets:
        assert advice is None or not advice.steps
        return
    assert advice is not None
    assert [(s.node.id, s.peer.id) for s in advice.steps if isinstance(s, Meet)] == [
        (one.id, two.id)
    ]
    assert advice.urgent


@pytest.mark.parametrize(
    ("strangers", "introductions"),
    [
        pytest.param((0,), [(0, 1)], id="the first does not know the second"),
        pytest.param((1,), [(1, 0)], id="the second does not know the first"),
        pytest.param((0, 1), [(0, 1)], id="neither knows the other: one introduction is enough"),
    ],
)
def test_servers_are_introduced_by_the_one_that_does_not_know_the_other(
    strangers: tuple[int, ...], introductions: list[tuple[int, int]]
) -> None:
    found = observed = healthy()
    pair = [primary_of(observed, 0), primary_of(observed, 1)]
    for number in strangers:
        other = pair[1 - number].id
        found = changed(
            found,
            pair[number].pod.name,
            lambda n, other=other: but(n, peers=tuple(p for p in n.peers if p.id != other)),  # type: ignore[misc]
        )
    advice = connect(situation(found))
    assert advice is not None
    meets = [(s.node.id, s.peer.id) for s in advice.steps if isinstance(s, Meet)]
    assert meets == [(pair[one].id, pair[two].id) for one, two in introductions]


# Stray keys and open slots


def test_keys_of_slots_that_move_are_left_where_they_are_until_the_move_has_ended() -> None:
    observed = healthy()
    holder, owner, third = (primary_of(observed, shard) for shard in range(3))
    slot = next(iter(owner.slots))
    strays = changed(observed, holder.pod.name, lambda n: but(n, stranded=Counted(((slot, 5),))))
    assert rescue(situation(strays)) is not None
    for source, target in ((owner, holder), (holder, owner), (owner, third)):
        move = Moving(source.id, target.id, SlotSet([slot]))
        assert rescue(situation(knowing(strays, moving=(move,)))) is None
        elsewhere = Moving(source.id, target.id, SlotSet([slot + 1]))
        assert rescue(situation(knowing(strays, moving=(elsewhere,)))) is not None


def test_an_importing_flag_for_a_slot_that_the_server_owns_is_closed() -> None:
    observed = healthy()
    node, other = primary_of(observed, 0), primary_of(observed, 1)
    slot = next(iter(node.slots))
    flag = OpenSlot(slot=slot, state=SlotState.IMPORTING, peer=other.id)
    found = changed(observed, node.pod.name, lambda n: but(n, open_slots=(flag,)))
    advice = settle(situation(found))
    assert advice is not None
    assert [type(step).__name__ for step in advice.steps] == ["CloseSlots"]


# Leaving


def test_servers_that_leave_are_forgotten_by_those_who_know_them_alone() -> None:
    database = whole_database(replace(WANTED, shards=4))
    observed = database.observe()
    gone = [n for n in observed.seen if n.pod.shard == 3]
    nodes = []
    for node in observed.seen:
        if node.pod.shard == 3:
            nodes.append(but(node, slots=NO_SLOTS, keys=0, stranded=Counted()))
        elif node.pod.name == "db-0-0":
            ids = {n.id for n in gone}
            nodes.append(but(node, peers=tuple(p for p in node.peers if p.id not in ids)))
        else:
            nodes.append(node)
    advice = leave(situation(replace(observed, nodes=tuple(nodes))))
    assert advice is not None
    forgetting = {s.node.pod for s in advice.steps if isinstance(s, Forget)}
    assert forgetting == {"db-0-1", "db-1-0", "db-1-1", "db-2-0", "db-2-1"}


# Two servers with one id


def _duplicates(observed: Observed) -> tuple[Observed, Seen, Seen]:
    """Two empty replicas that say they are the same node."""
    one, two = replica_of(observed, 0), replica_of(observed, 1)
    found = changed(
        observed,
        two.pod.name,
        lambda n: replace(n, id=one.id, replica_of=one.replica_of, keys=0),
    )
    found = changed(found, one.pod.name, lambda n: replace(n, keys=0))
    pair = [node for node in found.seen if node.id == one.id]
    return found, pair[0], pair[1]


def test_a_server_that_shares_its_id_is_never_a_candidate() -> None:
    observed = healthy()
    primary = primary_of(observed, 0)
    assert ranked(situation(observed), primary.id)
    found, _, _ = _duplicates(observed)
    assert ranked(situation(found), primary.id) == ()


@pytest.mark.parametrize(
    ("seen_at", "goes"),
    [
        pytest.param(0, 1, id="peers see the first: the second goes"),
        pytest.param(1, 0, id="peers see the second: the first goes"),
        pytest.param(None, 1, id="peers see neither: the later one goes"),
    ],
)
def test_of_two_empty_servers_with_one_id_the_one_goes_that_peers_do_not_see(
    seen_at: int | None, goes: int
) -> None:
    found, *pair = _duplicates(healthy())
    ip = pair[seen_at].pod.ip if seen_at is not None else "10.255.255.1"
    stranger = primary_of(found, 2).pod.name

    def view(node: Seen) -> Seen:
        if node.pod.name == stranger:
            return but(node, peers=tuple(p for p in node.peers if p.id != pair[0].id))
        peers = tuple(replace(p, ip=ip) if p.id == pair[0].id else p for p in node.peers)
        return but(node, peers=peers)

    found = replace(found, nodes=tuple(view(node) for node in found.seen))
    advice = duplicate_ids(situation(found))
    assert advice is not None
    reset = [step.node.pod for step in advice.steps if isinstance(step, ResetEmptyNode)]
    assert reset == [pair[goes].pod.name]
