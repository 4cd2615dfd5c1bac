"""Work on a database that outlasts a pass: slot migrations, changes of passwords.

A job has a name, a beginning and progress; it can be stopped, and it says why it makes no progress.
A job that fails is delayed, longer each time. What a job leaves unfinished when the process dies is
found and finished after the next observation: nothing here has to survive. I13
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Generic, TypeVar

from msgspec import Struct

from kubecontroller import Key, fields
from redis_operator.operator.errors import ActionError
from redis_operator.planning.reporting.degradations import Degradation
from redis_operator.redis.errors import RedisError

__all__ = ["Job", "Jobs", "loop_time"]

_LOG = logging.getLogger(__name__)
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 60.0
_MINDED_SECONDS = 10.0  # a job that is not retried within this time is not wanted any more
_Name = tuple[str, ...]
_What = TypeVar("_What")
_Progress = TypeVar("_Progress")


def loop_time() -> float:
    """Return the seconds that jobs are measured in."""
    return asyncio.get_running_loop().time()


class Job(Struct, Generic[_What, _Progress]):
    """One job in progress."""

    what: _What
    begun: float
    may_act: Callable[[], bool]
    heard: float = 0.0  # when it last reported progress
    progress: _Progress | None = None
    problem: Degradation | None = None  # why it makes no progress, for the status
    task: asyncio.Task[None] | None = None

    def note(self, progress: _Progress) -> None:
        """Remember its progress and the time; end it if another operator leads now."""
        if not self.may_act() and self.task is not None:
            self.task.cancel()
        self.progress, self.heard = progress, loop_time()


class _Failure(Struct, frozen=True):
    """A job that ended early: why, how often in a row, and when it may be retried."""

    why: str
    times: int
    wait: float
    until: float


class Jobs(Generic[_What, _Progress]):
    """The jobs of one kind, of all databases of one operator."""

    def __init__(
        self,
        *,
        on_end: Callable[[Key], None] = lambda _: None,
        may_act: Callable[[], bool] = lambda: True,
    ) -> None:
        self._on_end = on_end
        self._may_act = may_act
        self._jobs: dict[tuple[Key, _Name], Job[_What, _Progress]] = {}
        self._failures: dict[tuple[Key, _Name], _Failure] = {}

    def under_way(self, key: Key) -> Iterator[Job[_What, _Progress]]:
        """Return the jobs of a database."""
        return (job for place, job in self._jobs.items() if place[0] == key)

    def begin(self, key: Key, name: _Name, what: _What) -> Job[_What, _Progress]:
        """Begin a job that the passes continue; one that has begun is returned as it is."""
        fresh: Job[_What, _Progress] = Job(what, begun=loop_time(), may_act=self._may_act)
        return self._jobs.setdefault((key, name), fresh)

    def run(
        self,
        key: Key,
        name: _Name,
        what: _What,
        work: Callable[[Job[_What, _Progress]], Coroutine[Any, Any, None]],
    ) -> None:
        """Begin a job that runs beside the passes, unless it is in progress."""
        if (key, name) not in self._jobs:
            job = self.begin(key, name, what)
            job.task = asyncio.create_task(self._run((key, name), work(job)))

    async def _run(self, place: tuple[Key, _Name], work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
            self._failures.pop(place, None)
        except (ActionError, RedisError) as error:
            self._fail(place, str(error))
            _LOG.warning("a job stopped early", extra=fields(database=place[0], why=error))
        except Exception as error:  # a bug: no pass waits for the job, so nothing else reports it
            kind = type(error).__name__
            self._fail(place, f"unexpected error ({kind}); the log of the operator has the details")
            _LOG.exception("a job raised an unexpected error", extra=fields(database=place[0]))
        finally:
            self._jobs.pop(place, None)
            self._on_end(place[0])

    def _fail(self, place: tuple[Key, _Name], why: str) -> None:
        before = self._failures.get(place)
        times = before.times + 1 if before is not None else 1
        wait = min(_LONGEST_WAIT, _FIRST_WAIT * 2.0 ** min(times - 1, 10))
        self._failures[place] = _Failure(why=why, times=times, wait=wait, until=loop_time() + wait)

    def failure(self, key: Key) -> str:
        """Return why the last job of a database ended early; empty: it is not wanted any more."""
        now = loop_time()
        for place, failed in self._failures.items():
            if place[0] == key and now < failed.until + _MINDED_SECONDS:
                return failed.why
        return ""

    def limitation(self, key: Key, *name: str) -> str | None:
        """Return why a job may not begin yet: one that fails repeatedly is delayed."""
        failed = self._failures.get((key, name))
        if failed is None or failed.until <= loop_time():
            return None
        # Without the remaining seconds: otherwise the status would be written each second.
        return f"the last attempt failed, the next follows {failed.wait:g} s after it: {failed.why}"

    async def stop(self, key: Key, *name: str) -> None:
        """End a job and wait until it has ended."""
        found = self._jobs.get((key, name))
        if found is not None and found.task is not None:
            found.task.cancel()
            await asyncio.wait([found.task])

    def forget(self, key: Key) -> None:
        """Forget the failures of a database, and the jobs that its passes continued."""
        self._failures = {at: failed for at, failed in self._failures.items() if at[0] != key}
        self._jobs = {at: job for at, job in self._jobs.items() if at[0] != key or job.task}
