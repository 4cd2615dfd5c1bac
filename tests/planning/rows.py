"""Tables of single rules: a moment, what is wanted, and what the rule says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from planning import moments as m
from redis_operator.planning.actions import Action
from redis_operator.planning.advice import Plan
from redis_operator.planning.cluster.guards import GUARDS
from redis_operator.planning.guards import breaches
from redis_operator.planning.observed import Observed

Spec = dict[str, Any]
Row = tuple[Observed, Spec, str]


def told(advice: Plan | None) -> str:
    """The steps as `Kind pod`, or `blocked: reason`, or nothing."""
    if advice is None:
        return ""
    if advice.stages:
        return ", ".join(f"{type(step).__name__} {_subject(step)}".strip() for step in advice.steps)
    return f"blocked: {'; '.join(advice.blocked)}" if advice.blocked else "nothing"


def _subject(step: Any) -> str:
    for name in ("pod", "claim"):
        if isinstance(getattr(step, name, None), str):
            return str(getattr(step, name)).removeprefix("db-")
    if hasattr(step, "shard"):
        return f"{step.shard}: {getattr(step, 'from_pods', '')}-{getattr(step, 'to_pods', '')}"
    place = getattr(step, "node", None) or getattr(step, "source", None)
    other = getattr(step, "peer", None) or getattr(step, "target", None)
    if getattr(step, "job", None):
        other = None
    text = place.pod.removeprefix("db-") if hasattr(place, "pod") else ""
    return f"{text}>{other.pod.removeprefix('db-')}" if hasattr(other, "pod") else text


def check(rule: Callable[..., Plan | None], row: Row) -> None:
    moment, spec, expected = row
    found = told(rule(m.situation(moment, **spec)))
    if expected.startswith("blocked"):
        assert found.startswith("blocked"), found
        assert expected.partition(": ")[2] in found, found
    else:
        assert found == expected


def sizes(observed: Observed, *counts: int, **fields: Any) -> Observed:
    """The same, but for how many pods the workloads have."""
    pairs = zip(observed.workloads, counts, strict=False)
    return replace(observed, workloads=tuple(replace(w, pods=c, **fields) for w, c in pairs))


def breaches_of(observed: Observed, *stages: tuple[Action, ...], **wanted: Any) -> list[str]:
    """The breaches of invariants; a precondition that does not hold is told beside them."""
    told = breaches(m.situation(observed, **wanted), Plan(rule="test", stages=stages), GUARDS)
    return [t for t in dict.fromkeys(told) if not t.startswith("its own precondition")]


def check_words(words: tuple[str, ...], told: list[str]) -> None:
    assert len(told) == len(words), told
    for word in words:
        assert any(word in text for text in told), told
