"""Jobs beside the passes: one at a time by name, held back after a failure, and stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from kubecontroller.testing.loop import VirtualLoop
from redis_operator.operator.errors import ActionError
from redis_operator.operator.jobs import Job, Jobs, loop_time

KEY, OTHER = ("ns", "db"), ("ns", "other")
NAME = ("move", "0")


def virtual(scenario: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(scenario)


class Work:
    """Work that takes seconds and then fails or ends."""

    def __init__(self, seconds: float = 0.0, why: str = "") -> None:
        self.seconds, self.why = seconds, why
        self.begun = 0

    async def __call__(self, job: Job[str, int]) -> None:
        self.begun += 1
        await asyncio.sleep(self.seconds)
        job.note(1)
        if self.why:
            raise ActionError(self.why)


def test_a_job_runs_once_until_it_ends_and_its_end_is_told() -> None:
    async def scenario() -> None:
        heard: list[Any] = []
        jobs: Jobs[str, int] = Jobs(on_end=heard.append)
        work = Work(seconds=5)
        await asyncio.sleep(7)
        jobs.run(KEY, NAME, "first", work)
        jobs.run(KEY, NAME, "second", work)
        (job,) = jobs.under_way(KEY)
        assert (job.what, job.begun, job.progress) == ("first", 7.0, None)
        assert list(jobs.under_way(OTHER)) == []
        await asyncio.sleep(6)
        assert (work.begun, heard, job.progress, job.heard) == (1, [KEY], 1, 12.0)
        assert list(jobs.under_way(KEY)) == []
        jobs.run(KEY, NAME, "third", work)
        await asyncio.sleep(6)
        assert work.begun == 2

    virtual(scenario())


def test_a_job_that_passes_carry_on_begins_once() -> None:
    async def scenario() -> None:
        jobs: Jobs[str, int] = Jobs()
        first = jobs.begin(KEY, NAME, "first")
        assert jobs.begin(KEY, NAME, "second") is first
        jobs.run(KEY, NAME, "third", Work())
        assert first.task is None

    virtual(scenario())


def test_a_job_that_fails_is_held_back_longer_each_time() -> None:
    async def scenario() -> None:
        jobs: Jobs[str, int] = Jobs()
        for wait in (1, 2, 4, 8, 16, 32, 60, 60):
            assert jobs.limitation(KEY, *NAME) is None
            jobs.run(KEY, NAME, "any", Work(why="no route"))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            words = f"the last attempt failed, the next follows {wait} s after it: no route"
            assert jobs.limitation(KEY, *NAME) == words
            assert jobs.limitation(KEY, "another") is None
            assert jobs.limitation(OTHER, *NAME) is None
            await asyncio.sleep(wait - 0.5)
            assert jobs.limitation(KEY, *NAME) == words
            await asyncio.sleep(0.5)
        jobs.run(KEY, NAME, "any", Work())
        await asyncio.sleep(1)
        jobs.run(KEY, NAME, "any", Work(why="again"))
        await asyncio.sleep(0.5)
        assert "the next follows 1 s after it" in (jobs.limitation(KEY, *NAME) or "")

    virtual(scenario())


def test_a_failure_is_told_until_the_job_is_not_tried_again() -> None:
    async def scenario() -> None:
        jobs: Jobs[str, int] = Jobs()
        jobs.run(KEY, NAME, "any", Work(why="no route"))
        await asyncio.sleep(0.5)
        assert jobs.failure(KEY) == "no route"
        assert jobs.failure(OTHER) == ""
        await asyncio.sleep(10)
        assert jobs.failure(KEY) == "no route"
        await asyncio.sleep(0.5)
        assert jobs.failure(KEY) == ""

    virtual(scenario())


def test_a_job_that_ends_with_an_unexpected_error_is_reported_and_held_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        jobs: Jobs[str, int] = Jobs()
        begun: list[float] = []

        async def breaks(_: Job[str, int]) -> None:
            begun.append(loop_time())
            raise ValueError("a fault of the program")

        for _ in range(200):  # passes
            if jobs.limitation(KEY, *NAME) is None:
                jobs.run(KEY, NAME, "any", breaks)
            await asyncio.sleep(0.1)
        assert jobs.failure(KEY).startswith("unexpected error (ValueError); the log")
        assert list(jobs.under_way(KEY)) == []
        assert len(begun) == 5, "after 1, 2, 4 and 8 s"

    virtual(scenario())
    assert [one.levelname for one in caplog.records] == ["ERROR"] * 5
    assert "ValueError: a fault of the program" in caplog.text


def test_a_job_that_is_stopped_has_ended() -> None:
    async def scenario() -> None:
        heard: list[Any] = []
        jobs: Jobs[str, int] = Jobs(on_end=heard.append)
        jobs.run(KEY, NAME, "any", Work(seconds=100))
        jobs.run(KEY, ("move", "1"), "any", Work(seconds=100))
        await asyncio.sleep(1)
        await jobs.stop(KEY, *NAME)
        await jobs.stop(KEY, "unknown")
        assert (loop_time(), heard) == (1.0, [KEY])
        assert len(list(jobs.under_way(KEY))) == 1
        assert jobs.failure(KEY) == ""
        await jobs.stop(KEY, "move", "1")
        jobs.begin(KEY, NAME, "carried on by passes")
        await jobs.stop(KEY, *NAME)
        assert len(list(jobs.under_way(KEY))) == 1

    virtual(scenario())


def test_a_job_ends_at_its_next_word_once_another_operator_leads() -> None:
    async def scenario() -> None:
        leads = [True]
        jobs: Jobs[str, int] = Jobs(may_act=lambda: leads[0])
        done: list[int] = []

        async def work(job: Job[str, int]) -> None:
            for number in range(5):
                job.note(number)
                await asyncio.sleep(1)
                done.append(number)

        jobs.run(KEY, NAME, "any", work)
        await asyncio.sleep(1.5)
        leads[0] = False
        await asyncio.sleep(10)
        assert done == [0, 1]
        carried = jobs.begin(KEY, NAME, "any")
        carried.note(7)
        assert carried.progress == 7

    virtual(scenario())


def test_what_is_forgotten_is_of_one_database_and_does_not_run() -> None:
    async def scenario() -> None:
        jobs: Jobs[str, int] = Jobs()
        for key in (KEY, OTHER):
            jobs.run(key, ("failed",), "any", Work(why="no route"))
            jobs.run(key, ("runs",), "any", Work(seconds=100))
            jobs.begin(key, ("carried",), "any")
        await asyncio.sleep(0.5)
        jobs.forget(KEY)
        assert (jobs.failure(KEY), jobs.failure(OTHER)) == ("", "no route")
        assert len(list(jobs.under_way(KEY))) == 1
        assert len(list(jobs.under_way(OTHER))) == 2
        for key in (KEY, OTHER):
            await jobs.stop(key, "runs")

    virtual(scenario())
