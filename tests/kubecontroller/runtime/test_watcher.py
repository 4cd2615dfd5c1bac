"""§6.2.1 to 6.2.6: how a collection is listed and watched, against a scripted source."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kubecontroller.client.decode import Page
from kubecontroller.client.errors import (
    Cause,
    ConnectionFailed,
    Expired,
    Forbidden,
    GarbledLine,
    NoAnswer,
    ServerError,
    StreamStalled,
    Timeout,
    TooManyRequests,
)
from kubecontroller.client.meta import ObjectMeta, Projected
from kubecontroller.client.watch import Bookmark, ChangeType, WatchedChange
from kubecontroller.runtime.watch_states import (
    Applied,
    Failed,
    Listed,
    Listing,
    Progress,
    Removed,
    Replaced,
    Streaming,
    Unlisted,
    Waiting,
    Watching,
    after_error,
)
from kubecontroller.runtime.watcher import Watcher


def obj(name: str, version: str) -> Projected:
    return Projected(metadata=ObjectMeta(name=name, namespace="d", resource_version=version))


def added(name: str, version: str) -> WatchedChange[Projected]:
    return WatchedChange(ChangeType.ADDED, obj(name, version))


def modified(name: str, version: str) -> WatchedChange[Projected]:
    return WatchedChange(ChangeType.MODIFIED, obj(name, version))


def deleted(name: str, version: str) -> WatchedChange[Projected]:
    return WatchedChange(ChangeType.DELETED, obj(name, version))


EXPIRED = Expired("too old", status=410, reason="Expired")
BUSY = TooManyRequests("slow down", status=429, reason="TooManyRequests")
REFUSED = ConnectionFailed("connection refused", host="api")
HANG = object()


class Script:
    """A source that plays what it is given: pages, streams (lists of events) and errors."""

    def __init__(self, *replies: Any) -> None:
        self.replies = list(replies)
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.open = 0

    async def list_page(self, **asked: Any) -> Page[Projected]:
        self.asked.append(("list", asked))
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        assert isinstance(reply, Page), f"a list was asked for, the script says {reply}"
        return reply

    @asynccontextmanager
    async def watch(self, **asked: Any) -> AsyncIterator[AsyncIterator[Any]]:
        self.asked.append(("watch", asked))
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        assert isinstance(reply, list), f"a watch was asked for, the script says {reply}"
        self.open += 1
        try:
            yield self._play(reply)
        finally:
            self.open -= 1

    async def _play(self, events: list[Any]) -> AsyncIterator[Any]:
        for event in events:
            if isinstance(event, Exception):
                raise event
            if isinstance(event, int | float):
                await asyncio.sleep(event)
                continue
            if event is HANG:
                await asyncio.Event().wait()
            yield event


async def play(script: Script, *, steps: int = 100, state: Any = None, **options: Any):
    """Run until the script is used up; return all events and states."""
    options.setdefault("random", lambda: 0.0)
    options.setdefault("watch_list", False)
    watcher = Watcher(script, **options)
    state = state if state is not None else Unlisted()
    events, states = [], [state]
    for _ in range(steps):
        if not script.replies and not script.open:
            break
        learnt, state = await watcher.step(state)
        events.extend(learnt)
        states.append(state)
        for event in learnt:
            if isinstance(event, Failed) and isinstance(event.error, AssertionError | IndexError):
                raise event.error  # the script does not fit what was asked for
    await watcher.close()
    return events, states


def lists(script: Script) -> list[dict[str, Any]]:
    return [asked for verb, asked in script.asked if verb == "list"]


def watches(script: Script) -> list[dict[str, Any]]:
    return [asked for verb, asked in script.asked if verb == "watch"]


# §6.2.1


async def test_the_first_list_takes_any_version_and_is_paged():
    script = Script(Page((obj("a", "4"),), "5"), [1.5])
    events, _ = await play(script)
    assert lists(script) == [{"version": "0", "limit": 500, "continue_": ""}]
    assert events == [Replaced((obj("a", "4"),), "5")]
    assert watches(script)[0]["version"] == "5"


async def test_a_list_after_410_is_at_the_last_version_seen_and_in_one_piece():
    script = Script(Page((), "5"), [modified("a", "9"), 2, EXPIRED], Page((), "12"), [1.5])
    await play(script)
    assert [(a["version"], a["limit"]) for a in lists(script)] == [("0", 500), ("9", 0)]


async def test_a_version_that_has_expired_is_listed_by_quorum_at_once():
    script = Script(Page((), "5"), [2, EXPIRED], EXPIRED, Page((), "12"), [1.5])
    loop = asyncio.get_running_loop()
    await play(script)
    assert [a["version"] for a in lists(script)] == ["0", "5", ""]
    assert loop.time() == pytest.approx(2 + 1.5)


async def test_a_version_the_server_has_not_reached_is_listed_by_quorum():
    too_large = Timeout(
        "Too large resource version", status=504, causes=(Cause("ResourceVersionTooLarge"),)
    )
    script = Script(Page((), "5"), [2, EXPIRED], too_large, Page((), "12"), [1.5])
    await play(script)
    assert [(a["version"], a["limit"]) for a in lists(script)] == [("0", 500), ("5", 0), ("", 500)]


async def test_a_quorum_list_that_fails_waits_instead_of_trying_for_ever():
    script = Script(EXPIRED, EXPIRED, EXPIRED, Page((), "3"), [1.5])
    events, _ = await play(script)
    assert [e.wait for e in events if isinstance(e, Failed)] == pytest.approx([0, 0.8, 1.6])


async def test_pages_are_put_together_into_one_list():
    script = Script(
        Page((obj("a", "1"),), "5", "token-1"),
        Page((obj("b", "2"),), "5", "token-2"),
        Page((obj("c", "3"),), "5"),
        [1.5],
    )
    events, states = await play(script)
    assert [o.metadata.name for o in events[0].objects] == ["a", "b", "c"]
    assert [a["continue_"] for a in lists(script)] == ["", "token-1", "token-2"]
    assert sum(isinstance(s, Listing) for s in states) == 3


async def test_pages_seen_at_version_0_keep_later_lists_paged():
    script = Script(
        Page((), "5", "more"), Page((), "5"), [2, EXPIRED], Page((), "9"), [2, EXPIRED],
        Page((), "10"), [1.5],
    )  # fmt: skip
    await play(script)
    assert [(a["version"], a["limit"]) for a in lists(script)][2:] == [("5", 500), ("9", 500)]


async def test_a_page_token_that_expired_falls_back_to_one_whole_list():
    script = Script(
        Page((obj("a", "1"),), "5", "token"),
        EXPIRED,
        Page((obj("a", "1"), obj("b", "6")), "6"),
        [1.5],
    )
    events, _ = await play(script)
    assert [(a["limit"], a["continue_"]) for a in lists(script)][-1] == (0, "")
    assert [o.metadata.name for e in events if isinstance(e, Replaced) for o in e.objects] == [
        "a",
        "b",
    ]


# §6.2.3


@pytest.mark.parametrize(("draw", "seconds"), [(0.0, 300), (0.5, 450), (0.999, 599)])
async def test_the_server_is_asked_to_end_a_watch_after_5_to_10_minutes(draw, seconds):
    script = Script(Page((), "5"), [2])
    await play(script, random=lambda: draw)
    assert watches(script)[0]["server_timeout"] == seconds


async def test_every_event_and_bookmark_advances_the_version_to_come_back_to():
    script = Script(
        Page((), "5"),
        [added("a", "6"), modified("a", "7"), deleted("a", "8"), Bookmark("20")],
        [2],
    )
    events, _ = await play(script)
    assert events[1:] == [
        Applied(obj("a", "6")),
        Applied(obj("a", "7")),
        Removed(obj("a", "8")),
        Progress("20"),
    ]
    assert watches(script)[1]["version"] == "20"


async def test_synthetic_additions_do_not_advance_the_version_before_another_event():
    script = Script(
        Page((), "0"),
        [added("b", "9"), added("a", "3")],
        [added("a", "3"), modified("b", "12"), added("c", "13")],
        [2],
    )
    await play(script)
    assert [a["version"] for a in watches(script)] == ["0", "0", "13"]


# §6.2.4


@pytest.mark.parametrize(
    "error", [REFUSED, BUSY, NoAnswer("no answer")], ids=lambda e: e.__class__.__name__
)
async def test_a_watch_that_cannot_be_opened_is_tried_again_after_a_wait_without_a_list(error):
    script = Script(Page((), "5"), error, [2])
    events, states = await play(script)
    assert [verb for verb, _ in script.asked] == ["list", "watch", "watch"]
    assert Waiting(pytest.approx(0.8), Listed("5")) in states
    assert events[1] == Failed(error, pytest.approx(0.8))


async def test_being_told_to_slow_down_in_the_stream_waits_and_watches_again():
    script = Script(Page((), "5"), [modified("a", "6"), 2, BUSY], [2])
    _, states = await play(script)
    assert Waiting(pytest.approx(0.8), Listed("6")) in states
    assert [a["version"] for a in watches(script)] == ["5", "6"]


async def test_a_server_that_says_how_long_to_wait_is_waited_for():
    busy = TooManyRequests("slow down", status=429, retry_after=17)
    script = Script(Page((), "5"), busy, [2])
    _, states = await play(script)
    assert any(isinstance(s, Waiting) and s.seconds == 17 for s in states)


@pytest.mark.parametrize(
    "error",
    [GarbledLine("garbage"), Forbidden("no", status=403), ServerError("x", status=500)],
    ids=lambda error: type(error).__name__,
)
async def test_anything_else_waits_and_lists_again_at_the_last_version(error):
    script = Script(Page((), "5"), [modified("a", "6"), 2, error], Page((), "8"), [2])
    _, states = await play(script)
    assert Waiting(pytest.approx(0.8), Unlisted(last="6")) in states
    assert lists(script)[1]["version"] == "6"


async def test_the_end_of_a_stream_is_normal_and_it_is_opened_again_at_once():
    script = Script(Page((), "5"), [modified("a", "6")], [2], [2])
    events, _ = await play(script)
    assert [a["version"] for a in watches(script)] == ["5", "6", "6"]
    assert not [e for e in events if isinstance(e, Failed)]
    assert asyncio.get_running_loop().time() == pytest.approx(4)


async def test_a_watch_shorter_than_a_second_and_without_events_counts_as_a_failure():
    script = Script(Page((), "5"), [], [0.5], [2])
    events, _ = await play(script)
    waits = [e.wait for e in events if isinstance(e, Failed)]
    assert waits == pytest.approx([0.8, 1.6])
    assert "within a second" in str(events[1].error)


async def test_a_stream_that_broke_off_after_living_is_opened_again_at_once():
    script = Script(Page((), "5"), [modified("a", "6"), REFUSED], [2])
    await play(script)
    assert [a["version"] for a in watches(script)] == ["5", "6"]
    assert asyncio.get_running_loop().time() == pytest.approx(2)


async def test_a_server_that_answers_every_watch_with_410_is_not_listed_in_a_hot_loop():
    replies: list[Any] = []
    for n in range(10):
        replies += [Page((), str(5 + n)), EXPIRED]
    script = Script(*replies)
    await play(script)
    assert asyncio.get_running_loop().time() > 60


async def test_410_after_a_server_was_away_lists_at_once_however_long_it_was_away():
    """What was watched is too old by then: the wait for the server is over."""
    script = Script(Page((), "5"), [2, REFUSED], *[REFUSED] * 6, EXPIRED, Page((), "90"), [1.5])
    events, _ = await play(script)
    waits = [e.wait for e in events if isinstance(e, Failed)]
    assert waits == pytest.approx([0, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 0])


async def test_a_watch_list_that_ends_with_410_at_once_waits_before_the_next():
    end = Bookmark("9", initial_events_end=True)
    script = Script([end, EXPIRED], [end, 2])
    events, _ = await play(script, watch_list=True)
    assert [e.wait for e in events if isinstance(e, Failed)] == pytest.approx([0.8])


# §6.2.5


async def test_waits_grow_from_800_ms_to_30_s_and_begin_again_after_two_minutes_of_health():
    script = Script(*[REFUSED] * 8, Page((), "5"), [200], REFUSED, [2])
    events, _ = await play(script)
    waits = [e.wait for e in events if isinstance(e, Failed)]
    assert waits == pytest.approx([0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30, 0.8])


# §6.2.6


async def test_silence_is_tolerated_for_longer_than_a_bookmark_takes_and_not_for_minutes():
    script = Script(Page((), "5"), [2])
    await play(script, random=lambda: 0.5)
    assert 60 < watches(script)[0]["idle"] <= 120


async def test_a_stream_that_is_suspected_is_opened_again_at_the_last_version():
    """Whoever knows of a change that was not told does not wait for the silence to be noticed."""
    script = Script(Page((), "5"), [modified("a", "6"), HANG], [2])
    watcher = Watcher(script, random=lambda: 0.5, watch_list=False)
    asyncio.get_running_loop().call_later(10.0, watcher.suspect)
    state: Any = Unlisted()
    while script.replies:
        _, state = await watcher.step(state)
    assert [a["version"] for a in watches(script)] == ["5", "6"]
    assert len(lists(script)) == 1
    assert asyncio.get_running_loop().time() == pytest.approx(10.0)
    watcher.suspect()  # nothing is waited for: nothing happens
    await watcher.close()


async def test_initial_events_that_stop_are_not_waited_for_but_listed():
    script = Script([added("a", "3"), HANG], Page((obj("a", "3"),), "5"), [2])
    watcher = Watcher(script, random=lambda: 0.5)
    state: Any = Unlisted()
    while script.replies:
        _, state = await watcher.step(state)
    assert len(lists(script)) == 1
    assert asyncio.get_running_loop().time() <= 60
    await watcher.close()


async def test_a_stream_that_hangs_without_closing_is_opened_again_at_the_last_version():
    script = Script(Page((), "5"), [modified("a", "6"), 600, StreamStalled("silent")], [2])
    await play(script)
    assert [a["version"] for a in watches(script)] == ["5", "6"]
    assert len(lists(script)) == 1


async def test_cancelling_a_step_closes_the_stream():
    script = Script(Page((), "5"), [HANG])
    watcher = Watcher(script, random=lambda: 0.0, watch_list=False)
    state: Any = Unlisted()
    while not isinstance(state, Watching):
        _, state = await watcher.step(state)
    step = asyncio.create_task(watcher.step(state))
    await asyncio.sleep(1)
    assert script.open == 1
    step.cancel()
    with pytest.raises(asyncio.CancelledError):
        await step
    assert script.open == 0


async def test_a_bug_is_reported_as_it_is_and_everything_is_listed_again_after_a_wait():
    bug = KeyError("a bug")
    script = Script(Page((), "5"), [bug], Page((), "6"), [2])
    events, _ = await play(script)
    (failed,) = [event for event in events if isinstance(event, Failed)]
    assert failed.error is bug
    assert failed.wait > 0
    assert [verb for verb, _ in script.asked] == ["list", "watch", "list", "watch"]
    assert script.open == 0


async def test_a_stream_that_somebody_else_cancelled_is_not_the_end_of_the_watcher():
    def cancelled():
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        return future

    class Cancelled(Script):
        async def _play(self, events: list[Any]) -> AsyncIterator[Any]:
            await cancelled()
            yield

    script = Cancelled(Page((), "5"), [], Page((), "6"), [])
    events, _ = await play(script)
    assert [type(event) for event in events] == [Replaced, Failed, Replaced, Failed]
    assert script.open == 0


def test_where_to_go_after_an_error_is_a_pure_function_of_state_and_error():
    watching = Watching("6", opened=0.0, events=3)
    assert after_error(watching, EXPIRED, now=100) == (Unlisted(last="6"), False)
    assert after_error(watching, EXPIRED, now=0.5) == (Unlisted(last="6"), True)
    assert after_error(Listed("6"), EXPIRED, now=100) == (Unlisted(last="6"), False)
    listed = Listed("6", fresh=True)
    assert after_error(listed, EXPIRED, now=100) == (Unlisted(last="6"), True)
    assert after_error(Streaming(last="4"), REFUSED, now=0) == (
        Unlisted(last="4", plain=True),
        False,
    )
