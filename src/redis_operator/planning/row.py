"""A rule as a row: its name, its purpose, and why it has its place in the order."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from .actions import Action
from .advice import Plan

__all__ = ["Companion", "Kind", "Row", "Rule"]

Rule = Callable[[Any], Plan | None]  # of the topology of its mode, or of any
Companion = Callable[[Any], tuple[Action, ...]]


class Kind(Enum):
    """What a rule is for."""

    SAFETY = "safety"  # keeps data and clients from harm
    REPAIR = "repair"  # brings back what was lost or left unfinished
    CHANGE = "change"  # makes the changes that the spec asks for
    UPKEEP = "upkeep"  # follows whatever else is in progress, and counts as part of it


class Row(Struct, frozen=True):
    """One rule in the order of the policy."""

    name: str
    rule: Rule
    kind: Kind
    event: str  # the reason of the event that reports its steps; empty: it has none
    why: str  # the reason for its place in the order
    actions: tuple[type[Any], ...] = ()  # kinds of steps that it may plan; others are refused
    keeps: tuple[str, ...] = ()  # invariants that its order of steps keeps
    cases: tuple[str, ...] = ()  # failure cases that it handles

    def here(
        self,
        why: str = "",
        *,
        actions: tuple[type[Any], ...] = (),
        keeps: tuple[str, ...] = (),
        cases: tuple[str, ...] = (),
    ) -> Row:
        """A shared rule in the table of a mode: why it has its place, and what the mode adds."""
        return replace(
            self,
            why=why or self.why,
            actions=self.actions + actions,
            keeps=self.keeps + keeps,
            cases=self.cases + cases,
        )

    def unexpected_steps(self, plan: Plan) -> tuple[str, ...]:
        """Describe steps of a plan that are not among the actions of this rule."""
        wrong = {type(step).__name__ for step in plan.steps if not isinstance(step, self.actions)}
        return tuple(f"its row: {kind} is not among its actions" for kind in sorted(wrong))
