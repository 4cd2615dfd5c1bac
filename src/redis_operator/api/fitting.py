"""What a spec must be for the version that its servers run. Pure."""

from __future__ import annotations

from redis_operator.redis.versions import parse_version

from .redis import RedisSpec
from .shape import Problem
from .validation import config_problems
from .version import RedisVersionSpec, exporter_problems

__all__ = ["fitting_problems"]


def fitting_problems(spec: RedisSpec, entry: RedisVersionSpec) -> tuple[Problem, ...]:
    """Why servers of a catalog entry cannot run as a spec says, though it is well formed."""
    version = parse_version(spec.engine.value, entry.version)
    return (*config_problems(spec, version), *exporter_problems(spec, entry))
