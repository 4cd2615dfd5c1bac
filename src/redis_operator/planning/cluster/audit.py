"""Now and then: are all keys where their slots are?"""

from __future__ import annotations

from ..advice import Plan
from .situation import Situation

__all__ = ["AUDIT_SECONDS", "audit"]

AUDIT_SECONDS = 300.0


def audit(situation: Situation) -> Plan | None:
    """Ask for a count of stray keys when none was made for long, or ever.

    Counting walks through all slots a server does not own, so it is not part of every look. Rules
    that act where keys may be left behind ask for it themselves. I14
    """
    last = situation.observed.cluster.counted_at
    if last is None or situation.now - last < AUDIT_SECONDS or not situation.uncounted:
        return None
    return Plan(rule="audit", count_on=situation.to_count)
