"""What no plan may do in mode Failover, as a table: a moment, a step, and the answer."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from planning.failover.test_failover import (
    IN_MEMORY,
    LOST,
    NAME,
    NOW,
    WANTED,
    WHOLE,
    WORKLOAD,
    dead,
    fresh,
    made,
    of,
    server,
)
from redis_operator.planning.actions import Action, DeletePod, DeleteWorkload, ScaleWorkload
from redis_operator.planning.advice import Wanted
from redis_operator.planning.at import at
from redis_operator.planning.failover.actions import (
    Elect,
    Follow,
    FollowSource,
    Promote,
    SwitchOver,
    Unwatch,
)
from redis_operator.planning.failover.guards import GUARDS
from redis_operator.planning.fence import Fence
from redis_operator.planning.modes import situation
from redis_operator.planning.observed import Observed, Seen

ONE, TWO = LOST  # at 90 and at 100 of the same history
DEAD = made(dead(0), *LOST)


def promote(node: Seen, source: str = "") -> Promote:
    return Promote(at(node), of(0), Fence.PROCESS_GONE, source=source)


def beside(other: Seen, **fields: Any) -> Observed:
    """A dead primary, a replica at 90, and another one."""
    return made(dead(0), ONE, other, **fields)


def further(follows: str = of(0), **fields: Any) -> Seen:
    """A server that has more than db-1."""
    link = {"link_up": False, "offset": 91, **fields.pop("link", {})}
    return server(2, follows, link=link, **fields)


FULL, EMPTY = server(1, of(0)), server(0, keys=0, link={"id": "other"})
SOURCE = "10.8.8.8:7000"
HEAD = server(0, SOURCE, keys=0, link={"id": "other"})
ALONE = replace(WANTED, replicas=0)
SINGLE = made(server(0), workloads=(replace(WORKLOAD, pods=1),))
LAST = made(server(0, of(2)), server(1, of(2)), server(2))
STALE = (replace(WORKLOAD, current=False),)

ROWS: dict[str, tuple[Observed, Wanted, Action, str]] = {
    # Promotions
    "promote: nothing has more": (DEAD, WANTED, promote(TWO), ""),
    "promote: not seen": (DEAD, WANTED, promote(server(0)), "I2: db-0 was not observed"),
    "promote: a primary answers": (WHOLE, WANTED, promote(FULL), "I7: db-0 is a primary"),
    "promote: one byte less": (beside(further()), WANTED, promote(ONE), "I1: db-2 has more"),
    "promote: as much": (beside(further(link={"offset": 90})), WANTED, promote(ONE), ""),
    "promote: another history": (beside(further(link={"id": "x"})), WANTED, promote(ONE), ""),
    "promote: it loads": (beside(further(loading=True)), WANTED, promote(ONE), ""),
    "promote: it goes": (
        beside(further(), workloads=(replace(WORKLOAD, pods=2),)),
        WANTED,
        promote(ONE),
        "",
    ),
    "promote: it follows the chosen one, a copy": (
        beside(further(of(1))),
        WANTED,
        promote(ONE, SOURCE),
        "",
    ),
    "promote: it follows another one, a copy": (
        beside(further()),
        WANTED,
        promote(ONE, SOURCE),
        "I1: db-2 has more",
    ),
    "promote: it follows the chosen one, no copy": (
        beside(further(of(1))),
        WANTED,
        promote(ONE),
        "I1: db-2 has more",
    ),
    "elect: nothing has more": (
        DEAD,
        WANTED,
        Elect(at(TWO), of(0), NAME, (), 2),
        "",
    ),
    "elect: less than another": (
        DEAD,
        WANTED,
        Elect(at(ONE), of(0), NAME, (), 2),
        "I1: db-2 has more",
    ),
    "switch: from the primary": (WHOLE, WANTED, SwitchOver(at(FULL), at(server(0)), NAME), ""),
    "switch: no primary": (
        DEAD,
        WANTED,
        SwitchOver(at(ONE), at(server(0)), NAME),
        "I6: db-0 is not the primary",
    ),
    # Followers
    "follow: its own history": (WHOLE, WANTED, Follow(at(FULL), at(server(0)), of(0)), ""),
    "follow: not seen": (
        made(EMPTY),
        WANTED,
        Follow(at(FULL), at(EMPTY), of(0)),
        "I2: db-1 or db-0 was not observed",
    ),
    "follow: the primary is not seen": (
        made(FULL),
        WANTED,
        Follow(at(FULL), at(EMPTY), of(0)),
        "I2: db-1 or db-0 was not observed",
    ),
    "follow: an empty one": (
        made(EMPTY, FULL),
        WANTED,
        Follow(at(FULL), at(EMPTY), of(0)),
        "I1: db-0 is empty and would replace 5 keys",
    ),
    "follow: an empty one of its history": (
        made(server(0, keys=0), FULL),
        WANTED,
        Follow(at(FULL), at(server(0)), of(0)),
        "",
    ),
    "follow: one that holds another history": (
        made(server(0, link={"id": "other"}), FULL),
        WANTED,
        Follow(at(FULL), at(server(0)), of(0)),
        "",
    ),
    "follow: empty itself": (
        made(EMPTY, fresh(1)),
        WANTED,
        Follow(at(fresh(1)), at(EMPTY), of(0)),
        "",
    ),
    "follow: a complete copy": (
        made(HEAD, FULL),
        WANTED,
        Follow(at(FULL), at(HEAD), of(0), source=SOURCE),
        "",
    ),
    "follow: a copy that is not complete": (
        made(replace(HEAD, loading=True), FULL),
        WANTED,
        Follow(at(FULL), at(HEAD), of(0), source=SOURCE),
        "I1: db-0 is empty",
    ),
    "follow: a complete copy that is none of a copy": (
        made(HEAD, FULL),
        WANTED,
        Follow(at(FULL), at(HEAD), of(0)),
        "I1: db-0 is empty",
    ),
    "source: the database has data": (
        DEAD,
        WANTED,
        FollowSource(at(ONE), "10.8.8.8", 7000, of(0)),
        "I1: the database has data of its own",
    ),
    # Pods
    "delete: a replica": (WHOLE, WANTED, DeletePod("db-1", "u1", "why"), ""),
    "delete: a sentinel": (WHOLE, WANTED, DeletePod("db-sentinel-1", "s1", "why"), ""),
    "delete: not seen": (
        WHOLE,
        WANTED,
        DeletePod("db-1", "u9", "why"),
        "I2: pod db-1 was not observed",
    ),
    "delete: silent": (DEAD, IN_MEMORY, DeletePod("db-0", "u0", "why"), ""),
    "delete: writes its file": (
        made(server(0), server(1, of(0), saving=True)),
        WANTED,
        DeletePod("db-1", "u1", "why"),
        "I1: db-1 is writing its append-only file",
    ),
    "delete: a primary with a replica": (
        WHOLE,
        WANTED,
        DeletePod("db-0", "u0", "why"),
        "I8: db-0 is the primary and has replicas",
    ),
    "delete: a primary alone": (SINGLE, WANTED, DeletePod("db-0", "u0", "why"), ""),
    "delete: a primary alone, in memory": (
        SINGLE,
        IN_MEMORY,
        DeletePod("db-0", "u0", "why"),
        "I1: db-0 holds keys in memory only",
    ),
    "delete: a primary alone, in memory, and that was accepted": (
        SINGLE,
        replace(IN_MEMORY, restart_may_lose=True),
        DeletePod("db-0", "u0", "why"),
        "",
    ),
    "delete: a replica, in memory": (WHOLE, IN_MEMORY, DeletePod("db-1", "u1", "why"), ""),
    # Workloads
    "scale: grows without a primary": (DEAD, WANTED, ScaleWorkload(0, "w0", 3, 4), ""),
    "scale: stays without a primary": (DEAD, WANTED, ScaleWorkload(0, "w0", 3, 3), ""),
    "scale: shrinks without a primary": (
        DEAD,
        WANTED,
        ScaleWorkload(0, "w0", 3, 2),
        "I1: no primary is known",
    ),
    "scale: the sentinels shrink without a primary": (
        DEAD,
        WANTED,
        ScaleWorkload(1, "w1", 3, 2),
        "",
    ),
    "scale: a replica goes": (WHOLE, WANTED, ScaleWorkload(0, "w0", 3, 2), ""),
    "scale: the primary goes": (
        LAST,
        WANTED,
        ScaleWorkload(0, "w0", 3, 2),
        "I1: db-2 is the primary",
    ),
    "scale: all go to sleep": (
        LAST,
        replace(WANTED, hibernate=True),
        ScaleWorkload(0, "w0", 3, 0),
        "",
    ),
    "scale: one stays": (WHOLE, ALONE, ScaleWorkload(0, "w0", 3, 1), ""),
    "scale: one stays that has to be recreated": (
        replace(WHOLE, workloads=STALE),
        ALONE,
        ScaleWorkload(0, "w0", 3, 1),
        "I1: db-0 would be alone, and has to be recreated",
    ),
    "scale: two stay, one of them has to be recreated": (
        replace(WHOLE, workloads=STALE),
        ALONE,
        ScaleWorkload(0, "w0", 3, 2),
        "",
    ),
    "scale: one replica is wanted, and one server has to be recreated": (
        replace(WHOLE, workloads=STALE),
        replace(WANTED, replicas=1),
        ScaleWorkload(0, "w0", 3, 1),
        "",
    ),
    "dismiss: one server is left": (SINGLE, ALONE, DeleteWorkload(1, "w1"), ""),
    "dismiss: the servers": (
        SINGLE,
        ALONE,
        DeleteWorkload(0, "w0"),
        "I1: the servers' StatefulSet is not deleted",
    ),
    "dismiss: there are no sentinels": (
        replace(SINGLE, sentinel_workload=None),
        ALONE,
        DeleteWorkload(1, "w1"),
        "I1: the servers' StatefulSet is not deleted",
    ),
    "dismiss: the mode stays": (
        SINGLE,
        WANTED,
        DeleteWorkload(1, "w1"),
        "I8: sentinels are deleted while",
    ),
    "dismiss: two servers are left": (
        made(server(0), server(1, of(0))),
        ALONE,
        DeleteWorkload(1, "w1"),
        "I8: sentinels are deleted while",
    ),
    "any other step": (DEAD, WANTED, Unwatch(at(ONE), NAME), ""),
}


@pytest.mark.parametrize("row", ROWS)
def test_a_step_is_refused_for_what_it_would_break_and_for_nothing_else(row: str) -> None:
    observed, wanted, step, words = ROWS[row]
    found = GUARDS.step(situation(wanted, observed, NOW), step)
    assert [words in reason for reason in found] == [True] * bool(words), found


SWITCH = SwitchOver(at(FULL), at(server(0)), NAME)


@pytest.mark.parametrize(
    ("stage", "words"),
    [
        ((promote(ONE), DeletePod("db-1", "u1", "why")), []),
        ((promote(ONE), promote(TWO)), ["I8: two promotions at a time"]),
        ((SWITCH, promote(TWO)), ["I8: two promotions at a time"]),
        (
            (DeletePod("db-1", "u1", "why"), DeletePod("db-2", "u2", "why")),
            ["I8: two pods at a time"],
        ),
    ],
    ids=["one of each", "two promotions", "two kinds of promotion", "two pods"],
)
def test_one_promotion_and_one_pod_at_a_time(stage: tuple[Action, ...], words: list[str]) -> None:
    assert GUARDS.stage(situation(WANTED, WHOLE, NOW), stage) == words
