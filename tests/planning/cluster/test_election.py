"""Who may be promoted, and the reason when nobody may."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from planning.cluster.test_rules_heal import WANTED, whole_database
from planning.moments import knowing
from redis_operator.planning.cluster.election import LAG_BYTES, best, limitation, ranked, unsynced
from redis_operator.planning.cluster.topology import ClusterTopology
from redis_operator.planning.identity import NodeId, Role
from redis_operator.planning.observed import Election, Evidence, Observed, Seen, Unreachable
from redis_operator.redis.slots import NO_SLOTS
from support.situations import but


def observed() -> tuple[Observed, float]:
    database = whole_database(replace(WANTED, replicas=2))
    return database.observe(), database.world.now


def changed(seen: Observed, name: str, /, **fields: object) -> Observed:
    nodes = []
    for found in seen.nodes:
        change = but if isinstance(found, Seen) else replace
        nodes.append(change(found, **fields) if found.pod.name == name else found)  # type: ignore[arg-type]
    return replace(seen, nodes=tuple(nodes))


def node(seen: Observed, pod: str) -> Seen:
    return next(n for n in seen.seen if n.pod.name == pod)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"loading": True}, "db-0-1 is still loading its data"),
        ({"replication": "syncing"}, "db-0-1 is in the middle of a full sync"),
        ({"pod": "deleting"}, "db-0-1 is being deleted"),
    ],
)
def test_a_candidate_is_turned_down_with_a_reason(fields: dict[str, object], reason: str) -> None:
    seen, now = observed()
    candidate = node(seen, "db-0-1")
    if fields.get("replication") == "syncing":
        fields = {"replication": replace(candidate.replication, syncing=True)}
    if fields.get("pod") == "deleting":
        fields = {"pod": replace(candidate.pod, deleting=True)}
    seen = changed(seen, "db-0-1", **fields)
    situation = ClusterTopology(WANTED, seen, now)
    primary = node(seen, "db-0-0").id
    assert limitation(situation, node(seen, "db-0-1"), primary) == reason


def test_a_candidate_needs_links_with_a_majority_of_the_voters() -> None:
    seen, now = observed()
    candidate = node(seen, "db-0-1").id
    for pod in ("db-0-0", "db-1-0", "db-2-0"):
        voter = node(seen, pod)
        peers = tuple(replace(p, connected=False) if p.id == candidate else p for p in voter.peers)
        seen = changed(seen, pod, peers=peers)
    situation = ClusterTopology(WANTED, seen, now)
    reason = limitation(situation, node(seen, "db-0-1"), node(seen, "db-0-0").id)
    assert reason is not None
    assert "db-0-1 is not linked with db-0-0, db-1-0, db-2-0" in reason


def test_a_candidate_must_be_known_as_a_replica_to_a_majority_of_the_voters() -> None:
    """They would refuse it, and the engine would not ask again for four node timeouts."""
    seen, now = observed()
    candidate, primary = node(seen, "db-0-1").id, node(seen, "db-0-0").id
    for pod, reason in (("db-1-0", None), ("db-2-0", "db-1-0, db-2-0 have not heard yet")):
        peers = tuple(
            replace(p, replica_of=None) if p.id == candidate else p for p in node(seen, pod).peers
        )
        seen = changed(seen, pod, peers=peers)
        found = limitation(ClusterTopology(WANTED, seen, now), node(seen, "db-0-1"), primary)
        assert (found is None) if reason is None else reason in str(found)


@pytest.mark.parametrize(
    ("engine", "age", "over", "waits"),
    [
        ("redis", 7.0, False, True),
        ("redis", 8.5, False, False),
        ("valkey", 1.0, False, False),
        ("valkey", 3.0, True, True),
        ("valkey", 4.5, True, False),
    ],
)
def test_elections_keep_their_distance(engine: str, age: float, over: bool, waits: bool) -> None:
    seen, now = observed()
    primary = node(seen, "db-0-0").id
    seen = changed(seen, "db-0-1", engine=engine)
    candidate = node(seen, "db-0-1")
    last = (
        Election(node=NodeId("other"), at=now - age, over=primary)
        if over
        else Election(node=candidate.id, at=now - age)
    )
    situation = ClusterTopology(WANTED, replace(seen, elections=(last,)), now)
    assert (limitation(situation, candidate, primary) is not None) is waits


def test_the_best_has_the_most_data_then_another_zone() -> None:
    seen, now = observed()
    primary = node(seen, "db-0-0").id
    ahead = node(seen, "db-0-2")
    more = replace(ahead.replication, offset=ahead.replication.offset + 1)
    situation = ClusterTopology(WANTED, changed(seen, "db-0-2", replication=more), now)
    assert [n.pod.name for n in ranked(situation, primary)] == ["db-0-2", "db-0-1"]
    near = replace(node(seen, "db-0-1").pod, zone=node(seen, "db-0-0").pod.zone)
    situation = ClusterTopology(WANTED, changed(seen, "db-0-1", pod=near), now)
    assert [n.pod.name for n in ranked(situation, primary)] == ["db-0-2", "db-0-1"]


def test_different_histories_promote_no_replica() -> None:
    seen, now = observed()
    gone = node(seen, "db-0-0")
    seen = replace(seen, nodes=tuple(n for n in seen.nodes if n is not gone))
    other = replace(node(seen, "db-0-2").replication, id="a history of its own")
    forgotten = knowing(changed(seen, "db-0-2", replication=other), histories=())
    candidate, reason = best(ClusterTopology(WANTED, forgotten, now), gone.id)
    assert candidate is None
    assert "different replication histories" in reason
    told = knowing(
        changed(seen, "db-0-2", replication=other),
        histories=((gone.id, gone.replication.id),),
    )
    candidate, _ = best(ClusterTopology(WANTED, told, now), gone.id)
    assert candidate is not None
    assert candidate.pod.name == "db-0-1"


def test_a_replica_that_never_had_the_data_is_not_promoted() -> None:
    seen, now = observed()
    gone = node(seen, "db-0-0")
    seen = replace(seen, nodes=tuple(n for n in seen.nodes if n is not gone))
    for pod in ("db-0-1", "db-0-2"):
        bare = replace(node(seen, pod).replication, id=f"fresh {pod}", offset=0, link_up=False)
        seen = changed(seen, pod, replication=bare, keys=0)
    candidate, reason = best(ClusterTopology(WANTED, seen, now), gone.id)
    assert candidate is None
    assert "no live replica with its data" in reason


def test_an_empty_replica_linked_with_whoever_is_where_its_primary_was_is_no_copy() -> None:
    """CL-32: a container that restarts keeps its address, and its server has another id."""
    seen, now = observed()
    gone = node(seen, "db-0-0")
    fresh = replace(gone.replication, id="of the new server", offset=0)
    new = but(gone, id=NodeId("9" * 40), slots=NO_SLOTS, keys=0, replication=fresh)
    others = tuple(n for n in seen.nodes if n.pod.name not in (gone.pod.name, "db-0-2"))
    seen = changed(replace(seen, nodes=(*others, new)), "db-0-1", replication=fresh, keys=0)
    situation = ClusterTopology(replace(WANTED, volatile=True, start_empty=True), seen, now)
    candidate, reason = best(situation, gone.id)
    assert candidate is None
    assert "no live replica with its data" in reason
    assert situation.copies_of(gone.id) == ()
    kept = changed(seen, "db-0-1", keys=1)
    assert ClusterTopology(WANTED, kept, now).copies_of(gone.id)


def restarted(seen: Observed, pod: str) -> Observed:
    """The same with a replica that restarted, and had no link to its primary since."""
    alone = replace(
        node(seen, pod).replication, id=f"own {pod}", offset=0, link_up=False, unlinked=True
    )
    return changed(seen, pod, replication=alone, keys=3)


def test_a_replica_that_restarted_waits_for_a_primary_whose_files_may_be_newer() -> None:
    """A primary that outlived its replica acknowledged writes that only its own disk has."""
    seen, now = observed()
    gone = node(seen, "db-0-0")
    away = replace(seen, nodes=tuple(n for n in seen.nodes if n.pod.name != gone.pod.name))
    away = replace(away, nodes=tuple(n for n in away.nodes if n.pod.name != "db-0-2"))
    seen = restarted(away, "db-0-1")
    candidate, reason = best(ClusterTopology(replace(WANTED, replicas=2), seen, now), gone.id)
    assert candidate is None
    assert "db-0-1 restarted and has had no link to" in reason
    assert "accept-data-loss=0-5460" in reason


def test_a_replica_that_did_not_restart_is_promoted_before_one_that_did() -> None:
    seen, now = observed()
    gone = node(seen, "db-0-0")
    away = replace(seen, nodes=tuple(n for n in seen.nodes if n.pod.name != gone.pod.name))
    seen = restarted(away, "db-0-1")
    candidate, _ = best(ClusterTopology(replace(WANTED, replicas=2), seen, now), gone.id)
    assert candidate is not None
    assert candidate.pod.name == "db-0-2"


@pytest.mark.parametrize("why", ["accepted", "no pod can be it", "its files are broken", "memory"])
def test_a_replica_that_restarted_leads_when_nothing_newer_can_come_back(why: str) -> None:
    wanted = replace(WANTED, replicas=2)
    seen, now = observed()
    gone = node(seen, "db-0-0")
    others = tuple(n for n in seen.nodes if n.pod.name not in (gone.pod.name, "db-0-2"))
    nodes = others
    if why == "accepted":
        wanted = replace(wanted, accepted_loss=gone.slots)
    if why == "memory":
        wanted = replace(wanted, volatile=True)
    if why == "its files are broken":
        pod = replace(gone.pod, unloadable="Bad file format")
        dead = Unreachable(pod, "refused", now, evidence=Evidence.REFUSED, last_id=gone.id)
        nodes = (*others, dead)
    if why == "no pod can be it":
        new = but(gone, id=NodeId("9" * 40), slots=NO_SLOTS, keys=0)
        away = node(seen, "db-0-2")
        other = replace(away, id=NodeId("8" * 40), role=Role.PRIMARY, replica_of=None, keys=0)
        nodes = (*others, new, other)
    seen = restarted(replace(seen, nodes=nodes), "db-0-1")
    candidate, reason = best(ClusterTopology(wanted, seen, now), gone.id)
    assert candidate is not None, reason
    assert candidate.pod.name == "db-0-1"


def test_a_replica_too_far_behind_does_not_stand_in() -> None:
    seen, _ = observed()
    primary, replica = node(seen, "db-0-0"), node(seen, "db-0-1")
    offset = primary.replication.offset + LAG_BYTES + 1
    ahead = replace(primary, replication=replace(primary.replication, offset=offset))
    reason = unsynced(replica, ahead)
    assert reason is not None
    assert f"{LAG_BYTES + 1} bytes behind db-0-0" in reason
