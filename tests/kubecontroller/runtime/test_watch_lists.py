"""§6.2.2: lists that come as a watch, and what is done where they are refused or break."""

from __future__ import annotations

import asyncio

import pytest
from tests.kubecontroller.runtime.test_watcher import (
    EXPIRED,
    REFUSED,
    Script,
    added,
    deleted,
    modified,
    obj,
    play,
    watches,
)

from kubecontroller.client.decode import Page
from kubecontroller.client.errors import (
    BadRequest,
    Forbidden,
    GarbledLine,
    Invalid,
    NoAnswer,
    ServerError,
    Timeout,
    TooManyRequests,
)
from kubecontroller.client.watch import Bookmark
from kubecontroller.runtime.watch_states import (
    Applied,
    Listed,
    Replaced,
    Streaming,
)

# §6.2.2


async def test_a_watch_list_collects_aside_and_replaces_when_the_initial_events_end():
    script = Script(
        [
            added("a", "1"),
            added("b", "2"),
            added("c", "3"),
            modified("a", "4"),
            deleted("b", "5"),
            Bookmark("4", initial_events_end=False),
            Bookmark("6", initial_events_end=True),
            modified("c", "7"),
            2,
        ]
    )
    events, states = await play(script, watch_list=True)
    assert watches(script)[0]["initial_events"] is True
    assert watches(script)[0]["version"] == ""
    assert events == [Replaced((obj("a", "4"), obj("c", "3")), "6"), Applied(obj("c", "7"))]
    assert len(script.asked) == 1, "the same stream goes on"
    assert any(isinstance(s, Streaming) for s in states)
    assert states[-1] == Listed("7")


@pytest.mark.parametrize(
    "error",
    [
        Invalid("sendInitialEvents is forbidden", status=422),
        BadRequest("resourceVersionMatch is forbidden for watch", status=400),
        Forbidden("no", status=403),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_a_watch_list_that_is_refused_falls_back_to_a_plain_list_at_once(error):
    script = Script(error, Page((), "5"), [2])
    await play(script, watch_list=True)
    assert [verb for verb, _ in script.asked] == ["watch", "list", "watch"]
    assert asyncio.get_running_loop().time() == pytest.approx(2)


@pytest.mark.parametrize(
    "error",
    [
        REFUSED,
        TooManyRequests("slow down", status=429),
        ServerError("overloaded", status=503),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_a_watch_list_refused_for_now_is_asked_for_again_without_a_list_on_top(error):
    script = Script(error, error, [Bookmark("5", initial_events_end=True), 2])
    await play(script, watch_list=True)
    assert [verb for verb, _ in script.asked] == ["watch", "watch", "watch"]
    assert asyncio.get_running_loop().time() > 2.5, "it waits before it asks again"


async def test_a_watch_list_that_never_begins_is_replaced_by_a_plain_list_for_one_round():
    """Such as behind a proxy that keeps a stream until it has ended."""
    silent = NoAnswer("no response to watch")
    end = Bookmark("6", initial_events_end=True)
    script = Script(silent, Page((obj("a", "4"),), "5"), [2, EXPIRED], silent, REFUSED, [end, 2])
    events, _ = await play(script, watch_list=True)
    asked = [verb for verb, _ in script.asked]
    assert asked == ["watch", "list", "watch", "watch", "list", "watch"]
    initial = [asked["initial_events"] for asked in watches(script)]
    assert initial == [True, False, True, True], "the next round asks for a watch-list again"
    replaced = [event for event in events if isinstance(event, Replaced)]
    assert replaced == [Replaced((obj("a", "4"),), "5"), Replaced((), "6")]


async def test_a_watch_list_at_a_version_that_is_too_new_is_asked_for_by_quorum():
    too_large = Timeout("Too large resource version: 9, current: 5", status=504)
    script = Script(too_large, [Bookmark("5", initial_events_end=True), 2])
    await play(script, watch_list=True)
    assert [verb for verb, _ in script.asked] == ["watch", "watch"]
    assert asyncio.get_running_loop().time() == pytest.approx(2), "at once"


async def test_a_server_that_does_not_know_watch_lists_is_asked_only_once():
    refused = Invalid("sendInitialEvents is forbidden", status=422)
    script = Script(refused, Page((), "5"), [2, EXPIRED], Page((), "6"), [2])
    await play(script, watch_list=True)
    assert [verb for verb, _ in script.asked] == ["watch", "list", "watch", "list", "watch"]


@pytest.mark.parametrize("end", [[], [REFUSED], [EXPIRED], [GarbledLine("x")]], ids=repr)
async def test_a_watch_list_that_breaks_in_the_middle_falls_back_to_a_plain_list(end):
    script = Script([added("half", "1"), *end], Page((obj("a", "4"),), "5"), [2])
    events, _ = await play(script, watch_list=True)
    assert [e for e in events if isinstance(e, Replaced)] == [Replaced((obj("a", "4"),), "5")]


async def test_a_watch_list_after_410_begins_at_the_last_version():
    end = Bookmark("6", initial_events_end=True)
    script = Script([end, modified("a", "8"), 2, EXPIRED], [end, 2])
    await play(script, watch_list=True)
    assert [a["version"] for a in watches(script)] == ["", "8"]
