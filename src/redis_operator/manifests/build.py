"""Build everything a database consists of, in the order it is applied. Pure."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from redis_operator.api.redis import Redis
from redis_operator.redis.versions import Version

from . import names
from .config import as_started, config_file, config_file_name, proven
from .facts import Facts
from .layouts import layout_of
from .network import network_policy
from .objects import Object, make, stamp
from .rbac import rbac
from .secrets import secrets
from .services import services
from .workload import disruption_budget, shard_numbers, statefulset

__all__ = ["MANAGED_KINDS", "build", "config_map"]

MANAGED_KINDS: tuple[tuple[str, str], ...] = (
    ("v1", "ServiceAccount"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("v1", "Secret"),
    ("v1", "ConfigMap"),
    ("v1", "Service"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("policy/v1", "PodDisruptionBudget"),
    ("apps/v1", "StatefulSet"),
)
"""Kinds that `build` creates. Owned objects of these kinds that were not built are deleted."""
_LONGEST_RECORD = 128 * 1024  # all annotations of an object together may have twice as much


def build(redis: Redis, facts: Facts) -> tuple[Object, ...]:
    """Return all objects of a database, each with the hash of its desired state.

    Objects that others need come first: a pod never starts before its configuration and its users
    exist.
    """
    configured = config_map(redis, facts)
    redis = replace(redis, spec=as_started(redis.spec, facts.persistence))
    numbers = shard_numbers(redis, facts)
    found: list[Object] = [
        *rbac(redis),
        *secrets(redis, facts),
        configured,
        *services(redis, facts),
    ]
    if redis.spec.network_policy.enabled:
        found.append(network_policy(redis, facts))
    if redis.spec.disruption_budget.enabled:
        found += [disruption_budget(redis, facts, number) for number in numbers]
    found += [statefulset(redis, facts, number) for number in numbers]
    return tuple(stamp(document) for document in found)


def config_map(redis: Redis, facts: Facts) -> Object:
    """Return the scripts, and a configuration file for each version that runs or is desired."""
    layout = layout_of(redis)
    files = dict(layout.scripts)
    started = as_started(redis.spec, facts.persistence)
    for version in sorted({facts.version, *facts.running}):
        files[config_file_name(version)] = config_file(started, version, facts.accepted)
    files |= layout.files(redis, facts)
    once_set = facts.once_set | redis.spec.config.keys()
    marks = {names.SETTINGS_ANNOTATION: " ".join(sorted(once_set))} if once_set else {}
    accepted = proven(redis.spec, facts.version, facts.accepted)
    asked = facts.becomes or redis.spec
    recorded = msgspec.json.encode(asked, order="sorted").decode()
    if len(recorded) < _LONGEST_RECORD:
        marks[names.SPEC_ANNOTATION] = recorded
    marks[names.VERSION_ANNOTATION] = _chosen(facts.version)
    marks[names.ACCEPTED_ANNOTATION] = msgspec.json.encode(accepted, order="sorted").decode()
    marks[names.PERSISTENCE_ANNOTATION] = started.persistence.value
    name = names.config_map(redis.metadata.name)
    return make(redis, "ConfigMap", name, {"data": files}, annotations=marks)


def _chosen(version: Version) -> str:
    return f"{version.engine} {version.major}.{version.minor}"
