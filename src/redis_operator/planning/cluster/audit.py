"""Check from time to time that every key is on the owner of its slot."""

from __future__ import annotations

from ..advice import Plan
from .situation import Situation

__all__ = ["AUDIT_SECONDS", "audit"]

AUDIT_SECONDS = 300.0


def audit(situation: Situation) -> Plan | None:
    """Ask for a count of stray keys when the last one is long ago, or when there was none.

    The count walks through all slots that a server does not own, so it is not part of every
    observation. Rules that act where keys may be left behind ask for a count themselves. I14
    """
    last = situation.observed.cluster.counted_at
    if last is None or situation.now - last < AUDIT_SECONDS or not situation.uncounted:
        return None
    return Plan(rule="audit", count_strays_on=situation.to_count)
