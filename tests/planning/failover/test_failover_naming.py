"""Who shall lead in mode Failover, as tables: by data, and never in a race with the sentinels."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from planning.failover.test_failover import (
    BARE,
    IN_MEMORY,
    LED,
    LOST,
    NEW,
    NOW,
    WANTED,
    WHOLE,
    dead,
    fresh,
    made,
    of,
    sentinel,
    server,
)
from redis_operator.planning.advice import Plan, PlanPhase, Wanted
from redis_operator.planning.failover.actions import Elect, Follow, Promote, Unwatch
from redis_operator.planning.failover.election import Undecided, best, holds, same_history
from redis_operator.planning.failover.name_primary import name_primary
from redis_operator.planning.failover.topology import FailoverTopology
from redis_operator.planning.fence import Fence
from redis_operator.planning.identity import NodeId
from redis_operator.planning.observed import Evidence, Led, Observed, Seen, Unreachable
from redis_operator.planning.plan import plan
from redis_operator.planning.sentinels import SentinelFlag

O_DOWN = frozenset({SentinelFlag.O_DOWN})

# By data


def test_no_primary_is_chosen_before_servers_run_whose_volumes_may_have_more() -> None:
    """A person scaled the StatefulSet down, and it cannot be scaled up again yet."""
    link = {"link_up": False, "unlinked": True}
    alone = server(0, "127.0.0.1:1", link=link, pod={"role_label": "replica"})
    one = tuple(replace(found, pods=1) for found in WHOLE.workloads)
    observed = replace(made(alone, sentinels=()), workloads=one)
    waits = replace(WANTED, unwritten="the API server has not responded yet")
    found = plan(waits, observed, NOW)
    assert not any(isinstance(step, Promote) for step in found.steps)
    assert any("db-1 does not run and has a volume" in reason for reason in found.blocked)
    found = plan(replace(waits, volatile=True, persistent=False), observed, NOW)
    assert any(isinstance(step, Promote) for step in found.steps)


def test_a_server_with_one_key_holds_data() -> None:
    assert holds(server(0, keys=1))
    assert not holds(server(0, keys=0))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"id": "a"}, {"id": "a"}, True),
        ({"id": "a"}, {"id": "b"}, False),
        ({"id": "a"}, {"id": "b", "id2": "a"}, True),
        ({"id": "a", "id2": "b"}, {"id": "b"}, True),
        ({"id": "a", "id2": "c"}, {"id": "b", "id2": "c"}, False),
        ({"id": ""}, {"id": ""}, False),
        ({"id": ""}, {"id": "b", "id2": ""}, False),
    ],
)
def test_servers_share_a_history_when_one_began_in_that_of_the_other(
    one: Any, other: Any, *, same: bool
) -> None:
    assert same_history(server(0, link=one), server(1, link=other)) is same


def chosen(*nodes: Seen, led: Led | None = None, asked: str = "") -> str:
    found = best(list(nodes), led, asked)
    return found.why if isinstance(found, Undecided) else found.pod.name


def holder(ordinal: int, offset: int = 10, history: str = "a", **fields: Any) -> Seen:
    link = {"offset": offset, "id": history, **fields.pop("link", {})}
    return server(ordinal, of(9), link=link, **fields)


def empty(ordinal: int, follows: str = "127.0.0.1:1") -> Seen:
    return fresh(ordinal, link={"follows": follows})


FRESH = "127.0.0.1:2"
LED_2 = Led(0, "db-2", "")
BEST: dict[str, tuple[tuple[Seen, ...], Led | None, str]] = {
    "none holds anything: the first": ((empty(2), empty(1)), None, "db-1"),
    "none holds anything: the last primary": ((empty(1), empty(2)), LED_2, "db-2"),
    "none holds anything: the one that found files": ((empty(0, FRESH), empty(1)), None, "db-1"),
    "files before the last primary": ((empty(1), empty(2, FRESH)), LED_2, "db-1"),
    "who holds nothing has less than one key": ((fresh(0), holder(1, 0)), None, "db-1"),
    "further": ((holder(0, 10), holder(1, 11)), Led(0, "db-0"), "db-1"),
    "equal: the last primary": ((holder(0), holder(2)), LED_2, "db-2"),
    "equal: not the last primary, deleted": (
        (holder(0, pod={"deleting": True}), holder(1)),
        None,
        "db-1",
    ),
    "equal: drained": ((holder(0, pod={"draining": True}), holder(1)), None, "db-1"),
    "equal: eligible": ((holder(0, link={"priority": 0}), holder(1)), None, "db-1"),
    "equal: eligible with priority 1": (
        (holder(0), holder(1, link={"priority": 1})),
        None,
        "db-0",
    ),
    "equal: the first": ((holder(1), holder(0)), None, "db-0"),
    "of two histories the recorded one": (
        (holder(0, 99), holder(1, 5, "b")),
        Led(0, "db-0", "b"),
        "db-1",
    ),
    "of two histories the recorded one, by where it began": (
        (holder(0, 99), holder(1, 5, "c", link={"id2": "b"})),
        Led(0, "db-0", "b"),
        "db-1",
    ),
    "of the recorded history the furthest": (
        (holder(0, 99), holder(1, 5, "b"), holder(2, 6, "b")),
        Led(0, "db-1", "b"),
        "db-2",
    ),
    "of two unrecorded histories the last primary": (
        (holder(1, 99), holder(2, 5, "b")),
        Led(0, "db-2", "x"),
        "db-2",
    ),
}


@pytest.mark.parametrize("row", BEST)
def test_the_server_with_the_data_of_the_database_is_chosen(row: str) -> None:
    nodes, led, name = BEST[row]
    assert chosen(*nodes, led=led) == name
    assert chosen(*reversed(nodes), led=led) == name


def test_a_person_decides_between_histories_that_are_not_recorded() -> None:
    two = holder(0, 99), holder(1, 5, "b")
    assert chosen(*two, asked="db-1") == "db-1"
    assert chosen(*two, led=Led(0, "db-0"), asked="db-1") == "db-1"
    for led in (None, Led(0, "db-9")):
        assert chosen(*two, led=led).startswith("db-0, db-1 hold data of different histories")
    assert chosen(*two, led=LED[0], asked="db-9") == "db-0"


# Naming


def named(observed: Observed, wanted: Wanted = WANTED) -> Plan | None:
    return name_primary(FailoverTopology(wanted, observed, NOW))


def plan_of(observed: Observed, wanted: Wanted = WANTED) -> Plan:
    found = named(observed, wanted)
    assert found is not None
    return found


def promotion(observed: Observed, wanted: Wanted = WANTED) -> Promote:
    step = plan_of(observed, wanted).steps[0]
    assert isinstance(step, Promote)
    return step


DEAD = made(dead(0), *LOST)
RESTARTED = tuple(fresh(n, keys=5, link={"id": "history"}) for n in range(3))


def test_nothing_is_named_while_a_server_leads_or_none_is_seen() -> None:
    assert named(WHOLE) is None
    assert named(made(dead(0), dead(1), dead(2))) is None


@pytest.mark.parametrize(
    ("evidence", "fence"),
    [
        (Evidence.REFUSED, Fence.PROCESS_GONE),
        (Evidence.TERMINATED, Fence.CONTAINER_ENDED),
        (Evidence.NOT_STARTED, Fence.CONTAINER_ENDED),
    ],
)
def test_a_dead_primary_is_replaced_with_the_fence_that_its_end_gives(
    evidence: Evidence, fence: Fence
) -> None:
    observed = made(dead(0, evidence), *LOST)
    step = promotion(observed)
    assert (step.node.pod, step.fence, step.follows) == ("db-2", fence, of(0))
    assert (step.primary, step.primary_pod, step.primary_uid) == ("run-0", "db-0", "u0")
    assert (step.replication_id, step.min_offset, step.needed) == ("history", 100, 0)
    found = plan_of(observed)
    assert found.urgent
    assert found.phase is PlanPhase.HEALING
    assert found.why == "db-0 has ended; db-2 has its data and becomes the primary"


def test_a_primary_that_never_answered_has_no_id_to_be_checked() -> None:
    unknown = replace(dead(0), last_id=None)
    step = promotion(made(unknown, *LOST))
    assert (step.primary, step.primary_pod) == ("", "db-0")


def test_sentinels_are_asked_right_before_where_one_of_them_could_promote() -> None:
    assert len(promotion(DEAD).sentinels) == 3
    ineligible = made(*RESTARTED)
    assert promotion(ineligible).sentinels == ()
    one = fresh(2, keys=5, link={"id": "history", "priority": 1, "unlinked": False})
    assert len(promotion(made(*RESTARTED[:2], one)).sentinels) == 3


def test_a_new_database_is_created_and_nothing_waits_for_it() -> None:
    found = plan_of(NEW)
    assert (found.phase, found.urgent) == (PlanPhase.CREATING, False)
    assert found.why == "no server is a primary; db-0 has its data and becomes the primary"
    assert promotion(NEW).primary_pod == ""


RACES: dict[str, tuple[Observed, str]] = {
    "an election": (
        replace(DEAD, sentinels=(sentinel(0, flags=O_DOWN), *WHOLE.sentinels[1:])),
        "the sentinels agree that the primary is down",
    ),
    "a sentinel is silent": (
        replace(
            DEAD,
            sentinels=(
                *WHOLE.sentinels[:2],
                Unreachable(pod=sentinel(2).pod, error="timed out", since=NOW),
            ),
        ),
        "db-sentinel-2 does not respond and may be electing",
    ),
    "an election that a server which is not seen could win": (
        made(
            dead(0),
            *(fresh(n, keys=5) for n in (1, 2)),
            sentinels=(sentinel(0, flags=O_DOWN), *WHOLE.sentinels[1:]),
        ),
        "the sentinels agree that the primary is down",
    ),
    "a silent primary": (
        made(dead(0, Evidence.SILENT), *LOST),
        "db-0 does not respond and may be alive",
    ),
    "a server loads": (
        made(fresh(0), fresh(1), fresh(2, loading=True), sentinels=BARE),
        "no primary is chosen before all servers are observed: db-2 is loading",
    ),
    "a server does not exist": (
        made(fresh(0), fresh(1), sentinels=BARE),
        "no primary is chosen before all servers are observed: db-2 does not exist yet",
    ),
    "a server does not respond": (
        made(fresh(0), fresh(1), dead(2), sentinels=BARE),
        "no primary is chosen before all servers are observed: db-2 does not respond: refused",
    ),
}


@pytest.mark.parametrize("formed", [True, False])
@pytest.mark.parametrize("row", RACES)
def test_no_primary_is_named_in_a_race(row: str, *, formed: bool) -> None:
    observed, words = RACES[row]
    found = plan_of(replace(observed, formed=formed))
    assert found.stages == ()
    assert words in found.blocked[0]
    assert found.phase is (PlanPhase.HEALING if formed else PlanPhase.CREATING)
    assert found.again_after is not None
    assert found.again_after < 0.5


def test_a_silent_sentinel_holds_nothing_up_where_no_replica_is_eligible() -> None:
    silent = Unreachable(pod=sentinel(2).pod, error="timed out", since=NOW)
    observed = made(*RESTARTED, sentinels=(*WHOLE.sentinels[:2], silent))
    assert promotion(observed).fence is Fence.NEVER_LED


def test_one_whose_pod_goes_is_not_named() -> None:
    """Its StatefulSet has no place for it any more."""
    fewer = (replace(WHOLE.workloads[0], pods=2),)
    behind = made(dead(0), *LOST, workloads=fewer)
    assert promotion(behind).node.pod == "db-1"


# The server that led before


def restarted(**fields: Any) -> Seen:
    """The primary, restarted with its files, which follows no server yet."""
    link = {"id": "history", "offset": 120, **fields.pop("link", {})}
    return fresh(0, keys=5, link=link, **fields)


def test_a_primary_that_restarted_with_more_than_its_replicas_leads_again() -> None:
    step = promotion(made(restarted(), *LOST))
    assert (step.node.pod, step.fence, step.primary_pod) == ("db-0", Fence.NEVER_LED, "")


@pytest.mark.parametrize(
    "before",
    [
        restarted(loading=True),
        restarted(link={"id": "other"}),
        restarted(link={"offset": 80}),
        fresh(0),
    ],
    ids=["loading", "another history", "less", "empty"],
)
def test_a_primary_that_restarted_without_its_data_is_replaced(before: Seen) -> None:
    step = promotion(made(before, *LOST))
    assert (step.node.pod, step.fence) == ("db-2", Fence.IS_REPLICA)
    assert (step.primary, step.primary_pod, step.primary_uid) == ("run-0", "db-0", "u0")


def test_a_replica_that_has_copied_nothing_is_no_candidate() -> None:
    blank = server(2, of(0), keys=0, link={"offset": 1, "link_up": False})
    assert promotion(made(dead(0), LOST[0], blank)).node.pod == "db-1"
    unlinked = server(2, of(0), link={"link_up": False, "unlinked": True, "offset": 500})
    assert promotion(made(dead(0), LOST[0], unlinked)).node.pod == "db-1"


def test_a_server_that_was_demoted_by_hand_leads_again_though_another_one_is_not_seen() -> None:
    """It has all that clients were told of: nothing that is not seen can have more."""
    demoted = server(0, "127.0.0.1:1", link={"link_up": False})
    own = {"id": "new", "id2": "history", "id2_offset": 50, "offset": 60}
    for other in (dead(2), fresh(2, loading=True)):
        observed = made(demoted, server(1, link=own), other, recorded=((0, "run-0"),))
        step = promotion(observed)
        assert (step.node.pod, step.fence) == ("db-0", Fence.NEVER_LED)


# Sentinels that wait in vain

WAITING = made(dead(0), *RESTARTED[1:])


def released(observed: Observed) -> bool:
    found = named(observed)
    return found is not None and any(isinstance(step, Unwatch) for step in found.steps)


def test_sentinels_that_can_promote_no_server_stop_watching() -> None:
    found = plan_of(WAITING)
    assert [step.node.pod for step in found.steps if isinstance(step, Unwatch)] == [
        f"db-sentinel-{n}" for n in range(3)
    ]
    assert found.urgent
    assert found.again_after is not None
    assert found.again_after < 0.5


@pytest.mark.parametrize(
    "observed",
    [
        made(dead(0, Evidence.SILENT), *RESTARTED[1:]),
        made(dead(0), dead(1), RESTARTED[2]),
        made(RESTARTED[0], dead(1), RESTARTED[2]),
        made(dead(0), RESTARTED[1], fresh(2, keys=5, link={"priority": 1})),
        made(dead(0), RESTARTED[1], fresh(2, keys=5, link={"unlinked": False})),
    ],
    ids=["silent", "two are dead", "another one is dead", "one is eligible", "one was linked"],
)
def test_sentinels_watch_on_while_one_may_still_be_promoted(observed: Observed) -> None:
    assert not released(observed)


# What is lost


def losses(observed: Observed, wanted: Wanted) -> list[tuple[str, bool]]:
    return [(loss.why, loss.accepted) for loss in plan_of(observed, wanted).losses]


EMPTY = replace(NEW, formed=True)
UNLINKED = tuple(fresh(n, link={"follows": of(9)}) for n in range(3))
FILES = "no server found the files that it had"
MEMORY = "every server was restarted and keeps its data in memory only"


def test_a_loss_is_told_and_is_not_urgent() -> None:
    assert losses(EMPTY, WANTED) == [(FILES, False)]
    assert plan_of(EMPTY, WANTED).final
    assert plan_of(EMPTY, WANTED).stages == ()
    found = plan_of(EMPTY, replace(WANTED, start_empty=True))
    assert [loss.accepted for loss in found.losses] == [True]
    assert isinstance(found.steps[0], Promote)
    assert not found.urgent
    assert losses(EMPTY, IN_MEMORY) == [(MEMORY, True)]


def test_nothing_is_lost_where_a_server_holds_a_key_or_shows_that_it_found_files() -> None:
    assert losses(NEW, WANTED) == []
    assert losses(replace(EMPTY, nodes=(*EMPTY.nodes[:2], fresh(2, keys=1))), WANTED) == []
    assert losses(replace(EMPTY, nodes=UNLINKED), WANTED) == []
    assert losses(replace(EMPTY, nodes=UNLINKED), IN_MEMORY) == [(MEMORY, True)]


def test_what_a_server_holds_is_not_dropped_for_an_empty_primary() -> None:
    own = {"id": "other", "unlinked": True, "link_up": False}
    holding, blank = server(1, of(9), link=own), server(1, of(9), keys=0, link=own)
    last = {"offset": 90, "link_up": False}
    for other, replica, followers in (
        (holding, server(2, of(0), keys=0, link=last), []),
        (blank, server(2, of(0), keys=0, link=last), ["db-1"]),
        (holding, server(2, of(0), link=last), ["db-1"]),
    ):
        found = plan_of(made(dead(0), other, replica))
        assert promotion(made(dead(0), other, replica)).node.pod == "db-2"
        assert [s.node.pod for s in found.steps if isinstance(s, Follow)] == followers


# Votes


def test_a_vote_is_asked_for_before_the_promotion_of_who_replaces_a_silent_primary() -> None:
    down = frozenset({SentinelFlag.S_DOWN, SentinelFlag.O_DOWN})
    watchers = tuple(sentinel(n, flags=down, down_ms=5000, replicas=()) for n in range(3))
    observed = made(dead(0, Evidence.SILENT), *LOST, sentinels=watchers)
    elect, promote, *_ = plan_of(observed).steps
    assert isinstance(elect, Elect)
    assert isinstance(promote, Promote)
    assert (promote.fence, promote.primary, promote.needed) == (Fence.DEPOSED, NodeId("run-0"), 2)
    assert promote.sentinels == elect.sentinels
