"""Histories by seed: a planner's trial, or a scenario with one crash and an API that fails.

Each returns nothing and raises when a promise is broken; the message names the seed, which gives
the same history again.
"""

from __future__ import annotations

from random import Random
from typing import Any

from kubecontroller.client.transport import Transport
from kubecontroller.testing.faults import Fault, FaultyTransport, Seeded, StreamFault
from redis_operator.planning.advice import Wanted

from ..cluster.breakages import draw_breakages
from ..cluster.changes import CHANGES
from ..cluster.trial import Trial
from ..cluster.weather import draw_weather
from .process import Effect, Strike
from .scenarios import Scenario, formed, play
from .soak import soak
from .system import Broken, Simulation, database, simulate

__all__ = [
    "GIVEN_UP_SECONDS",
    "STUMBLES",
    "play_struck",
    "play_together",
    "play_trial",
    "play_trouble",
    "stumbling",
]

GIVEN_UP_SECONDS = 45.0
"""By then no request waits for an answer that was lost."""

STUMBLES: dict[Fault | StreamFault, float] = {
    Fault.CONFLICT: 0.02,
    Fault.TOO_MANY: 0.02,
    Fault.SERVER_ERROR: 0.02,
    Fault.RESET_BEFORE: 0.02,
    Fault.RESET_AFTER: 0.02,
    Fault.LOST_REPLY: 0.01,
    Fault.SLOW: 0.01,
    Fault.STALE: 0.3,
    StreamFault.DROPPED: 0.2,
    StreamFault.LATE: 0.2,
    StreamFault.COALESCED: 0.2,
    StreamFault.CUT: 0.1,
    StreamFault.CUT_IN_LINE: 0.1,
    StreamFault.HANG: 0.05,
    StreamFault.GARBAGE: 0.1,
    StreamFault.EXPIRED: 0.1,
}
_MOST_FAULTS = 40  # of one operator process
_LATEST_STRIKE = 200


def stumbling(simulation: Simulation) -> None:
    """Every operator process gets a bounded number of API faults, each its own."""
    simulation.quiet_seconds = GIVEN_UP_SECONDS
    simulation.patience = 5.0
    simulation.journal.is_hindered = True

    def wrap(transport: Transport) -> Transport:
        seed = simulation.seed * 1000 + len(simulation.processes)
        return FaultyTransport(transport, Seeded(seed, STUMBLES, budget=_MOST_FAULTS))

    simulation.wrap = wrap


def play_struck(scenario: Scenario, seed: int) -> str:
    """Play a scenario with API faults and one strike at an effect drawn by seed; return which."""
    random = Random(seed)
    number = int(_LATEST_STRIKE ** random.random()) - 1  # the first ones are the most interesting
    strike = random.choice(tuple(Strike))
    told: list[str] = []

    def decide(effect: Effect) -> Strike | None:
        if told or effect.number < number:
            return None
        told.append(f"{strike}: {effect}")
        return strike

    async def run(simulation: Simulation) -> None:
        stumbling(simulation)
        simulation.journal.decide = decide
        await play(simulation, scenario)

    snapshot = formed(scenario.base) if scenario.base is not None else None
    try:
        simulate(run, seed=seed, snapshot=snapshot)
    except Broken as error:
        raise Broken(f"{scenario} with seed {seed} ({told}): {error}") from error
    return told[0] if told else ""


def play_together(scenario: Scenario, seed: int) -> None:
    """Play a scenario with two operators at work."""

    async def run(simulation: Simulation) -> None:
        simulation.start_operator("second")
        await play(simulation, scenario)

    snapshot = formed(scenario.base) if scenario.base is not None else None
    try:
        simulate(run, seed=seed, snapshot=snapshot)
    except Broken as error:
        raise Broken(f"{scenario} by two operators with seed {seed}: {error}") from error


def play_trouble(seed: int, *, seconds: float, pause: float, **spec: Any) -> list[str]:
    """Live through so many virtual seconds of random trouble; return what happened."""
    return simulate(
        lambda simulation: soak(simulation, seconds=seconds, pause=pause),
        seed=seed,
        snapshot=formed(database(**spec)),
    )


def play_trial(seed: int) -> Trial:
    """One trial of the planner, everything drawn by seed; its verdict is empty when all is well."""
    random = Random(seed)
    persistent = random.random() < 0.8
    wanted = Wanted(
        name="db",
        shards=3,
        replicas=random.choice([1, 1, 2]),
        persistent=persistent,
        volatile=not persistent,  # a lost majority does not come back then
        start_empty=not persistent,
        node_timeout_ms=2000,
        config=(("cluster-node-timeout", "2000"),),
    )
    trial = Trial(
        seed=seed,
        wanted=wanted,
        breakages=draw_breakages(random, [0, 1, 2, 3]),
        changes=random.choices(CHANGES, k=random.choice([0, 0, 1, 2, 3])),
        rivals=random.random() < 0.3,
    )
    if random.random() < 0.2:  # it costs three times as much
        trial.world.weather = draw_weather(random)
    trial.world.migrate_breaks = random.choice([0.0, 0.0, 0.05])
    trial.world.load_seconds = random.choice([0.0, 0.0, 0.0, 1.0, 5.0])
    trial.run()
    return trial
