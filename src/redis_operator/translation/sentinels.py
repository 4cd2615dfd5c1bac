"""The sentinels, and what they share with the servers. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from redis_operator.api.redis import Resources
from redis_operator.api.redisfailover import Exporter, RedisSettings, SentinelSettings
from redis_operator.api.shape import Problem

from .lines import sentinel_lines
from .piece import SpecPiece, amounts

__all__ = ["context_problems", "sentinels"]

_PATH: Final = "spec.sentinel"
_SAME: Final = {
    "image": "image",
    "image_pull_policy": "imagePullPolicy",
    "image_pull_secrets": "imagePullSecrets",
    "service_account_name": "serviceAccountName",
}
"""Fields that sentinels share with servers: their names in `Redis` and in `RedisFailover`."""
_FIXED: Final[Mapping[str, tuple[Any, ...]]] = {
    "privileged": (False,),
    "allowPrivilegeEscalation": (False,),
    "readOnlyRootFilesystem": (True, False),
    "runAsNonRoot": (True,),
}


def sentinels(wanted: SentinelSettings, servers: RedisSettings) -> SpecPiece:
    """Return the sentinels of a `Redis`."""
    lines = sentinel_lines(wanted.custom_config, f"{_PATH}.customConfig")
    quorum = wanted.quorum if wanted.quorum is not None else wanted.replicas // 2 + 1
    spec: dict[str, Any] = {"replicas": wanted.replicas, "quorum": quorum} | lines.spec
    if wanted.resources != Resources():
        spec["resources"] = amounts(wanted.resources)
    if wanted.exporter.enabled:
        spec["exporter"] = _exporter(wanted.exporter)
    pod = _placement(wanted)
    if pod != _placement(servers):
        spec["pod"] = pod
    problems = (*lines.problems, *_problems(wanted, servers))
    return SpecPiece(spec={"sentinel": spec}, problems=problems, origins=lines.origins | _ORIGINS)


def _exporter(wanted: Exporter) -> dict[str, Any]:
    """Return the exporter beside each sentinel."""
    found: dict[str, Any] = {"enabled": True}
    if wanted.image:
        found["image"] = wanted.image
    if wanted.resources != Resources():
        found["resources"] = amounts(wanted.resources)
    if wanted.args:
        found["args"] = list(wanted.args)
    if wanted.env:
        found["env"] = list(wanted.env)
    return found


def _placement(wanted: SentinelSettings | RedisSettings) -> dict[str, Any]:
    """Return the placement and the labels of pods."""
    given: dict[str, Any] = {
        "affinity": wanted.affinity,
        "tolerations": list(wanted.tolerations),
        "nodeSelector": wanted.node_selector,
        "topologySpreadConstraints": list(wanted.topology_spread_constraints),
        "annotations": wanted.pod_annotations,
        "priorityClassName": wanted.priority_class_name,
        "securityContext": wanted.security_context,
    }
    return {name: value for name, value in given.items() if value}


def _problems(wanted: SentinelSettings, servers: RedisSettings) -> Iterator[Problem]:
    for name, field in _SAME.items():
        asked = getattr(wanted, name)
        if asked and asked != getattr(servers, name):
            text = "sentinels have that of the servers: set it in spec.redis, or remove it"
            yield Problem(f"{_PATH}.{field}", text)
    for name in wanted.service_annotations:
        text = "the Service of the sentinels is not given annotations; remove it"
        yield Problem(f"{_PATH}.serviceAnnotations.{name}", text)
    path = f"{_PATH}.containerSecurityContext"
    yield from context_problems(wanted.container_security_context, path)


def context_problems(context: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """Refuse a container's security context that extends the restricted default."""
    for name, value in context.items():
        if value is None or value in _FIXED.get(name, ()):
            continue
        if name == "capabilities" and isinstance(value, dict) and not value.get("add"):
            continue
        if name == "seccompProfile" and value == {"type": "RuntimeDefault"}:
            continue
        if name in ("runAsUser", "runAsGroup"):
            text = "is for the whole pod: set it in securityContext, and remove it here"
            yield Problem(f"{path}.{name}", text)
            continue
        yield Problem(f"{path}.{name}", "containers run with the least rights there are; remove it")


_ORIGINS: Final = {
    "spec.sentinel.pod": _PATH,
    "spec.sentinel.pod.annotations": f"{_PATH}.podAnnotations",
}
