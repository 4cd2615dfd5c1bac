"""People read what will be done, and why, before it is done."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from redis_operator.manifests.pod import RESTARTED_ANNOTATION
from redis_operator.operator.wanted import PRIMARY_ANNOTATION
from redis_testing.simulation.process import Effect
from redis_testing.simulation.scenarios import formed
from redis_testing.simulation.system import Simulation, database, simulate

Act = Callable[[Simulation], Awaitable[None]]


def plan_now(simulation: Simulation) -> str:
    """Read `status.plan` as everybody can at this very moment."""
    for collection in simulation.server.core.store.collections():
        for entry in collection.entries.values():
            found = msgspec.json.decode(entry.body)
            if found.get("kind") == "Redis":
                return "; ".join(found.get("status", {}).get("plan", ()))
    return ""


def plans_at(effect_kind: str, act: Act, **spec: Any) -> list[str]:
    """Return what the plan said when the operator first did something of a kind."""

    async def scenario(simulation: Simulation) -> list[str]:
        found: list[str] = []

        def note(effect: Effect) -> None:
            if not found and effect.kind.startswith(effect_kind):
                found.append(plan_now(simulation))

        simulation.start_operator()
        await asyncio.sleep(3.0)
        simulation.journal.decide = note  # type: ignore[assignment]  # nothing befalls them
        await act(simulation)
        await simulation.until(lambda _: bool(found), within=120, what=f"done: {effect_kind}")
        await simulation.until_ready()
        return found

    return simulate(scenario, snapshot=formed(database(**spec)))


async def restart(simulation: Simulation) -> None:
    await simulation.annotate(**{RESTARTED_ANNOTATION: "2026-01-01T00:00:00Z"})


async def switch(simulation: Simulation) -> None:
    replica = next(s for s in simulation.world.servers.values() if not s.is_primary)
    await simulation.annotate(**{PRIMARY_ANNOTATION: replica.name})


@pytest.mark.parametrize(
    ("effect", "act", "words"),
    [
        ("api DELETE pods", restart, "old revision"),
        ("redis CLUSTER FAILOVER", switch, "was requested as primary"),
        (
            "redis CONFIG SET",
            lambda s: s.change(config={"maxmemory-policy": "allkeys-lru"}),
            "maxmemory-policy",
        ),
        ("redis CLUSTER SETSLOT", lambda s: s.change(shards=4), "slots"),
    ],
    ids=["roll", "switchover", "setting", "shards"],
)
def test_a_change_is_announced_with_its_reason_before_it_is_made(
    effect: str, act: Act, words: str
) -> None:
    plans = plans_at(effect, act)
    assert words in plans[0], plans


def test_nothing_is_written_for_a_plan_while_all_is_as_wanted() -> None:
    async def scenario(simulation: Simulation) -> int:
        simulation.start_operator()
        await asyncio.sleep(5.0)
        before = len(simulation.journal.effects)
        await asyncio.sleep(60.0)
        return len(simulation.journal.effects) - before

    assert simulate(scenario, snapshot=formed(database())) == 0


def test_a_dead_primary_is_replaced_before_anything_is_written_about_it() -> None:
    async def scenario(simulation: Simulation) -> list[str]:
        simulation.start_operator()
        await asyncio.sleep(3.0)
        before = len(simulation.journal.effects)
        primary = next(s for s in simulation.world.servers.values() if s.is_primary)
        simulation.kill(primary.name)
        await simulation.until(
            lambda _: any("FAILOVER" in e.kind for e in simulation.journal.effects[before:]),
            within=10,
            what="promoted",
        )
        await simulation.until_ready()
        return [effect.kind for effect in simulation.journal.effects[before:]]

    kinds = simulate(scenario, snapshot=formed(database()))
    promoted = next(n for n, kind in enumerate(kinds) if "FAILOVER" in kind)
    assert not any("redis/status" in kind for kind in kinds[:promoted]), kinds
