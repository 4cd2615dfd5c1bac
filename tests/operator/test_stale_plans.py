"""Plans that are older than a failover of the sentinels: what they decided meanwhile stands.

An operator that stands still between its observation and a step finds another primary when it goes
on. The old one was only frozen, and still says that it leads. Real servers and sentinels. I2, I7
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.operator.replicated import NAME, Database, replicated

from redis_operator.planning.failover.actions import Follow, Promote, Unwatch, Watch
from redis_operator.planning.fence import Fence
from redis_operator.redis import commands, sentinel
from redis_testing.servers import find_engines

pytestmark = pytest.mark.servers


@pytest.fixture(params=find_engines(), ids=lambda engine: engine.name)
async def database(request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    async with replicated(request.param, announced=True) as made:
        yield made


async def fail_over(database: Database) -> int:
    """Have the sentinels replace a frozen primary, which wakes up after that; return by whom.

    Sentinels do not reach the old primary any more, so that it goes on to say that it leads.
    """
    options = {"down-after-milliseconds": "300", "failover-timeout": "2000"}
    async with asyncio.timeout(60):
        for watcher in database.sentinels:
            await watcher.ask(sentinel.set_options(NAME, options))
        while True:
            if all([await _knows_all(database, n) for n in range(3)]):
                break
            await asyncio.sleep(0.05)
        old = database.servers[0]
        old.send_signal(signal.SIGSTOP)
        while True:
            places = {named[0] for named in await database.named()}
            if old.address.host not in places and len(places) == 1 and await _at_rest(database):
                break
            await asyncio.sleep(0.05)
        shut = commands.acl_setuser("sentinel", ["off"])
        old.send_signal(signal.SIGCONT)
        await old.ask(shut)
    (place,) = places
    return next(n for n in (1, 2) if database.servers[n].address.host == place)


async def _knows_all(database: Database, ordinal: int) -> bool:
    watcher = database.sentinels[ordinal]
    replicas, others = await watcher.ask(sentinel.replicas(NAME), sentinel.sentinels(NAME))
    return len(replicas) == 2 and len(others) == 2  # type: ignore[arg-type]


async def _at_rest(database: Database) -> bool:
    views = [(await s.ask(sentinel.primary(NAME)))[0] for s in database.sentinels]
    return not any(view.failover_state for view in views)  # type: ignore[attr-defined]


async def _replica(ordinal: int, database: Database, of: int) -> None:
    """Make a server a replica again of whom it followed when the plan was made."""
    await database.servers[ordinal].ask(
        commands.replica_of(database.servers[of].address.host, 6379)
    )


async def _check(database: Database, action: Any, leads: int) -> None:
    """The step is refused, and everything is as the sentinels decided."""
    why = await database.do(action)
    assert " now" in why or "names" in why, why
    assert await database.named() == [(database.servers[leads].address.host, 6379)] * 3
    assert await database.is_primary(leads)


@pytest.mark.slow
async def test_a_switchover_to_a_replica_of_a_deposed_primary_is_refused(
    database: Database,
) -> None:
    """A replica that was not reconfigured yet would be promoted beside the new primary."""
    switches = {n: await database.switch(n) for n in (1, 2)}
    leads = await fail_over(database)
    other = 3 - leads
    await _replica(other, database, 0)
    await _check(database, switches[other], leads)
    assert not await database.is_primary(other)


@pytest.mark.slow
async def test_sentinels_that_failed_over_are_not_led_back(database: Database) -> None:
    """All three were to have other settings: they would monitor the old primary again."""
    old = await database.at(0)
    steps = [Watch(await database.watcher(n), NAME, old, 2, named=database.of(0)) for n in range(3)]
    leads = await fail_over(database)
    for step in steps:
        await _check(database, step, leads)


@pytest.mark.slow
async def test_no_second_replica_is_promoted_after_a_failover(database: Database) -> None:
    """The primary had ended when the plan was made, and no sentinel had noticed it."""
    steps = {}
    for n in (1, 2):
        steps[n] = Promote(
            node=await database.at(n),
            follows=database.of(0),
            fence=Fence.NEVER_LED,
            sentinels=tuple([await database.watcher(w) for w in range(3)]),
            name=NAME,
            named=(database.of(0),),
        )
    leads = await fail_over(database)
    other = 3 - leads
    await _replica(other, database, 0)
    await _check(database, steps[other], leads)
    assert not await database.is_primary(other)


@pytest.mark.slow
async def test_who_was_elected_meanwhile_does_not_follow_the_old_primary(
    database: Database,
) -> None:
    """It was a second primary when the plan was made, and would drop all that it took since."""
    old = await database.at(0)
    watchers = tuple([await database.watcher(w) for w in range(3)])
    steps = {n: Follow(await database.at(n), old, "", "", watchers, NAME, 2) for n in (1, 2)}
    leads = await fail_over(database)
    await _check(database, steps[leads], leads)


@pytest.mark.slow
async def test_sentinels_that_failed_over_are_not_made_to_monitor_nothing(
    database: Database,
) -> None:
    steps = [Unwatch(await database.watcher(n), NAME, database.of(0)) for n in range(3)]
    leads = await fail_over(database)
    for step in steps:
        await _check(database, step, leads)


async def test_sentinels_that_did_not_change_are_told_as_planned(database: Database) -> None:
    """The same steps are carried out where nothing happened meanwhile."""
    old = await database.at(0)
    watcher = await database.watcher(0)
    assert not await database.do(Watch(watcher, NAME, old, 2, named=database.of(0)))
    assert not await database.do(Unwatch(watcher, NAME, database.of(0)))
    assert not await database.do(Watch(watcher, NAME, old, 2, named=database.of(0)))
    assert await database.named() == [(database.servers[0].address.host, 6379)] * 3
    assert not await database.do(await database.switch(1))
    assert await database.is_primary(1)
