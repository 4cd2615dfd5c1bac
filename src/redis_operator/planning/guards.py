"""What no plan may do, whichever rule plans it: checked before any step. Pure.

Each mode has its own guards; the precondition of each action is checked for all modes.
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
    """The guards of a mode: each returns all breaches of an invariant as sentences."""

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
