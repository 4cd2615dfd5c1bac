"""The probes of servers: the user sets their timings, the operator what they check. Pure."""

from __future__ import annotations

from typing import Any, Final

from redis_operator.api.redisfailover import RedisSettings
from redis_operator.api.shape import Problem

from .piece import SpecPiece, join

__all__ = ["probes"]

_TIMES: Final = ("initialDelaySeconds", "periodSeconds", "timeoutSeconds", "failureThreshold")


def probes(redis: RedisSettings) -> SpecPiece:
    """Return the timings of all probes."""
    return join(
        (
            _probe(redis.custom_liveness_probe, "liveness", "spec.redis.customLivenessProbe"),
            _probe(redis.custom_readiness_probe, "readiness", "spec.redis.customReadinessProbe"),
            _probe(redis.custom_startup_probe, "startup", "spec.redis.customStartupProbe"),
        )
    )


def _probe(probe: dict[str, Any], name: str, path: str) -> SpecPiece:
    times = {key: value for key, value in probe.items() if key in _TIMES and value is not None}
    problems = tuple(
        Problem(f"{path}.{key}", "the operator defines what a probe runs; keep only its timings")
        for key, value in probe.items()
        if key not in _TIMES and value is not None and (key, value) != ("successThreshold", 1)
    )
    spec = {"pod": {"probes": {name: times}}} if times else {}
    return SpecPiece(spec=spec, problems=problems)
