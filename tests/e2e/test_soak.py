"""Random changes and kills on real servers under load: `make soak` (SOAK_SECONDS, SOAK_SEED).

Every write that was acknowledged must be there at the end, except what a killed server had not yet
sent to its replica or written to its disk: each kill may cost at most that, and the number is
bounded and told. Whatever happens, the database is Ready again in the end.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from typing import Any

import pytest

from kubecontroller.client.errors import NotFound
from kubecontroller.client.objects import PODS, SECRETS
from kubecontroller.client.patches import MergePatch

pytestmark = [pytest.mark.e2e, pytest.mark.campaign, pytest.mark.timeout(7200)]

_SECONDS = float(os.environ.get("SOAK_SECONDS", "600"))
_SEED = int(os.environ.get("SOAK_SEED", "1"))
_LOST_PER_KILL = 5
_ON_THE_WAY = 200  # writes, about a second's worth
_BACK_OFF = 660.0  # seconds: a container that was killed often is started after five minutes
_STEPS = (
    *("crash", "delete", "shards", "config", "roll", "operator"),
    *("label", "cordon", "secret", "reboot"),
)


class Trouble:
    """One database in a bad neighbourhood: each method is one thing that people or machines do."""

    def __init__(self, cache: Any, cluster: Any, application: Any, seed: int) -> None:
        self.cache, self.cluster, self.application = cache, cluster, application
        self.chance = random.Random(seed)
        self.history: list[str] = []
        self.kills: list[tuple[int, int]] = []  # how much was acknowledged before and after

    async def step(self) -> None:
        name = self.chance.choice(_STEPS)
        self.history.append(name)
        written = len(self.application.acknowledged)
        print(f"seed {_SEED}, {written} writes: {name}", flush=True)
        await getattr(self, f"_{name}")()

    async def _crash(self) -> None:
        await self._kill(await self.cache.primary_of(self.chance.randrange(3)))

    async def _reboot(self) -> None:
        """Every server at once, as when the machine or the power went."""
        await self.cache.wait_ready(seconds=_BACK_OFF)
        await self._kill(*sorted(await self.cache.pods()))

    async def _kill(self, *pods: str) -> None:
        before = len(self.application.acknowledged)
        await asyncio.gather(*(self.cache.crash(pod) for pod in pods), return_exceptions=True)
        after = len(self.application.acknowledged)
        self.kills += [(before, after)] * len(pods)

    async def _delete(self) -> None:
        await self.cache.delete_pods(self.chance.choice(sorted(await self.cache.pods())))

    async def _shards(self) -> None:
        await self.cache.patch(shards=self.chance.choice((3, 4)))

    async def _config(self) -> None:
        await self.cache.patch(config={"slowlog-max-len": str(self.chance.randrange(100, 200))})

    async def _roll(self) -> None:
        await self.cache.patch(pod={"annotations": {"soak": str(len(self.history))}})

    async def _operator(self) -> None:
        self.cluster.kill_operator()

    async def _label(self) -> None:
        """Somebody removes labels of a pod, a primary's as often as not."""
        pod = self.chance.choice(sorted(await self.cache.pods()))
        gone = MergePatch({"metadata": {"labels": {"redisoperator.dev/shard": None}}})
        try:
            await self.cache.client.patch(PODS, (self.cache.namespace, pod), gone)
        except NotFound:
            return

    async def _cordon(self) -> None:
        nodes = self.cluster.kubectl("get", "nodes", "-o", "name").split()
        node = self.chance.choice(sorted(nodes)).removeprefix("node/")
        self.cluster.kubectl("cordon", node)
        await asyncio.sleep(self.chance.uniform(1.0, 8.0))
        self.cluster.kubectl("uncordon", node)

    async def _secret(self) -> None:
        """Somebody deletes a Secret of the database; it comes back as it was."""
        name = f"{self.cache.name}-{self.chance.choice(('users', 'conn', 'recovery'))}"
        try:
            await self.cache.client.delete(SECRETS, (self.cache.namespace, name))
        except NotFound:
            return


async def test_random_changes_and_kills_lose_nothing_that_was_promised(
    database: Any, cluster: Any
) -> None:
    stored = {"storage": {"size": "1Gi"}, "durability": {"persistence": "aof"}}
    cache = await database(**stored)
    await cache.wait_ready()
    deadline = time.monotonic() + _SECONDS
    async with cache.under_load(writes_per_second=200) as application:
        trouble = Trouble(cache, cluster, application, _SEED)
        while time.monotonic() < deadline:
            await trouble.step()
            await asyncio.sleep(trouble.chance.uniform(0.0, 3.0))
            if trouble.chance.random() < 0.6:
                await cache.wait_ready(seconds=_BACK_OFF)
        await asyncio.sleep(5)  # the last trouble must have been seen before Ready means anything
        await cache.wait_ready(seconds=_BACK_OFF)
    numbers = {write: number for number, write in enumerate(application.acknowledged)}
    lost = sorted(numbers[write] for write in await cache.check(application))
    kills, history = trouble.kills, trouble.history
    told = f"{len(numbers)} acknowledged, {len(history)} steps, kills after {kills}, lost {lost}"
    print(told)
    # Only a kill costs writes, and only those that its replica or its disk did not have yet.
    planned = [n for n in lost if not any(a - _ON_THE_WAY <= n <= b + 10 for a, b in kills)]
    assert planned == [], (told, history)
    assert len(lost) <= len(kills) * _LOST_PER_KILL, (told, history)
    assert len(application.acknowledged) > _SECONDS * 10
