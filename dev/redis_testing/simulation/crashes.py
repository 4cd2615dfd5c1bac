"""Death and lost answers at every effect of a scenario: always the same end.

A run without any fault says which effects there are and what the end is. Then the scenario is
played once more, and at each effect the whole world branches: a copy of the process continues with
the strike, and a fresh operator must come to the same end there. K-01, K-02, K-03
"""

from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from .process import Effect, Strike
from .scenarios import Scenario, formed, play
from .summary import summary
from .system import Broken, Simulation, Snapshot, simulate

__all__ = ["Blow", "Reference", "piece", "reference", "spread", "strike_at_each", "tear_points"]

_GIVEN_UP_SECONDS = 45.0  # no caller waits for the lost reply any more
_MOST_CPU_SECONDS = 180
_MANY = 1000  # effects, beyond which rows of the same kind are not visited one by one

Blow = tuple[int, Strike]
"""The number of an effect, and what befalls it."""

Tell = Callable[[Blow, str], None]


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
    """Return the effects worth dying at: every one, unless there are very many.

    Then of a row of the same kind (thousands of slots given away one by one) the first, the middle
    and the last.
    """
    if len(effects) <= _MANY:
        return list(range(len(effects)))
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


def piece(points: Sequence[int], number: int, of: int) -> list[Blow]:
    """Return one of several equal parts of all strikes at the points, to run them apart."""
    blows = [(point, strike) for point in points for strike in Strike]
    return blows[number::of]


def strike_at_each(known: Reference, blows: Iterable[Blow], tell: Tell) -> None:
    """Play the scenario with each of the strikes; return for each what went wrong (or nothing)."""
    trunk = _Trunk(known, tell)
    for number, strike in blows:
        trunk.due.setdefault(number, []).append(strike)
    trunk.grow()


@dataclass
class _Trunk:
    """One run without a strike, from which the others branch off. In a branch `blow` is set."""

    known: Reference
    tell: Tell
    due: dict[int, list[Strike]] = field(default_factory=dict)
    blow: Blow | None = None
    _simulation: Simulation | None = None
    _pipe: int = -1

    def grow(self) -> None:
        """Play to the end, with all branches on the way."""
        problem = ""
        try:
            end = simulate(self._run, seed=self.known.seed, snapshot=self.known.snapshot)
            if end != self.known.end:
                problem = f"ends otherwise:\n{_differences(self.known.end, end)}"
        except BaseException as error:
            if self.blow is None:
                raise
            problem = f"{type(error).__name__}: {error}"
        if self.blow is not None:
            self._finish(problem)
        if problem:
            raise Broken(f"{self.known.scenario}: the same seed must give the same end; {problem}")

    async def _run(self, simulation: Simulation) -> dict[str, Any]:
        self._simulation = simulation
        simulation.journal.decide = self._decide
        await play(simulation, self.known.scenario)
        return summary(simulation, exact_slots=self.known.scenario.exact_slots)

    def _decide(self, effect: Effect) -> Strike | None:
        if self.blow is not None:
            return None
        expected = self.known.effects[effect.number : effect.number + 1]
        if expected != (effect,):
            raise Broken(f"the same seed must give the same history: {effect}, not {expected}")
        for strike in self.due.get(effect.number, ()):
            if self._branch((effect.number, strike)):
                return strike
        return None

    def _branch(self, blow: Blow) -> bool:
        """Go on twice: true at once in the branch, false here when the branch has ended."""
        loop = asyncio.get_running_loop()
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            resource.setrlimit(resource.RLIMIT_CPU, (_MOST_CPU_SECONDS, _MOST_CPU_SECONDS + 5))
            asyncio._set_running_loop(loop)  # noqa: SLF001 - asyncio asks whose process runs it
            self.blow, self._pipe = blow, writing
            if blow[1] is Strike.LOST_REPLY and self._simulation is not None:
                self._simulation.quiet_seconds = _GIVEN_UP_SECONDS
            return True
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            told = pipe.read().decode()
        _, code = os.waitpid(child, 0)
        problem = told if code == 0 else f"the branch ended with {code}: {told}"
        if problem:
            effect = self.known.effects[blow[0]]
            problem = f"{self.known.scenario}: {blow[1]} at {effect}: {problem}"
        self.tell(blow, problem)
        return False

    def _finish(self, problem: str) -> NoReturn:
        with os.fdopen(self._pipe, "wb") as pipe:
            pipe.write(problem.encode())
        os._exit(0)


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
