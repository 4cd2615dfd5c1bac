"""Backups in simulation: wherever the operator dies, one is taken all the same.

A run strikes at a few of the effects that count, drawn by its seed; `make seeds` strikes at all of
them, and the campaign at every effect.
"""

from __future__ import annotations

from functools import cache

import pytest

from redis_testing.simulation.backups import BACKUP_SCENARIOS, UPGRADE_OF_ONE
from redis_testing.simulation.crashes import Blow, Reference, reference, strike_at_each
from redis_testing.simulation.process import Strike
from redis_testing.simulation.scenarios import Scenario
from support.histories import draw_some

pytestmark = pytest.mark.xdist_group("backups")


@cache
def known(number: int = 0) -> Reference:
    return reference(BACKUP_SCENARIOS[number], seed=1)


def effects_of_ours(found: Reference) -> list[int]:
    """Return the writes of the controller of backups, and those of passwords that it needs."""
    return [
        effect.number
        for effect in found.effects
        if "redisbackup" in effect.detail or "jobs" in effect.kind or "secrets" in effect.kind
    ]


def problems(found: Reference, blows: list[Blow]) -> list[str]:
    told: dict[Blow, str] = {}
    strike_at_each(found, blows, told.__setitem__)
    assert set(told) == set(blows)
    return [problem for problem in told.values() if problem]


def test_one_worker_takes_it() -> None:
    [[name, phase, _, attempt, shards, size, *_, jobs]] = known().end["backups"]
    assert (name, phase, attempt, shards, jobs) == ("monday", "Completed", 1, 3, 1)
    assert size == 300


def test_the_end_is_the_same_after_a_strike_at_some_effects() -> None:
    found = known()
    ours = effects_of_ours(found)
    created = next(e.number for e in found.effects if "jobs" in e.kind)
    blows = draw_some(((created, strike) for strike in Strike), 1, name="backup created")
    others = [(number, Strike.CRASH_AFTER) for number in ours if number != created]
    assert problems(found, [*blows, *draw_some(others, 2, name="backup")]) == []


@pytest.mark.slow
def test_a_schedule_takes_one_backup_for_one_time_whenever_the_operator_dies() -> None:
    found = known(1)
    [[name, phase, *_]] = found.end["backups"]
    assert (name[:7], phase) == ("yearly-", "Completed")
    ours = effects_of_ours(found)
    named = {e.number: f"{e.kind} {e.detail}" for e in found.effects}
    decided = [
        n for n in ours if any(f"{verb} redisbackups" in named[n] for verb in ("POST", "DELETE"))
    ]
    told = [n for n in ours if "/status" in named[n] and "redisbackupschedules" not in named[n]]
    rest = [n for n in ours if n not in decided and n not in told and "secrets" not in named[n]]
    assert len(decided) == 2
    assert any("DELETE jobs" in named[n] for n in rest)
    blows = draw_some([(n, strike) for n in decided for strike in Strike], 2, name="decided")
    others = [(n, Strike.CRASH_AFTER) for n in rest]
    assert problems(found, [*blows, *draw_some(others, 1, name="scheduled")]) == []


def waiting(found: Reference, first: str) -> tuple[int, int]:
    """Return when the backup is created, and when what waited for it begins."""
    [[_, phase, *_]] = found.end["backups"]
    assert phase == "Completed"
    named = {e.number: f"{e.kind} {e.detail}" for e in found.effects}
    created = next(n for n, text in named.items() if "POST redisbackups" in text)
    works = next(n for n, text in named.items() if "POST jobs" in text)
    begins = next(n for n, text in named.items() if n > created and first in text)
    assert works < begins  # nothing is replaced or deleted before
    return created, begins


@pytest.mark.slow
def test_an_upgrade_of_a_cluster_waits_for_its_backup() -> None:
    waiting(known(2), "PATCH statefulsets")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scenario", "first"),
    [
        (UPGRADE_OF_ONE, "PATCH statefulsets"),
        (BACKUP_SCENARIOS[3], "DELETE persistentvolumeclaims"),
    ],
    ids=["upgrade", "deletion"],
)
def test_what_waits_for_a_backup_comes_to_the_same_end_whenever_the_operator_dies(
    scenario: Scenario, first: str
) -> None:
    found = reference(scenario, seed=1)
    blows = [(n, strike) for n in waiting(found, first) for strike in Strike]
    assert problems(found, draw_some(blows, 2, name=f"waiting {scenario}")) == []


@pytest.mark.campaign
@pytest.mark.parametrize("number", range(len(BACKUP_SCENARIOS)))
@pytest.mark.parametrize("strike", Strike, ids=lambda strike: strike.name)
def test_the_end_is_the_same_after_a_strike_at_any_effect(strike: Strike, number: int) -> None:
    found = known(number)
    blows = [(number, strike) for number in effects_of_ours(found)]
    assert len(blows) >= 3
    assert problems(found, blows) == []


@pytest.mark.slow
def test_a_database_begins_with_a_backup_whenever_the_operator_dies() -> None:
    found = known(4)
    named = {e.number: f"{e.kind} {e.detail}" for e in found.effects}
    jobs = [n for n, text in named.items() if "jobs" in text]
    started = [n for n in jobs if "POST" in named[n]]
    assert len(started) == 1, named
    after = [n for n, text in named.items() if n > started[0] and "secrets" in text]
    told = [n for n, text in named.items() if n > started[0] and "redis/db/status" in text]
    assert after
    assert told
    blows = draw_some([(started[0], strike) for strike in Strike], 1, name="restore started")
    others = [(n, Strike.CRASH_AFTER) for n in (*jobs, *after, *told[:4]) if n != started[0]]
    assert problems(found, [*blows, *draw_some(others, 2, name="restore")]) == []


@pytest.mark.slow
def test_a_backup_takes_the_place_of_the_data_whenever_the_operator_dies() -> None:
    """What drops the data is started once, after they are in a backup that is complete."""
    found = known(5)
    [[_, phase, _, attempt, failures, saves, held]] = found.end["restores"]
    assert (phase, attempt, failures, saves, held) == ("Completed", 1, 0, 1, None)
    named = {e.number: f"{e.kind} {e.detail}" for e in found.effects}
    jobs = [n for n, text in named.items() if "POST jobs" in text]
    assert len(jobs) == 3, named  # it is read, the present data are saved, it is given
    saved = next(n for n, text in named.items() if "POST redisbackups" in text)
    assert jobs[0] < saved < jobs[1] < jobs[2]
    ours = [n for n, text in named.items() if "redisrestores" in text]
    ends = [n for n, text in named.items() if "DELETE jobs" in text]
    blows = draw_some([(jobs[2], strike) for strike in Strike], 1, name="data dropped")
    others = [(n, Strike.CRASH_AFTER) for n in (*ours[::2], *ends)]
    assert problems(found, [*blows, *draw_some(others, 2, name="data replaced")]) == []
