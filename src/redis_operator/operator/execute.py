"""Carries out a plan: stages in order, the steps of a stage at the same time.

A step that is refused or fails ends the plan after its stage; the next observation shows the state
after that. Nothing is decided here.
"""

from __future__ import annotations

import asyncio
from collections import ChainMap
from collections.abc import Callable

from msgspec import Struct

from redis_operator.operator.effects import Effects, carry_out
from redis_operator.operator.errors import ActionError
from redis_operator.planning.actions import Action
from redis_operator.planning.advice import Plan
from redis_operator.redis.errors import RedisError

__all__ = ["Executor", "StepOutcome"]


class StepOutcome(Struct, frozen=True):
    """The outcome of one step: done, or why not."""

    action: Action
    error: str = ""

    @property
    def done(self) -> bool:
        """Whether the step took effect."""
        return not self.error


class Executor:
    """Carries out actions for one database during one pass.

    `before` and `after` are called around every effect: leadership is checked there, and tests
    crash the operator there.
    """

    def __init__(
        self,
        *effects: Effects,
        before: Callable[[Action], None] = lambda _: None,
        after: Callable[[Action], None] = lambda _: None,
    ) -> None:
        self._effects: Effects = ChainMap(*map(dict, effects))
        self._before = before
        self._after = after

    async def carry_out(self, plan: Plan) -> tuple[StepOutcome, ...]:
        """Carry out the plan's stages in order until one has a step that was not done."""
        outcomes: list[StepOutcome] = []
        for stage in plan.stages:
            done = await asyncio.gather(*(self._attempt(action) for action in stage))
            outcomes += done
            if not all(outcome.done for outcome in done):
                break
        return tuple(outcomes)

    async def _attempt(self, action: Action) -> StepOutcome:
        try:
            self._before(action)
            await carry_out(self._effects, action)
        except (ActionError, RedisError) as error:
            return StepOutcome(action, str(error))
        self._after(action)
        return StepOutcome(action)
