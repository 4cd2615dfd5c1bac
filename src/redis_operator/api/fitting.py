"""Requirements on a spec that depend on the version of its servers. Pure."""

from __future__ import annotations

from redis_operator.redis.versions import parse_version

from .redis import RedisSpec
from .shape import Problem
from .validation import config_problems
from .version import RedisVersionSpec, exporter_problems

__all__ = ["fitting_problems"]


def fitting_problems(spec: RedisSpec, entry: RedisVersionSpec) -> tuple[Problem, ...]:
    """Return why servers of a catalog entry cannot run with a spec that is valid otherwise."""
    version = parse_version(spec.engine.value, entry.version)
    return (*config_problems(spec, version), *exporter_problems(spec, entry))
