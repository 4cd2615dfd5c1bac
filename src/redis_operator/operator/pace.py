"""When a database is looked at again: at once, soon, or when nothing happens. Pure."""

from __future__ import annotations

from typing import Final

from kubecontroller.runtime.outcomes import Again
from redis_operator.operator.execute import Outcome
from redis_operator.planning.advice import Plan
from redis_operator.planning.cluster.connect import PATIENT_TIMES
from redis_operator.planning.observed import Observed

__all__ = [
    "BEHIND_SECONDS",
    "BUSY_SECONDS",
    "IDLE_LOOKS",
    "SOON_SECONDS",
    "USUAL_PRIORITY",
    "after",
    "goes_on",
    "pause",
]

SOON_SECONDS: Final = 0.02
BUSY_SECONDS: Final = 1.0
BEHIND_SECONDS: Final = 0.25  # where the status does not say yet what was seen
IDLE_LOOKS: Final = 11
"""After so many looks in a row that gave nothing to do, about a second, others have their turn."""
_GROWTH: Final = 1.25
_DOWN_SECONDS: Final = 0.1
_DOWN_SHARE: Final = 0.1  # of the time that a server has not served: it is noticed not much later
_WAIT_SECONDS: Final = 0.2
_WAIT_SHARE: Final = 0.5  # of the time that the same is waited for
USUAL_PRIORITY: Final = 0  # of a database that clients do not wait for more than for others


def goes_on(plan: Plan, outcomes: tuple[Outcome, ...]) -> bool:
    """Tell whether looking again at once may show something new to do.

    What was refused now is refused again at once: counting keys over and over for it would only
    burden the servers.
    """
    refused = any(not outcome.done for outcome in outcomes)
    if plan.count_on and not refused:
        return True
    if plan.again_after is not None and plan.again_after < 0.5:
        return True
    return bool(outcomes) and not refused


def pause(idle: int) -> float:
    """Return the pause before the next look of a pass, after so many that gave nothing to do."""
    return SOON_SECONDS * _GROWTH**idle


def after(
    plan: Plan,
    observed: Observed,
    outcomes: tuple[Outcome, ...],
    *,
    interval: float,
    down_for: float = 0.0,
    waited: float = BUSY_SECONDS / _WAIT_SHARE,
) -> Again:
    """Say when to look again although nothing happens; `interval` is the longest.

    `down_for` are the seconds since the last server stopped serving, of those that do not: a server
    that says so soon is asked often, and one that does not for minutes is not burdened. `waited`
    are those since the same is waited for: most of it comes soon, as when replicas are in sync.
    """
    spans = [interval]
    if plan.again_after is not None:
        spans.append(plan.again_after)
    if plan.stages or plan.blocked or observed.unreachable or outcomes:
        spans.append(min(BUSY_SECONDS, max(_WAIT_SECONDS, _WAIT_SHARE * waited)))
    hears = all(tried.times < PATIENT_TIMES for tried in observed.cluster.introductions)
    if hears and any(not node.state_ok for node in observed.seen):
        spans.append(min(BUSY_SECONDS, max(_DOWN_SECONDS, _DOWN_SHARE * down_for)))
    # What was urgent is not when it is at rest: others need the workers for what is.
    return Again(min(spans), None if len(spans) > 1 else USUAL_PRIORITY)
