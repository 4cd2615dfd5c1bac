"""Look, but do not touch."""

from __future__ import annotations

from ..advice import Phase, Plan
from ..situation import Situation

__all__ = ["pause"]


def pause(situation: Situation) -> Plan | None:
    """Say nothing else while the spec is paused."""
    if not situation.wanted.paused:
        return None
    return Plan(
        rule="pause",
        blocked=("spec.paused is set: the operator looks but does not touch",),
        phase=Phase.PAUSED,
        final=True,
    )
