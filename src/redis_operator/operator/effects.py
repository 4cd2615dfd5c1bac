"""How each kind of action is carried out: live facts, precondition, effect, verification.

A table of effects maps the kind of an action to its `Effect`. Servers, objects and movers each have
their own table, and a mode may add more: there is no central list of kinds. The precondition is the
one in `planning.preconditions`, which plans are checked with too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from redis_operator.operator.errors import Refused
from redis_operator.planning.actions import Action
from redis_operator.planning.preconditions import ActionFacts, precondition

__all__ = ["Effect", "Effects", "carry_out", "require"]


class Effect(Struct, frozen=True):
    """What is read before an action, what is done, and what is awaited afterwards."""

    do: Callable[[Any, ActionFacts], Awaitable[None]]
    read: Callable[[Any], Awaitable[ActionFacts]] | None = None
    verify: Callable[[Any], Awaitable[None]] | None = None


Effects: TypeAlias = Mapping[Any, Effect]  # by the type of the action


async def carry_out(effects: Effects, action: Action) -> None:
    """Read the current facts, check the precondition, act, and verify the effect."""
    effect = effects[type(action)]
    facts = await effect.read(action) if effect.read is not None else ActionFacts()
    require(precondition(action, facts))
    await effect.do(action, facts)
    if effect.verify is not None:
        await effect.verify(action)


def require(limitation: str | None) -> None:
    """Refuse an action for the reason a predicate gives, if it gives one."""
    if limitation is not None:
        raise Refused(limitation)
