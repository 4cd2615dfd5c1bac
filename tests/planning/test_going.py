"""Primaries that are told to go hand over before they do. CL-19"""

from __future__ import annotations

from msgspec.structs import replace

from planning.cluster.test_rules_heal import WANTED, whole_database
from redis_operator.planning.advice import Plan
from redis_operator.planning.cluster.actions import Failover, FailoverMode
from redis_operator.planning.observed import Observed
from redis_operator.planning.plan import plan


def marked(observed: Observed, **marks: dict[str, bool]) -> Observed:
    """The same look, with fields of some pods set: by name, dashes as underscores."""
    nodes = tuple(
        replace(node, pod=replace(node.pod, **marks.get(node.pod.name.replace("-", "_"), {})))
        for node in observed.seen
    )
    return replace(observed, nodes=nodes)


def think(observed: Observed) -> Plan:
    return plan(WANTED, observed, 2000.0)


def test_a_primary_that_is_being_deleted_hands_over_even_to_a_replica_on_a_drained_node() -> None:
    observed = whole_database().observe()
    advice = think(marked(observed, db_1_0={"deleting": True}, db_1_1={"draining": True}))
    [step] = [s for s in advice.steps if isinstance(s, Failover)]
    assert (step.node.pod, step.mode) == ("db-1-1", FailoverMode.PLAIN)
    assert "db-1-0 is being deleted" in advice.why


def test_nobody_hands_over_to_one_that_goes_as_well() -> None:
    observed = whole_database().observe()
    both = marked(observed, db_1_0={"deleting": True}, db_1_1={"deleting": True})
    assert not [s for s in think(both).steps if isinstance(s, Failover)]
    drained = marked(observed, db_1_0={"draining": True}, db_1_1={"draining": True})
    assert not [s for s in think(drained).steps if isinstance(s, Failover)]


def test_a_drained_primary_that_cannot_hand_over_yet_does_not_keep_another_from_it() -> None:
    observed = whole_database().observe()
    late = marked(observed, db_0_0={"draining": True}, db_2_0={"draining": True})
    nodes = tuple(
        replace(n, replication=replace(n.replication, link_up=False))
        if n.pod.name == "db-0-1"
        else n
        for n in late.seen
    )
    steps = [s for s in think(replace(late, nodes=nodes)).steps if isinstance(s, Failover)]
    assert [step.node.pod for step in steps] == ["db-2-1"]
