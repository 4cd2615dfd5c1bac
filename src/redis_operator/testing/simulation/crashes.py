"""Death and lost answers at every effect of a scenario, one run each: always the same end.

A run without any fault says which effects there are and what the end is. Then the scenario is run
again for each effect and each strike; a fresh operator must come to the same end. K-01, K-02, K-03
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .process import Effect, Strike
from .scenarios import Scenario, formed, play
from .summary import summary
from .system import Broken, Simulation, Snapshot, simulate

_GIVEN_UP_SECONDS = 45.0  # by then nobody waits for the lost answer any more

__all__ = ["Reference", "reference", "spread", "strike_at", "tear_points"]


@dataclass(frozen=True)
class Reference:
    """What a scenario does and comes to when nothing goes wrong beside."""

    scenario: Scenario
    seed: int
    effects: tuple[Effect, ...]
    end: dict[str, Any]
    snapshot: Snapshot | None


def reference(scenario: Scenario, *, seed: int = 1) -> Reference:
    """Play a scenario once without faults."""
    snapshot = formed(scenario.base) if scenario.base is not None else None

    async def run(simulation: Simulation) -> Reference:
        await play(simulation, scenario)
        end = summary(simulation, exact_slots=scenario.exact_slots)
        return Reference(scenario, seed, tuple(simulation.journal.effects), end, snapshot)

    return simulate(run, seed=seed, snapshot=snapshot)


def tear_points(effects: Sequence[Effect]) -> list[int]:
    """Return the effects worth dying at: of a row of the same kind the first, middle and last."""
    points: list[int] = []
    start = 0
    for number in range(1, len(effects) + 1):
        if number == len(effects) or effects[number].kind != effects[start].kind:
            last = number - 1
            points += sorted({start, (start + last) // 2, last})
            start = number
    return points


def spread(points: Sequence[int], count: int) -> list[int]:
    """Return at most so many of the points, evenly spread, the last one among them."""
    if len(points) <= count:
        return list(points)
    return [points[(number + 1) * len(points) // count - 1] for number in range(count)]


def strike_at(known: Reference, number: int, strike: Strike) -> None:
    """Play the scenario with one strike; raise `Broken` unless the end is the same."""
    scenario = known.scenario
    struck: list[Effect] = []

    def decide(effect: Effect) -> Strike | None:
        if effect.number != number:
            return None
        struck.append(effect)
        return strike

    async def run(simulation: Simulation) -> dict[str, Any]:
        simulation.journal.decide = decide
        if strike is Strike.LOST_REPLY:
            simulation.quiet_seconds = _GIVEN_UP_SECONDS
        try:
            await play(simulation, scenario)
        except Broken as broken:
            raise Broken(f"{scenario.name}: {strike} at {struck}:\n{broken}") from broken
        return summary(simulation, exact_slots=scenario.exact_slots)

    end = simulate(run, seed=known.seed, snapshot=known.snapshot)
    if not struck or struck[0].kind != known.effects[number].kind:
        raise Broken(
            f"{scenario.name}: effect {number} was {known.effects[number]} and is now "
            f"{struck or 'nothing'}: the same seed must give the same history"
        )
    if end != known.end:
        differences = _differences(known.end, end)
        raise Broken(f"{scenario.name}: {strike} at {struck[0]} ends otherwise:\n{differences}")


def _differences(one: Any, other: Any, path: str = "") -> str:
    if isinstance(one, dict) and isinstance(other, dict):
        parts = [
            _differences(one.get(key), other.get(key), f"{path}/{key}")
            for key in sorted({*one, *other})
            if one.get(key) != other.get(key)
        ]
        return "\n".join(parts)
    if isinstance(one, list) and isinstance(other, list):
        gone = [item for item in one if item not in other]
        new = [item for item in other if item not in one]
        return f"{path}: without {gone}\n{path}: with {new}"
    return f"{path}: {one!r} and {other!r}"
