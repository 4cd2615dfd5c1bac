"""Archives in simulation: whenever the operator dies, there is one worker while it is wanted."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from kubecontroller.client.objects import CONFIG_MAPS
from kubecontroller.client.scheme import Kind
from redis_operator.operator.world import REDIS_BACKUP_SCHEDULES
from redis_testing.simulation.archives import (
    ARCHIVE_SCENARIOS,
    archive_objects,
    archiving,
    condition,
    schedule,
)
from redis_testing.simulation.crashes import Blow, Reference, reference, strike_at_each
from redis_testing.simulation.process import Strike
from redis_testing.simulation.scenarios import formed
from redis_testing.simulation.system import NAMESPACE, Simulation, simulate

RESOURCE_QUOTAS: Kind[Any] = Kind("", "v1", "ResourceQuota", "resourcequotas", True, dict)
pytestmark = pytest.mark.xdist_group("archives")


@cache
def known(number: int) -> Reference:
    return reference(ARCHIVE_SCENARIOS[number], seed=1)


def writes_of_ours(found: Reference) -> list[int]:
    """Return the writes of the worker and what it is given."""
    return [
        effect.number
        for effect in found.effects
        if "hourly-archive" in f"{effect.kind} {effect.detail}"
    ]


def problems(found: Reference, blows: list[Blow]) -> list[str]:
    told: dict[Blow, str] = {}
    strike_at_each(found, blows, told.__setitem__)
    assert set(told) == set(blows)
    return [problem for problem in told.values() if problem]


def test_there_is_one_worker_whenever_the_operator_dies() -> None:
    found = known(0)
    ours = writes_of_ours(found)
    kinds = [e.kind for e in found.effects if e.number in ours]
    assert len(found.end["archives"]) == 3, found.end["archives"]
    assert kinds[:2] == ["api PATCH configmaps", "api PATCH deployments"], kinds  # in this order
    blows = [(ours[0], Strike.CRASH_AFTER), *((ours[1], strike) for strike in Strike)]
    assert problems(found, blows) == []


def test_nothing_is_left_when_it_is_turned_off_whenever_the_operator_dies() -> None:
    found = known(1)
    assert found.end["archives"] == []
    named = {e.number: e.kind for e in found.effects}
    gone = [n for n in writes_of_ours(found) if "DELETE" in named[n]]
    assert len(gone) == 2
    blows = [(gone[0], Strike.CRASH_AFTER), (gone[0], Strike.LOST_REPLY)]
    assert problems(found, [*blows, (gone[1], Strike.CRASH_BEFORE)]) == []


def test_a_restore_point_is_taken_once_whenever_the_operator_dies() -> None:
    found = known(2)
    assert found.end["archives"][-2:] == ["release Completed", "release listed"]
    ours = [e.number for e in found.effects if "jobs" in e.kind]
    kinds = [e.kind for e in found.effects if e.number in ours]
    assert kinds == ["api POST jobs", "api DELETE jobs"], kinds
    blows = [(ours[0], strike) for strike in Strike]
    assert problems(found, [*blows, (ours[1], Strike.CRASH_BEFORE)]) == []


def test_what_is_somebody_elses_is_left_alone_and_named() -> None:
    theirs = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": NAMESPACE, "name": "hourly-archive"},
        "data": {"shards.json": "theirs"},
    }

    async def run(simulation: Simulation) -> None:
        await simulation.client.create(CONFIG_MAPS, theirs)
        simulation.start_operator()
        await ARCHIVE_SCENARIOS[0].act(simulation)

        async def refused() -> bool:
            return archiving(simulation) == ("False", "ChildRefused")

        await simulation.until_all(refused, within=60.0, what="refused")
        found = await simulation.client.get(CONFIG_MAPS, (NAMESPACE, "hourly-archive"))
        assert found.data == {"shards.json": "theirs"}
        assert archive_objects(simulation) == []

    base = ARCHIVE_SCENARIOS[0].base
    assert base is not None
    simulate(run, snapshot=formed(base))


def test_an_archive_is_kept_while_backups_are_refused() -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"namespace": NAMESPACE, "name": "no-backups"},
        "spec": {"hard": {"count/redisbackups.redisoperator.dev": "0"}},
    }

    async def run(simulation: Simulation) -> None:
        await simulation.client.create(RESOURCE_QUOTAS, quota)
        simulation.start_operator()
        await simulation.client.create(REDIS_BACKUP_SCHEDULES, schedule("* * * * *"))

        async def refused() -> bool:
            return condition(simulation, "Scheduled") == ("False", "BackupRefused")

        await simulation.until_all(refused, within=180.0, what="refused")

        async def archived() -> bool:
            return archiving(simulation) == ("True", "Archiving")

        await simulation.until_all(archived, within=120.0, what="archived")
        for kind in ("deployments.apps", "configmaps"):  # and put right where somebody deletes it
            assert kind in archive_objects(simulation)
        await simulation.client.delete(CONFIG_MAPS, (NAMESPACE, "hourly-archive"))

        async def again() -> bool:
            return "configmaps" in archive_objects(simulation)

        await simulation.until_all(again, within=60.0, what="the sources again")
        assert condition(simulation, "Scheduled") == ("False", "BackupRefused")

    base = ARCHIVE_SCENARIOS[0].base
    assert base is not None
    simulate(run, snapshot=formed(base))


@pytest.mark.campaign
@pytest.mark.parametrize("number", range(len(ARCHIVE_SCENARIOS)))
@pytest.mark.parametrize("strike", Strike, ids=lambda strike: strike.name)
def test_the_end_is_the_same_after_a_strike_at_any_effect(strike: Strike, number: int) -> None:
    found = known(number)
    ours = [
        e.number
        for e in found.effects
        if "hourly" in f"{e.kind} {e.detail}" or "redisbackupschedule" in e.detail
    ]
    assert len(ours) >= 3
    assert problems(found, [(n, strike) for n in ours]) == []
