"""A RedisFailover in simulation: it becomes a database, follows it, and survives its operator."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from kubecontroller.client.errors import NotFound
from kubecontroller.client.meta import Manifest
from kubecontroller.client.objects import EVENTS
from kubecontroller.client.patches import MergePatch
from redis_operator.operator.world import REDIS_FAILOVERS, REDISES
from redis_testing.simulation.crashes import Blow, Reference, reference, strike_at_each
from redis_testing.simulation.failover import failover
from redis_testing.simulation.process import Strike
from redis_testing.simulation.redisfailovers import (
    REDISFAILOVER_SCENARIOS,
    change_redisfailover,
    redisfailover,
    shows_ready,
)
from redis_testing.simulation.scenarios import formed
from redis_testing.simulation.summary import is_gone
from redis_testing.simulation.system import DATABASE, NAMESPACE, Simulation, simulate
from support.histories import draw_some

pytestmark = pytest.mark.timeout(900)  # by the clock of a busy machine
KEY = (NAMESPACE, DATABASE)


async def shown(simulation: Simulation) -> Manifest:
    return await simulation.client.get(REDIS_FAILOVERS, KEY)


def ready_of(found: Manifest) -> Manifest:
    conditions = (found.get("status") or {}).get("conditions") or ()
    return next((dict(c) for c in conditions if c["type"] == "Ready"), {})


async def until_ready(simulation: Simulation) -> Manifest:
    async def ready() -> bool:
        return shows_ready(simulation)

    await simulation.until_all(ready, within=240.0, what="the RedisFailover is ready")
    return await shown(simulation)


async def until_refused(simulation: Simulation, reason: str) -> Manifest:
    async def refused() -> bool:
        return ready_of(await shown(simulation)).get("reason") == reason

    await simulation.until_all(refused, within=30.0, what=f"it says {reason}")
    return await shown(simulation)


def from_a_formed_one(play: Callable[[Simulation], Any]) -> None:
    async def begun(simulation: Simulation) -> None:
        simulation.start_operator()
        await asyncio.sleep(2.0)
        await play(simulation)

    simulate(begun, snapshot=formed(redisfailover()))


def test_it_becomes_a_database_shows_its_status_and_writes_nothing_at_rest() -> None:
    async def play(simulation: Simulation) -> None:
        simulation.start_operator()
        await simulation.apply(redisfailover(storage=False))
        status = (await until_ready(simulation))["status"]
        redis = await simulation.redis()
        assert redis["spec"]["mode"] == "Failover"
        assert redis["spec"]["replicas"] == 2
        assert (status["ready"], status["phase"], status["redis"]) == ("3/3", "Ready", DATABASE)
        for name in ("primary", "endpoints", "binding", "version"):
            assert status[name] == redis["status"][name]
        await asyncio.sleep(11)
        seen = len(simulation.journal.effects)
        await asyncio.sleep(40)
        assert simulation.journal.effects[seen:] == []

    simulate(play)


async def _changed(simulation: Simulation) -> None:
    await change_redisfailover(
        simulation, redis={"replicas": 4, "customConfig": ["maxmemory-policy allkeys-lru"]}
    )
    found = await until_ready(simulation)
    redis = await simulation.redis()
    assert (redis["spec"]["replicas"], redis["spec"]["config"]) == (
        3,
        {"maxmemory-policy": "allkeys-lru"},
    )
    assert found["status"]["ready"] == "4/4"
    assert ready_of(found)["observedGeneration"] == found["metadata"]["generation"]
    await change_redisfailover(simulation, redis={"customConfig": None})
    await until_ready(simulation)
    assert "config" not in (await simulation.redis())["spec"]


def test_what_is_changed_reaches_the_database_and_what_is_removed_goes() -> None:
    from_a_formed_one(_changed)


async def _refused(simulation: Simulation) -> None:
    before = (await simulation.redis())["metadata"]["generation"]
    await change_redisfailover(
        simulation, redis={"customConfig": ["maxmemory-policy allkeys-lru", "requirepass x"]}
    )
    found = await until_refused(simulation, "InvalidSpec")
    told = ready_of(found)
    assert told["message"].startswith("spec.redis.customConfig[1]: requirepass is set by the")
    assert told["observedGeneration"] == found["metadata"]["generation"]
    assert found["status"]["ready"] == "3/3"  # what runs is shown as it is
    assert (await simulation.redis())["metadata"]["generation"] == before
    await change_redisfailover(simulation, redis={"customConfig": ["maxmemory-policy allkeys-lru"]})
    await until_ready(simulation)


def test_a_spec_that_cannot_be_followed_leaves_the_database_as_it_is() -> None:
    from_a_formed_one(_refused)


async def _shrunk(simulation: Simulation) -> None:
    size = {"resources": {"requests": {"storage": "500Mi"}}}
    storage = {"persistentVolumeClaim": {"spec": size}}
    await change_redisfailover(simulation, redis={"storage": storage})
    told = ready_of(await until_refused(simulation, "InvalidSpec"))
    path = "spec.redis.storage.persistentVolumeClaim.spec.resources.requests.storage"
    assert told["message"] == f"{path}: volumes cannot shrink; it was 1Gi"


def test_a_change_that_volumes_do_not_allow_is_refused_with_the_field_of_the_person() -> None:
    from_a_formed_one(_shrunk)


async def _edited(simulation: Simulation) -> None:
    await simulation.change(replicas=1, paused=True)

    async def reverted() -> bool:
        return (await simulation.redis())["spec"]["replicas"] == 2

    await simulation.until_all(reverted, within=20.0, what="reverted")
    assert (await simulation.redis())["spec"]["paused"] is True


def test_a_field_that_is_translated_is_put_back_and_others_are_a_persons() -> None:
    from_a_formed_one(_edited)


async def _taken_away(simulation: Simulation) -> None:
    before = (await simulation.redis())["metadata"]["uid"]
    await simulation.client.delete(REDISES, KEY)

    async def another() -> bool:
        found = await simulation.found()
        return bool(found) and found["metadata"]["uid"] != before

    await simulation.until_all(another, within=60.0, what="made again")
    await until_ready(simulation)


def test_a_database_that_somebody_deletes_is_made_again() -> None:
    async def play(simulation: Simulation) -> None:
        simulation.start_operator()
        await simulation.apply(redisfailover(storage=False))
        await until_ready(simulation)
        await _taken_away(simulation)
        page = await simulation.client.list(EVENTS, namespace=KEY[0])
        told = {event.reason for event in page.items if event.type == "Warning"}
        assert "SecretLost" not in told, "the servers of the old database are not this one's"

    simulate(play)


async def _made_again(simulation: Simulation) -> None:
    await simulation.client.delete(REDIS_FAILOVERS, KEY)
    await simulation.apply(redisfailover())
    found = await until_ready(simulation)
    redis = await simulation.redis()
    owners = [owner["uid"] for owner in redis["metadata"]["ownerReferences"]]
    assert owners == [found["metadata"]["uid"]]


def test_one_that_is_made_again_at_once_waits_for_the_end_of_the_old_database() -> None:
    async def play(simulation: Simulation) -> None:
        simulation.start_operator()
        await simulation.apply(redisfailover(storage=False))
        await until_ready(simulation)
        await _made_again(simulation)

    simulate(play)


def test_a_database_of_somebody_else_is_refused_by_name_and_never_touched() -> None:
    async def play(simulation: Simulation) -> None:
        simulation.start_operator()
        await simulation.apply(failover(storage=False))
        await simulation.until_ready()
        before = await simulation.redis()
        await simulation.apply(redisfailover(storage=False))
        found = await until_refused(simulation, "ChildRefused")
        told = ready_of(found)["message"]
        assert told.startswith(f"Redis {DATABASE} already exists and does not belong to this")
        assert "ready" not in found["status"]  # nothing of it is shown as ours
        await asyncio.sleep(15)
        after = await simulation.redis()
        assert after["metadata"]["generation"] == before["metadata"]["generation"]
        assert "ownerReferences" not in after["metadata"]
        await simulation.client.delete(REDIS_FAILOVERS, KEY)
        await asyncio.sleep(5)
        assert await simulation.found()  # it does not go with what does not own it
        await simulation.apply(redisfailover(storage=False))
        await until_refused(simulation, "ChildRefused")
        label = {"redisoperator.dev/redisfailover": DATABASE}
        change = MergePatch({"metadata": {"labels": label}})
        await simulation.client.patch(REDISES, KEY, change)  # a person hands it over
        await until_ready(simulation)
        assert (await simulation.redis())["metadata"]["uid"] == before["metadata"]["uid"]

    simulate(play)


async def _deleted(simulation: Simulation) -> None:
    await simulation.client.delete(REDIS_FAILOVERS, KEY)

    async def gone() -> bool:
        return is_gone(simulation)

    await simulation.until_all(gone, within=90.0, what="gone")
    with pytest.raises(NotFound):
        await shown(simulation)


def test_deleting_it_deletes_the_database() -> None:
    from_a_formed_one(_deleted)


# The operator dies at every effect of this controller, and its answers are lost


@cache
def known(name: str) -> Reference:
    scenario = next(s for s in REDISFAILOVER_SCENARIOS if s.name == name)
    return reference(scenario, seed=1)


def effects_of_ours(found: Reference) -> list[int]:
    """Return the writes of this controller, and those of the other to the same objects."""
    status = f"/redisfailovers/{DATABASE}/status"
    return [
        effect.number
        for effect in found.effects
        if effect.detail.endswith(status) or effect.kind == "api PATCH redis"
    ]


def problems(found: Reference, blows: list[Blow]) -> list[str]:
    told: dict[Blow, str] = {}
    strike_at_each(found, blows, told.__setitem__)
    assert set(told) == set(blows)
    return [problem for problem in told.values() if problem]


NAMES = [str(scenario) for scenario in REDISFAILOVER_SCENARIOS[:2]]


@pytest.mark.slow
@pytest.mark.parametrize("name", draw_some(NAMES, 1, name="redisfailover"))
def test_the_end_is_the_same_after_a_strike_at_some_effects(name: str) -> None:
    found = known(name)
    first, second, *_, last = effects_of_ours(found)
    blows = [*((first, strike) for strike in Strike), (second, Strike.CRASH_AFTER)]
    blows = draw_some([*blows, (last, Strike.CRASH_BEFORE)], 3, name=name)
    assert problems(found, blows) == []


@pytest.mark.campaign
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("strike", Strike, ids=lambda strike: strike.name)
def test_the_end_is_the_same_after_a_strike_at_any_effect(name: str, strike: Strike) -> None:
    found = known(name)
    blows = [(number, strike) for number in effects_of_ours(found)]
    assert len(blows) >= 3
    assert problems(found, blows) == []
