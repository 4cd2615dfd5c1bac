"""Work on the API that a pass waits for only a moment."""

from __future__ import annotations

import asyncio

import pytest

from kubecontroller.testing.loop import run
from redis_operator.operator.background import Background, Pending

KEY, OTHER = ("default", "db"), ("default", "other")


async def answered(after: float, answer: str = "written") -> str:
    await asyncio.sleep(after)
    return answer


async def refused(after: float) -> str:
    await asyncio.sleep(after)
    raise ValueError("refused")


def test_what_is_answered_at_once_is_the_answer_and_nobody_is_woken() -> None:
    async def scenario() -> None:
        woken: list[object] = []
        work = Background(on_end=woken.append)
        assert await work.run(KEY, "first", lambda: answered(0.1)) == "written"
        with pytest.raises(ValueError, match="refused"):
            await work.run(KEY, "second", lambda: refused(0.1))
        assert await work.run(KEY, "third", lambda: answered(0.1, "again")) == "again"
        assert woken == []

    run(scenario())


def test_what_takes_longer_goes_on_and_nothing_else_of_its_database_begins() -> None:
    async def scenario() -> None:
        loop, woken, begun = asyncio.get_running_loop(), [], []
        work = Background(on_end=lambda key: woken.append((key, loop.time())))

        async def second() -> str:
            begun.append(loop.time())
            return "second"

        start = loop.time()
        assert await work.run(KEY, "first", lambda: answered(20.0)) == Pending("first")
        assert loop.time() - start < 1.0
        moment = loop.time()
        assert await work.run(KEY, "second", second) == Pending("first")
        assert loop.time() == moment
        assert await work.run(OTHER, "of another", second) == "second"
        await asyncio.sleep(30.0)
        assert woken == [(KEY, start + 20.0)]
        assert await work.run(KEY, "second", second) == "second"
        assert len(begun) == 2

    run(scenario())


def test_what_fails_late_wakes_nobody_and_may_be_tried_again() -> None:
    async def scenario() -> None:
        woken: list[object] = []
        work = Background(on_end=woken.append)
        assert await work.run(KEY, "first", lambda: refused(20.0)) == Pending("first")
        await asyncio.sleep(30.0)
        assert woken == []
        assert await work.run(KEY, "again", lambda: answered(0.1)) == "written"

    run(scenario())


def test_work_that_is_stopped_has_ended_and_a_pass_that_is_cancelled_ends_its_own() -> None:
    async def scenario() -> None:
        woken: list[object] = []
        ended: list[str] = []

        async def hanging(name: str) -> str:
            try:
                return await answered(20.0)
            finally:
                ended.append(name)

        work = Background(on_end=woken.append)
        await work.stop(KEY)
        assert await work.run(KEY, "first", lambda: hanging("first")) == Pending("first")
        await work.stop(KEY)
        assert ended == ["first"]
        a_pass = asyncio.create_task(work.run(KEY, "second", lambda: hanging("second")))
        await asyncio.sleep(0.1)
        a_pass.cancel()
        await asyncio.sleep(0.1)
        assert ended == ["first", "second"]
        assert await work.run(KEY, "third", lambda: answered(0.1)) == "written"
        assert woken == []

    run(scenario())
