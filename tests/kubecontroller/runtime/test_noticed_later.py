"""Changes of the caches, the queue and the lease that no test noticed once; each of these does."""

from __future__ import annotations

import asyncio

import pytest

from kubecontroller.client.errors import Gone
from kubecontroller.client.objects import PODS
from kubecontroller.runtime.consistency import Consistency
from kubecontroller.runtime.expectations import Expectations
from kubecontroller.runtime.informer import Informer
from kubecontroller.runtime.lease import LeaseSettings
from kubecontroller.runtime.owners import NotOwned
from kubecontroller.runtime.watch_states import (
    SHORTEST_WATCH,
    Progress,
    Replaced,
    Unlisted,
    Watching,
    after_error,
)
from kubecontroller.runtime.workqueue import WorkQueue

OWNER = ("d", "owner")


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


# Expectations


@pytest.mark.parametrize(
    ("later", "left"), [(0.0, "3 creations"), (300.0, "3 creations"), (300.1, "1 creations")]
)
def test_expectations_add_up_until_they_are_too_old(later: float, left: str) -> None:
    clock = Clock()
    found = Expectations[tuple[str, str]](clock)
    found.expect_creations(OWNER, 2)
    clock.now += later
    found.expect_creations(OWNER, 1)
    assert left in (found.limitation(OWNER) or "")


def test_one_creation_that_is_expected_is_not_forgotten_by_the_next() -> None:
    found = Expectations[tuple[str, str]](Clock())
    found.expect_creations(OWNER, 1)
    found.expect_creations(OWNER, 1)
    assert "2 creations" in (found.limitation(OWNER) or "")


# Own writes


def test_patience_with_a_cache_begins_again_after_it_caught_up() -> None:
    class Cache:
        version = "1"

    cache, clock = Cache(), Clock()
    store = Consistency(pods=cache, clock=clock)
    store.wrote(OWNER, uid="u", resource="pods", version="5")
    assert store.limitation(OWNER) is not None
    cache.version = "5"
    assert store.limitation(OWNER) is None
    clock.now += 10_000.0
    store.wrote(OWNER, uid="u", resource="pods", version="9")
    assert store.limitation(OWNER) is not None  # and not: it has been behind for hours


# Caches


def cache() -> Informer[object]:
    return Informer(None, PODS)  # type: ignore[arg-type]


@pytest.mark.parametrize(("told", "reached"), [("9", "9"), ("7", "8"), ("", "8"), ("odd", "odd")])
async def test_the_version_of_a_cache_does_not_go_back(told: str, reached: str) -> None:
    informer = cache()
    assert informer.version == ""
    await informer._take(Replaced((), "8"))
    heard = []
    informer.on_progress.append(lambda: heard.append(informer.version))
    await informer._take(Progress(told))
    assert informer.version == reached
    assert heard == ([told] if reached == told else [])


async def test_a_version_that_the_cache_has_is_not_waited_for() -> None:
    informer = cache()
    suspected: list[str] = []
    informer.suspect = suspected.append  # type: ignore[method-assign]
    await informer._take(Replaced((), "8"))
    handles = len(asyncio.get_running_loop()._scheduled)  # type: ignore[attr-defined]
    informer.expect("7")
    informer.expect("")
    assert len(asyncio.get_running_loop()._scheduled) == handles  # type: ignore[attr-defined]
    informer.expect("9", within=1.0)
    await asyncio.sleep(1.5)
    assert len(suspected) == 1
    await asyncio.sleep(2.0)
    assert len(suspected) == 2
    await informer._take(Replaced((), "9"))
    await asyncio.sleep(60.0)
    assert len(suspected) == 2


# Watches


@pytest.mark.parametrize(
    ("opened", "events", "waits"),
    [
        (1000.0, 1, True),
        (1000.0 - SHORTEST_WATCH, 1, False),
        (1000.0 - SHORTEST_WATCH + 0.1, 2, True),
        (1000.0, 0, False),
    ],
    ids=["at once", "after a while", "soon", "told nothing"],
)
def test_a_watch_that_is_gone_is_listed_again_at_once_where_it_had_lived(
    opened: float, events: int, *, waits: bool
) -> None:
    state = Watching("5", opened=opened, events=events)
    after, wait = after_error(state, Gone("gone", status=410), now=1000.0)
    assert (isinstance(after, Unlisted), wait) == (True, waits)


# The queue


async def test_a_queue_that_stops_at_once_drops_what_waits() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("late", 5.0)
    queue.shut_down_now()
    assert queue._timer is None
    assert queue._waiting == {}


async def test_a_delay_that_changes_nothing_is_not_queued_twice() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("key", 5.0)
    for _ in range(100):
        queue.add_after("key", 6.0)
    assert len(queue._due_heap) == 1


# Others


@pytest.mark.parametrize(("duration", "fits"), [(1.0, True), (0.9, False)])
def test_a_lease_lasts_a_second_at_least(duration: float, *, fits: bool) -> None:
    times = {"duration": duration, "renew_deadline": 0.5, "retry_period": 0.1}
    if fits:
        assert LeaseSettings("n", "l", "me", **times).duration == duration  # type: ignore[arg-type]
        return
    with pytest.raises(ValueError, match="at least one second"):
        LeaseSettings("n", "l", "me", **times)  # type: ignore[arg-type]


def test_who_does_not_own_an_object_is_told_why() -> None:
    error = NotOwned(PODS.ref(("d", "p")), "belongs to another")
    assert error.limitation == "belongs to another"
