"""Whose data are the database's, where servers started again: histories and offsets, not keys."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from redis_operator.planning.advice import Switchover, Wanted
from redis_operator.planning.failover.actions import Promote
from redis_operator.planning.observed import Led, Observed, Seen
from redis_operator.planning.plan import plan

from .test_failover import (
    LED,
    NEW,
    NOW,
    WANTED,
    blocked,
    dead,
    fresh,
    made,
    of,
    sentinel,
    server,
    steps,
)

ENDED_LEADING = "127.0.0.1:3"


def emptied(ordinal: int, offset: int, **fields: object) -> Seen:
    """A server that found files of the database's history, with no key left in them."""
    link = {"id": "history", "offset": offset, "follows": "127.0.0.1:1", **fields}
    return fresh(ordinal, link=link)


def test_keys_that_were_deleted_do_not_come_back_with_a_replica_that_is_behind() -> None:
    """The primary deleted all keys; a replica that stopped before that still has them."""
    behind = fresh(1, keys=500, link={"id": "history", "offset": 900})
    nodes = (emptied(0, 1000), behind, fresh(2))
    found = plan(WANTED, replace(NEW, nodes=nodes, led=LED, formed=True), NOW)
    assert [s.node.pod for s in found.steps if isinstance(s, Promote)] == ["db-0"]


def test_they_do_not_come_back_where_the_primary_died_either() -> None:
    ended = [
        server(n, of(0), keys=keys, link={"link_up": False, "down_seconds": 0.5, "offset": offset})
        for n, keys, offset in ((1, 500, 900), (2, 0, 1000))
    ]
    promote = steps(made(dead(0), *ended))[0]
    assert (type(promote), promote.node.pod) == (Promote, "db-2")


@pytest.mark.parametrize("offset", [0, 900], ids=["behind", "as far"])
def test_an_empty_server_that_is_no_further_gives_way_to_keys(offset: int) -> None:
    holder = fresh(1, keys=500, link={"id": "history", "offset": 900})
    nodes = (emptied(0, offset), holder, fresh(2))
    found = plan(WANTED, replace(NEW, nodes=nodes, led=LED, formed=True), NOW)
    assert [s.node.pod for s in found.steps if isinstance(s, Promote)] == ["db-1"]


def test_an_empty_server_of_another_history_gives_way_however_far_it_is() -> None:
    holder = fresh(1, keys=500, link={"id": "history", "offset": 900})
    nodes = (emptied(0, 10**6, id="own"), holder, fresh(2))
    found = plan(WANTED, replace(NEW, nodes=nodes, led=(Led(0, "db-0"),), formed=True), NOW)
    assert [s.node.pod for s in found.steps if isinstance(s, Promote)] == ["db-1"]


# Append-only files: each server that reads one begins a history of its own


def stored(*led: int, restarts: int = 0) -> tuple[Seen, ...]:
    """Three servers that read append-only files; some of them led when they were stopped."""
    nodes = tuple(
        fresh(n, keys=5, link={"follows": ENDED_LEADING} if n in led else {}) for n in range(3)
    )
    return tuple(replace(node, pod=replace(node.pod, restarts=restarts)) for node in nodes)


def promoted(observed: Observed, wanted: Wanted = WANTED) -> list[str]:
    return [s.node.pod for s in steps(observed, wanted) if isinstance(s, Promote)]


def test_a_database_created_again_has_the_data_of_the_server_that_led_last() -> None:
    assert promoted(replace(NEW, nodes=stored(1))) == ["db-1"]


def test_where_two_ended_as_primaries_a_person_decides() -> None:
    found = replace(NEW, nodes=stored(1, 2))
    assert promoted(found) == []
    assert "by the volumes db-1 and db-2 led" in blocked(found)
    assert promoted(found, replace(WANTED, switchover=Switchover("db-2"))) == ["db-2"]


@pytest.mark.parametrize(("pod", "chosen"), [("db-1", ["db-1"]), ("db-0", []), ("", ["db-1"])])
def test_volumes_and_status_have_to_agree_where_both_say_something(
    pod: str, chosen: list[str]
) -> None:
    found = replace(NEW, nodes=stored(1), led=(Led(0, pod, "gone"),), formed=True)
    assert promoted(found) == chosen
    if not chosen:
        assert "by the status db-0 led; by the volumes db-1 led" in blocked(found)


@pytest.mark.parametrize(
    ("restarts", "epoch", "chosen"),
    [(1, 3, []), (0, 3, ["db-0"]), (1, 0, ["db-0"])],
    ids=["elected", "another pod has the address by now", "told by the operator"],
)
def test_a_failover_that_the_status_does_not_know_of_is_not_undone(
    restarts: int, epoch: int, chosen: list[str]
) -> None:
    """The sentinels promoted db-1 while the operator was away, and then every server was killed."""
    sentinels = tuple(sentinel(n, 1, config_epoch=epoch) for n in range(3))
    found = replace(NEW, nodes=stored(restarts=restarts), sentinels=sentinels, led=LED, formed=True)
    assert promoted(found) == chosen
    if not chosen:
        assert "by the status db-0 led; by the sentinels db-1 led" in blocked(found)


def test_where_there_is_no_status_the_sentinels_know_who_led() -> None:
    sentinels = tuple(sentinel(n, 1, config_epoch=3) for n in range(3))
    assert promoted(replace(NEW, nodes=stored(restarts=1), sentinels=sentinels)) == ["db-1"]
