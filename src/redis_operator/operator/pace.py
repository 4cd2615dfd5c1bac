"""When a database is observed again: at once, soon, or after the interval. Pure."""

from __future__ import annotations

from typing import Final

from kubecontroller import Again
from redis_operator.operator.execute import StepOutcome
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
BEHIND_SECONDS: Final = 0.25  # while the status does not report the last observation yet
IDLE_LOOKS: Final = 11
"""After so many idle observations in a row, about a second, other databases get the worker."""
_GROWTH: Final = 1.25
_DOWN_SECONDS: Final = 0.1
_DOWN_SHARE: Final = 0.1  # of the time for which a server has not served
_WAIT_SECONDS: Final = 0.2
_WAIT_SHARE: Final = 0.5  # of the time for which the reasons to wait have been the same
USUAL_PRIORITY: Final = 0  # of a database whose clients wait no more than others


def goes_on(plan: Plan, outcomes: tuple[StepOutcome, ...]) -> bool:
    """Whether another observation at once may show something new to do.

    A step that was refused now is refused again at once: counting keys over and over for it would
    only load the servers.
    """
    refused = any(not outcome.done for outcome in outcomes)
    if plan.count_strays_on and not refused:
        return True
    if plan.again_after is not None and plan.again_after < 0.5:
        return True
    return bool(outcomes) and not refused


def pause(idle: int) -> float:
    """Return the pause before the next observation of a pass, after so many idle ones."""
    return SOON_SECONDS * _GROWTH**idle


def after(
    plan: Plan,
    observed: Observed,
    outcomes: tuple[StepOutcome, ...],
    *,
    interval: float,
    down_for: float = 0.0,
    waited: float = BUSY_SECONDS / _WAIT_SHARE,
) -> Again:
    """Say when to observe again although nothing happens; `interval` is the longest.

    `down_for` is the time since the last server stopped serving, of those that do not: a server
    that stopped just now is asked often, and one that stopped minutes ago seldom. `waited` is the
    time for which the reasons to wait have been the same: most disappear soon, as when replicas get
    in sync.
    """
    spans = [interval]
    if plan.again_after is not None:
        spans.append(plan.again_after)
    if plan.stages or plan.blocked or observed.unreachable or outcomes:
        spans.append(min(BUSY_SECONDS, max(_WAIT_SECONDS, _WAIT_SHARE * waited)))
    hears = all(tried.times < PATIENT_TIMES for tried in observed.cluster.introductions)
    if hears and any(not node.state_ok for node in observed.seen):
        spans.append(min(BUSY_SECONDS, max(_DOWN_SECONDS, _DOWN_SHARE * down_for)))
    # An urgent database is not urgent any more once settled: others need the workers.
    return Again(min(spans), None if len(spans) > 1 else USUAL_PRIORITY)
