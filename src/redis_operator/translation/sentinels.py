"""The sentinels, and what they share with the servers. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from redis_operator.api.redis import Resources
from redis_operator.api.redisfailover import RedisSettings, SentinelSettings
from redis_operator.api.shape import Problem

from .lines import sentinel_lines
from .piece import Piece, amounts

__all__ = ["context_problems", "sentinels"]

_PATH: Final = "spec.sentinel"
_SAME: Final = {
    "image": "image",
    "image_pull_policy": "imagePullPolicy",
    "image_pull_secrets": "imagePullSecrets",
    "service_account_name": "serviceAccountName",
}
"""What sentinels share with servers: our names, and those of people."""
_FIXED: Final[Mapping[str, tuple[Any, ...]]] = {
    "privileged": (False,),
    "allowPrivilegeEscalation": (False,),
    "readOnlyRootFilesystem": (True, False),
    "runAsNonRoot": (True,),
}


def sentinels(wanted: SentinelSettings, servers: RedisSettings) -> Piece:
    """Return what a `Redis` says of its sentinels."""
    lines = sentinel_lines(wanted.custom_config, f"{_PATH}.customConfig")
    quorum = wanted.quorum if wanted.quorum is not None else wanted.replicas // 2 + 1
    spec: dict[str, Any] = {"replicas": wanted.replicas, "quorum": quorum} | lines.spec
    if wanted.resources != Resources():
        spec["resources"] = amounts(wanted.resources)
    pod = _placement(wanted)
    if pod != _placement(servers):
        spec["pod"] = pod
    problems = (*lines.problems, *_problems(wanted, servers))
    return Piece(spec={"sentinel": spec}, problems=problems, origins=lines.origins | _ORIGINS)


def _placement(wanted: SentinelSettings | RedisSettings) -> dict[str, Any]:
    """Return where pods run and how they are marked, as it is written."""
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
    """Refuse a container's security context that asks for more than containers have here."""
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
