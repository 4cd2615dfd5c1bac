"""Nothing to be done, and yet not all is well: say what is waited for."""

from __future__ import annotations

from ..advice import Phase, Plan
from ..calm import unrest
from ..situation import Situation

__all__ = ["rest"]


def rest(situation: Situation) -> Plan | None:
    """Name what keeps the database from being at rest when no rule can help it. I14"""
    reason = unrest(situation)
    if reason is None:
        return None
    phase = Phase.HEALING if situation.observed.formed else Phase.CREATING
    return Plan(rule="rest", blocked=(reason,), phase=phase)
