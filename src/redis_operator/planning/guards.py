"""What no plan may do, whichever rule asks for it: checked before any step. Pure.

A mode brings its guards; that each action's own precondition holds is checked for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from .actions import Action
from .advice import Plan
from .preconditions import facts_of, precondition
from .topology import Topology

__all__ = ["Guards", "breaches"]


class Guards(Struct, frozen=True):
    """The guards of a mode: each answers every breach of an invariant in words."""

    step: Callable[[Any, Action], list[str]]
    stage: Callable[[Any, tuple[Action, ...]], list[str]]


def breaches(situation: Topology, plan: Plan, guards: Guards) -> tuple[str, ...]:
    """Every way in which a plan would break an invariant; none for a good plan."""
    found: list[str] = []
    for step in plan.steps:
        found += guards.step(situation, step)
    for stage in plan.stages:
        found += guards.stage(situation, stage)
    return (*found, *_unmet(situation, plan))


def _unmet(situation: Topology, plan: Plan) -> tuple[str, ...]:
    """Preconditions that do not hold even now; those of later stages depend on the first."""
    reasons = (
        precondition(step, facts_of(situation, step)) for stage in plan.stages[:1] for step in stage
    )
    return tuple(f"its own precondition: {reason}" for reason in reasons if reason is not None)
