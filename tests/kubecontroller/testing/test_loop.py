from __future__ import annotations

import asyncio
import time
from contextlib import suppress

import pytest

from kubecontroller.testing.loop import Deadlock, VirtualLoop, run


async def test_an_hour_of_sleep_takes_no_real_time():
    loop = asyncio.get_running_loop()
    real, virtual = time.monotonic(), loop.time()
    await asyncio.sleep(3600)
    assert loop.time() - virtual == pytest.approx(3600)
    assert time.monotonic() - real < 1800  # on the busiest machine


async def test_timers_fire_in_the_order_of_their_deadlines():
    fired: list[tuple[str, float]] = []

    async def note(name: str, after: float) -> None:
        await asyncio.sleep(after)
        fired.append((name, asyncio.get_running_loop().time()))

    await asyncio.gather(note("late", 10), note("soon", 0.001), note("middle", 5))
    assert [name for name, _ in fired] == ["soon", "middle", "late"]
    assert [at for _, at in fired] == pytest.approx([0.001, 5, 10])


async def test_the_clock_stands_still_while_anything_can_run():
    loop = asyncio.get_running_loop()
    before = loop.time()
    for _ in range(1000):
        await asyncio.sleep(0)
    assert loop.time() == before


def test_a_deadlock_is_reported_with_the_tasks_and_lines_that_wait():
    async def wait_for_nobody() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        child = asyncio.create_task(wait_for_nobody(), name="the-stuck-one")
        await child

    with pytest.raises(Deadlock, match=r"the-stuck-one .*wait_for_nobody.*test_loop\.py:\d+"):
        run(main())


async def test_threads_are_waited_for_before_the_clock_jumps():
    loop = asyncio.get_running_loop()
    before = loop.time()

    async with asyncio.timeout(1):
        assert await asyncio.to_thread(lambda: time.sleep(0.05) or "done") == "done"
    assert loop.time() == before


async def test_a_timeout_fires_at_its_virtual_deadline():
    loop = asyncio.get_running_loop()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(30):
            await asyncio.Event().wait()
    assert loop.time() == pytest.approx(30)


async def test_real_sockets_work_in_virtual_time():
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"hello\n")
    assert await reader.readline() == b"hello\n"
    writer.close()
    server.close()
    await server.wait_closed()


@pytest.mark.asyncio(loop_factories=["real"])
async def test_a_test_may_ask_for_real_time():
    assert not isinstance(asyncio.get_running_loop(), VirtualLoop)


def test_the_clock_may_start_elsewhere_than_zero():
    async def now() -> float:
        return asyncio.get_running_loop().time()

    assert run(now(), start=1000.0) == 1000.0


def test_who_waits_for_a_moment_does_not_wake_just_before_it() -> None:
    """Several who did would keep each other awake for ever, while the clock stands still."""
    woken = 0

    async def wait_until(moment: float, turns: int) -> None:
        nonlocal woken
        loop = asyncio.get_running_loop()
        while loop.time() < moment:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(moment):
                    await asyncio.Event().wait()
            woken += 1
            assert woken < 1000, "the clock stands still"
            for _ in range(turns):
                await asyncio.sleep(0)

    async def be_busy() -> None:
        for _ in range(50):
            await asyncio.sleep(0)

    async def wait_together() -> float:
        await asyncio.gather(be_busy(), *(wait_until(314.5, turns) for turns in range(9)))
        return asyncio.get_running_loop().time()

    assert run(wait_together(), start=314.49999999998727) == 314.5
    assert woken == 9
