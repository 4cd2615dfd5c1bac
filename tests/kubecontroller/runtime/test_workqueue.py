from __future__ import annotations

import asyncio
import random

import pytest

from kubecontroller.runtime.backoff import ItemExponential
from kubecontroller.runtime.workqueue import (
    LOW_PRIORITY,
    LOWEST_PRIORITY,
    Delays,
    QueueStopped,
    WorkQueue,
)


async def take_all(queue: WorkQueue[str]) -> list[str]:
    taken = []
    while len(queue):
        key = await queue.get()
        taken.append(key)
        queue.done(key)
    return taken


# §6.1.1 and 6.1.2


async def test_a_key_added_many_times_is_taken_once():
    queue = WorkQueue[str]()
    for _ in range(1000):
        queue.add("a")
    assert await take_all(queue) == ["a"]
    assert queue.adds == 1


async def test_keys_of_one_priority_come_in_the_order_they_were_added():
    queue = WorkQueue[str]()
    for key in "cabc":
        queue.add(key)
    assert await take_all(queue) == ["c", "a", "b"]


async def test_every_queued_key_is_dirty_and_not_processing_whatever_happens():
    """The invariant of the three sets, over random histories."""
    for seed in range(200):
        rng = random.Random(seed)
        queue, working = WorkQueue[int](), []
        for _ in range(100):
            match rng.randrange(4):
                case 0 | 1:
                    queue.add(rng.randrange(6), priority=rng.choice([0, 0, 1, LOW_PRIORITY]))
                case 2 if queue._has_ready(LOWEST_PRIORITY):
                    key = await queue.get()
                    assert key not in working, f"seed {seed}: handed out twice at a time"
                    working.append(key)
                case 3 if working:
                    queue.done(working.pop(rng.randrange(len(working))))
            live = {k for n, o, k in queue._order_heap if queue._ready.get(k) == (n, o)}
            assert live == set(queue._ready) - set(working), f"seed {seed}"


async def test_an_add_wakes_one_waiting_worker():
    queue = WorkQueue[str]()
    takers = [asyncio.create_task(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    queue.add("a")
    await asyncio.sleep(1)
    assert [taker.done() for taker in takers] == [True, False, False]
    queue.shut_down()
    for taker in takers[1:]:
        with pytest.raises(QueueStopped):
            await taker


async def test_adds_are_ignored_when_shutting_down():
    queue = WorkQueue[str]()
    queue.shut_down()
    queue.add("a")
    queue.add_after("b", 1)
    queue.add_rate_limited("c")
    assert len(queue) == 0
    with pytest.raises(QueueStopped):
        await queue.get()


# §6.1.3


async def test_get_waits_for_a_key():
    queue = WorkQueue[str]()
    asyncio.get_running_loop().call_later(5, queue.add, "a")
    assert await queue.get() == "a"
    assert asyncio.get_running_loop().time() == pytest.approx(5)


async def test_what_was_ready_is_still_handed_out_after_shutdown_and_only_then_the_stop():
    queue = WorkQueue[str]()
    queue.add("a")
    queue.add("b")
    queue.shut_down()
    assert await take_all(queue) == ["a", "b"]
    with pytest.raises(QueueStopped):
        await queue.get()


async def test_a_cancelled_worker_passes_its_wake_up_on():
    queue = WorkQueue[str]()
    first, second = (asyncio.create_task(queue.get()) for _ in range(2))
    await asyncio.sleep(0)
    queue.add("a")  # wakes the first
    first.cancel()
    assert await second == "a"


async def test_a_worker_for_urgent_keys_takes_no_others():
    queue = WorkQueue[str]()
    urgent = asyncio.create_task(queue.get(at_least=10))
    await asyncio.sleep(0)
    queue.add("slow")
    await asyncio.sleep(1)
    assert not urgent.done()
    queue.add("now", priority=10)
    assert await urgent == "now"
    assert await queue.get() == "slow"


async def test_no_wake_up_is_lost_between_workers_that_take_different_keys():
    queue = WorkQueue[str]()
    first = asyncio.create_task(queue.get())
    urgent = asyncio.create_task(queue.get(at_least=10))
    second = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("slow")  # wakes the first worker, which finds the next one before it
    queue.add("now", priority=10)
    async with asyncio.timeout(5):
        assert await first == "now"
        assert await second == "slow"
    assert not urgent.done()
    urgent.cancel()


async def test_workers_for_urgent_keys_are_told_of_the_end():
    queue = WorkQueue[str]()
    urgent = asyncio.create_task(queue.get(at_least=10))
    await asyncio.sleep(0)
    queue.add("slow")
    queue.shut_down()
    assert await queue.get() == "slow"
    queue.done("slow")
    with pytest.raises(QueueStopped):
        await urgent


@pytest.mark.parametrize("seed", range(40))
async def test_whatever_happens_no_key_waits_while_a_worker_that_would_take_it_is_idle(seed):
    """Workers of both kinds come, go and are cancelled while keys of all priorities are added."""
    chance, queue = random.Random(seed), WorkQueue[int]()
    idle: dict[asyncio.Task[None], int] = {}
    added, taken = set(), set()

    async def work(at_least: int) -> None:
        while True:
            key = await queue.get(at_least=at_least)
            idle.pop(task := asyncio.current_task())
            priority = queue.priority_of(key)
            assert priority >= at_least
            taken.add(key)
            try:
                await asyncio.sleep(chance.choice((0, 0.1, 5)))
            finally:
                queue.done(key)
                idle[task] = at_least

    def start() -> None:
        at_least = chance.choice((LOWEST_PRIORITY, LOWEST_PRIORITY, 10))
        task = asyncio.create_task(work(at_least))
        idle[task] = at_least

    for _ in range(4):
        start()
    for _ in range(300):
        key, priority = chance.randrange(30), chance.choice((LOW_PRIORITY, 0, 10))
        match chance.randrange(8):
            case 0 if idle:
                victim = chance.choice(list(idle))
                del idle[victim]
                victim.cancel()
                start()
            case 1:
                queue.add_after(key, chance.random(), priority=priority)
                added.add(key)
            case 2:
                await asyncio.sleep(chance.choice((0, 0.05, 1)))
            case _:
                queue.add(key, priority=priority)
                added.add(key)
        if chance.random() < 0.3:
            for _ in range(5):
                await asyncio.sleep(0)
            depth = queue.depth() if not queue.working_seconds() else {}
            waits = [a for a in idle.values() if any(p >= a for p in depth)]
            assert not waits, (depth, list(idle.values()))
    idle[asyncio.create_task(work(LOWEST_PRIORITY))] = LOWEST_PRIORITY
    await asyncio.sleep(600)
    assert not len(queue)
    assert taken == added


# §6.1.4


async def test_a_key_being_worked_is_not_handed_out_until_done_and_then_once_more():
    queue = WorkQueue[str]()
    queue.add("a")
    key = await queue.get()
    queue.add("a")
    queue.add("a")
    queue.add("b")
    assert await queue.get() == "b"
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(1)
    assert not waiting.done()
    queue.done(key)
    assert await waiting == "a"
    queue.done("a")
    assert len(queue) == 0


async def test_a_key_added_while_worked_keeps_its_place_in_the_order():
    queue = WorkQueue[str]()
    queue.add("a")
    key = await queue.get()
    queue.add("a")
    queue.add("b")
    queue.done(key)
    assert await take_all(queue) == ["a", "b"]


async def test_done_without_get_is_refused_with_what_to_do():
    queue = WorkQueue[str]()
    with pytest.raises(ValueError, match="exactly once"):
        queue.done("a")


# §6.1.5


async def test_shutting_down_returns_at_once():
    queue = WorkQueue[str]()
    queue.add("a")
    key = await queue.get()
    queue.shut_down()
    queue.add("b")  # not taken any more
    queue.done(key)
    assert len(queue) == 0


# §6.1.6


async def test_a_delay_of_zero_or_less_adds_now():
    queue = WorkQueue[str]()
    queue.add_after("a", 0)
    queue.add_after("b", -1)
    assert await take_all(queue) == ["a", "b"]


async def test_a_delayed_key_is_ready_when_its_delay_is_over():
    queue = WorkQueue[str]()
    queue.add_after("late", 30)
    queue.add_after("soon", 2)
    assert len(queue) == 0
    assert queue.waiting() == 2
    assert await queue.get() == "soon"
    assert asyncio.get_running_loop().time() == pytest.approx(2)
    assert await queue.get() == "late"
    assert asyncio.get_running_loop().time() == pytest.approx(30)


@pytest.mark.parametrize(
    ("first", "second", "expected"), [(10, 3, 3), (3, 10, 3)], ids=["earlier", "later"]
)
async def test_a_second_delay_moves_a_key_earlier_and_never_later(first, second, expected):
    queue = WorkQueue[str]()
    queue.add_after("a", first)
    queue.add_after("a", second)
    assert await queue.get() == "a"
    assert asyncio.get_running_loop().time() == pytest.approx(expected)
    queue.done("a")
    await asyncio.sleep(60)
    assert len(queue) == 0, "the later delay must not fire too"


async def test_in_the_classic_queue_a_plain_add_leaves_the_delay_which_fires_again():
    queue = WorkQueue[str](delays=Delays.SEPARATE)
    queue.add_after("a", 10)
    queue.add("a")
    assert await queue.get() == "a"
    queue.done("a")
    assert await queue.get() == "a"
    assert asyncio.get_running_loop().time() == pytest.approx(10)


async def test_a_heartbeat_finds_keys_whose_timer_is_late_because_the_clock_jumped():
    loop = asyncio.get_running_loop()
    jump = 0.0
    queue = WorkQueue[str](clock=lambda: loop.time() + jump)
    queue.add_after("a", 3600)
    await asyncio.sleep(1)
    jump = 7200.0
    assert await queue.get() == "a"
    assert loop.time() <= 10.01


async def test_a_delay_survives_many_heartbeats():
    queue = WorkQueue[str]()
    queue.add_after("a", 1234.5)
    assert await queue.get() == "a"
    assert asyncio.get_running_loop().time() == pytest.approx(1234.5)


# §6.1.7


async def test_rate_limited_adds_wait_as_long_as_the_limiter_says():
    queue = WorkQueue[str](limiter=ItemExponential(base=1))
    loop = asyncio.get_running_loop()
    at = []
    for _ in range(3):
        queue.add_rate_limited("a")
        key = await queue.get()
        at.append(loop.time())
        queue.done(key)
    assert at == pytest.approx([1, 3, 7])
    assert (queue.failures("a"), queue.retries) == (3, 3)


async def test_forget_clears_only_the_failure_count():
    queue = WorkQueue[str](limiter=ItemExponential(base=1))
    queue.add_rate_limited("a")
    queue.forget("a")
    assert queue.failures("a") == 0
    assert queue.waiting() == 1
    assert await queue.get() == "a"


# §6.1.9


async def test_a_higher_priority_comes_first():
    queue = WorkQueue[str]()
    queue.add("resync", priority=LOW_PRIORITY)
    queue.add("event")
    queue.add("urgent", priority=10)
    assert await take_all(queue) == ["urgent", "event", "resync"]


async def test_adding_again_takes_the_higher_priority_and_goes_to_the_tail_of_that_level():
    queue = WorkQueue[str]()
    queue.add("a", priority=LOW_PRIORITY)
    queue.add("b")
    queue.add("a")
    queue.add("b", priority=LOW_PRIORITY)  # lower: changes nothing
    queue.add("c")
    assert await take_all(queue) == ["b", "a", "c"]
    assert queue.adds == 3


async def test_a_key_becoming_ready_goes_behind_those_already_ready():
    queue = WorkQueue[str]()
    queue.add_after("delayed", 1)
    await asyncio.sleep(0.5)
    queue.add("ready")
    await asyncio.sleep(1)
    assert await take_all(queue) == ["ready", "delayed"]


async def test_a_plain_add_promotes_a_waiting_key_and_its_delay_is_gone():
    queue = WorkQueue[str]()
    queue.add_after("a", 10, priority=5)
    queue.add("b")
    queue.add("a")
    assert await take_all(queue) == ["a", "b"], "the priority of the delay is kept"
    await asyncio.sleep(60)
    assert len(queue) == 0


async def test_a_delay_for_a_key_that_is_ready_changes_nothing_but_may_raise_it():
    queue = WorkQueue[str]()
    queue.add("a")
    queue.add("b")
    queue.add_after("b", 60, priority=1)
    assert await take_all(queue) == ["b", "a"]
    assert queue.waiting() == 0


async def test_the_priority_a_key_was_taken_with_is_known_for_its_requeue():
    queue = WorkQueue[str]()
    queue.add("a", priority=LOW_PRIORITY)
    key = await queue.get()
    assert queue.priority_of(key) == LOW_PRIORITY
    queue.done(key)
    assert queue.priority_of(key) == 0


async def test_a_rate_limited_add_with_a_delay_takes_the_smaller_of_the_two():
    queue = WorkQueue[str](limiter=ItemExponential(base=5))
    queue.add_rate_limited("a", at_most=2)
    queue.add_rate_limited("b", at_most=60)
    loop = asyncio.get_running_loop()
    assert (await queue.get(), loop.time()) == ("a", pytest.approx(2))
    assert (await queue.get(), loop.time()) == ("b", pytest.approx(5))


# §6.1.10


async def test_the_queue_measures_depth_latency_work_and_retries():
    queue = WorkQueue[str]()
    queue.add("a")
    queue.add("b", priority=LOW_PRIORITY)
    assert queue.depth() == {0: 1, LOW_PRIORITY: 1}
    await asyncio.sleep(2)
    key = await queue.get()
    await asyncio.sleep(5)
    assert queue.working_seconds() == [pytest.approx(5)]
    queue.done(key)
    assert queue.working_seconds() == []
    assert (queue.latency.count, queue.latency.total) == (1, pytest.approx(2))
    assert (queue.work_duration.count, queue.work_duration.total) == (1, pytest.approx(5))


async def test_measured_durations_fall_into_cumulative_buckets():
    queue = WorkQueue[str]()
    queue.add("a")
    await asyncio.sleep(2)
    await queue.get()
    buckets = dict(queue.latency.cumulative())
    assert (buckets["1.0"], buckets["10.0"], buckets["+Inf"]) == (0, 1, 1)
