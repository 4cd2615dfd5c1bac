"""Translate a `RedisFailover` to its `Redis`, or list everything that is not supported. Pure.

The `Redis` has the same name, and only the fields that were set: others have the default of
`Redis`. A problem of the result is reported with the path of the field that caused it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from redis_operator.api.pod_rules import OUR_LABELS
from redis_operator.api.redis import Redis, Resources
from redis_operator.api.redisfailover import (
    AuthSettings,
    BootstrapNode,
    Exporter,
    RedisFailover,
    RedisSettings,
)
from redis_operator.api.redisfailover_validation import load_redisfailover
from redis_operator.api.shape import Problem
from redis_operator.api.validation import load
from redis_operator.manifests.pod import RESTARTED_ANNOTATION

from .images import engine_of, version_of
from .labels import copied, pattern_problem
from .lines import server_lines
from .piece import SpecPiece, amounts, join, origin_of
from .probes import probes
from .selectors import selector_problems
from .sentinels import context_problems, sentinels
from .volumes import volumes

__all__ = ["FAILOVER_LABEL", "in_their_words", "origins_of", "redis_of", "translate", "with_origin"]

FAILOVER_LABEL: Final = "redisoperator.dev/redisfailover"
"""Names the owner of a `Redis`: an orphaned one is found by it, or handed over."""
_OURS: Final = "redisoperator.dev/"
_CONFIG: Final = "spec.config."
_PATH: Final = re.compile(r"(?P<path>\bspec(?:\.[A-Za-z0-9_-]+(?:\[\d+\])?)+)(?P<colon>:?)")


def translate(raw: dict[str, Any]) -> dict[str, Any] | tuple[Problem, ...]:
    """Return the `Redis` of a raw `RedisFailover`, or every problem it has, in order of paths."""
    loaded = load_redisfailover(raw)
    if not isinstance(loaded, RedisFailover):
        return loaded
    whole = join(_pieces(loaded))
    redis = redis_of(loaded, whole.spec)
    checked = load(redis)
    if isinstance(checked, Redis) and not whole.problems:
        return redis
    found = set(whole.problems)
    if not isinstance(checked, Redis):
        # Where a field was refused, problems of the rest of it may be a consequence.
        paths = tuple(problem.path for problem in found)
        more = (with_origin(problem, whole.origins) for problem in checked)
        found |= {problem for problem in more if not problem.path.startswith(paths)}
    return tuple(sorted(found))


def origins_of(raw: dict[str, Any]) -> dict[str, str]:
    """Return the original paths of the paths of a `Redis`."""
    loaded = load_redisfailover(raw)
    own = join(_pieces(loaded)).origins if isinstance(loaded, RedisFailover) else {}
    return _ORIGINS | own


def in_their_words(text: str, origins: dict[str, str]) -> str:
    """Return a message about a `Redis` with the paths of its `RedisFailover`."""

    def theirs(match: re.Match[str]) -> str:
        path = match["path"]
        place = origin_of(path, origins)
        named = path.startswith(_CONFIG) and place != path and match["colon"]
        name = f" {path.removeprefix(_CONFIG)}" if named else ""
        return f"{place}{match['colon']}{name}"

    return _PATH.sub(theirs, text)


def redis_of(failover: RedisFailover, spec: dict[str, Any]) -> dict[str, Any]:
    """Return the `Redis` with a spec: its name and labels are those of the `RedisFailover`."""
    meta = failover.metadata
    metadata: dict[str, Any] = {"name": meta.name, "namespace": meta.namespace}
    metadata["labels"] = _labels(failover) | {FAILOVER_LABEL: meta.name}
    if RESTARTED_ANNOTATION in meta.annotations:
        metadata["annotations"] = {RESTARTED_ANNOTATION: meta.annotations[RESTARTED_ANNOTATION]}
    return {
        "apiVersion": "redisoperator.dev/v1",
        "kind": "Redis",
        "metadata": metadata,
        "spec": spec,
    }


def with_origin(problem: Problem, origins: dict[str, str]) -> Problem:
    """Return a problem of the `Redis` with the path of the field that caused it."""
    known = _ORIGINS | origins
    text = in_their_words(problem.message, known)
    if problem.path.startswith(_CONFIG):
        text = f"{problem.path.removeprefix(_CONFIG)} {text}"
    return Problem(origin_of(problem.path, known), text)


def _pieces(failover: RedisFailover) -> Iterator[SpecPiece]:
    spec = failover.spec
    claim = spec.redis.storage.persistent_volume_claim
    yield SpecPiece(spec={"mode": "Failover", "replicas": spec.redis.replicas - 1})
    yield _image(spec.redis)
    yield server_lines(
        spec.redis.custom_config, "spec.redis.customConfig", on_disk=claim is not None
    )
    yield volumes(spec.redis.storage, "spec.redis.storage")
    yield _pod(spec.redis)
    yield probes(spec.redis)
    yield sentinels(spec.sentinel, spec.redis)
    yield _exporter(spec.redis.exporter)
    yield _labelled(failover)
    yield _selected(failover)
    if spec.redis.resources != Resources():
        yield SpecPiece(spec={"resources": amounts(spec.redis.resources)})
    if spec.auth.secret_path:
        yield SpecPiece(spec={"auth": {"secretName": spec.auth.secret_path}})
    if spec.bootstrap_node is not None:
        yield _source(spec.bootstrap_node, spec.auth)
    if spec.redis.service_annotations:
        yield SpecPiece(spec={"service": {"annotations": spec.redis.service_annotations}})
    if spec.redis.disable_pod_disruption_budget:
        yield SpecPiece(spec={"disruptionBudget": {"enabled": False}})


def _source(node: BootstrapNode, auth: AuthSettings) -> SpecPiece:
    """Return the Redis to follow first; the servers' own password is used where none is given."""
    found: dict[str, Any] = {"host": node.host, "port": int(node.port)}
    if node.username:
        found["username"] = node.username
    if node.password_secret is not None:
        secret = node.password_secret
        found["passwordSecret"] = {"name": secret.name, "key": secret.key}
    elif auth.secret_path:
        found["passwordSecret"] = {"name": auth.secret_path, "key": "password"}
    return SpecPiece(spec={"bootstrap": {"fromRedis": found}})


def _image(redis: RedisSettings) -> SpecPiece:
    """Return the engine and the version: by field, else by name and tag of the image."""
    if not redis.image:
        spec = {"engine": redis.engine.value} if redis.engine is not None else {}
        return SpecPiece(spec=spec | ({"version": redis.version} if redis.version else {}))
    engine, version = redis.engine or engine_of(redis.image), redis.version
    version = version or version_of(redis.image)
    problems = []
    if engine is None:
        text = f"is needed: {redis.image} is named neither after redis nor after valkey"
        problems.append(Problem("spec.redis.engine", text))
    if not version:
        text = f"is needed: the tag of {redis.image} does not begin with a version like 7.2"
        problems.append(Problem("spec.redis.version", text))
    if engine is None or not version:
        return SpecPiece(problems=tuple(problems))
    spec = {"engine": engine.value, "version": version, "image": redis.image}
    tagged = not redis.version
    return SpecPiece(spec=spec, origins={"spec.version": "spec.redis.image"} if tagged else {})


def _pod(redis: RedisSettings) -> SpecPiece:
    given: dict[str, Any] = {
        "affinity": redis.affinity,
        "tolerations": redis.tolerations,
        "nodeSelector": redis.node_selector,
        "topologySpreadConstraints": redis.topology_spread_constraints,
        "annotations": redis.pod_annotations,
        "priorityClassName": redis.priority_class_name,
        "serviceAccountName": redis.service_account_name,
        "securityContext": redis.security_context,
        "sidecars": redis.extra_containers,
        "initContainers": redis.init_containers,
        "volumes": redis.extra_volumes,
        "volumeMounts": redis.extra_volume_mounts,
        "terminationGracePeriodSeconds": redis.termination_grace_period or 0,
        "imagePullSecrets": [{"name": secret.name} for secret in redis.image_pull_secrets],
    }
    pod = {name: _plain(value) for name, value in given.items() if value}
    if redis.image_pull_policy is not None:
        pod["imagePullPolicy"] = redis.image_pull_policy.value
    path = "spec.redis.containerSecurityContext"
    problems = tuple(context_problems(redis.container_security_context, path))
    return SpecPiece(spec={"pod": pod} if pod else {}, problems=problems)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _exporter(exporter: Exporter) -> SpecPiece:
    if not exporter.enabled:
        return SpecPiece()
    found: dict[str, Any] = {"exporter": True}
    if exporter.image:
        found["exporterImage"] = exporter.image
    if exporter.resources != Resources():
        found["exporterResources"] = amounts(exporter.resources)
    if exporter.args:
        found["exporterArgs"] = list(exporter.args)
    if exporter.env:
        found["exporterEnv"] = list(exporter.env)
    return SpecPiece(spec={"monitoring": found})


def _labels(failover: RedisFailover) -> dict[str, str]:
    found = copied(failover.metadata.labels, failover.spec.label_whitelist)
    return {name: value for name, value in found.items() if not name.startswith(_OURS)}


def _selected(failover: RedisFailover) -> SpecPiece:
    """Refuse selectors that were written for pods with other labels."""
    spec, name = failover.spec, failover.metadata.name
    problems: list[Problem] = []
    for part, pods in (("redis", spec.redis), ("sentinel", spec.sentinel)):
        given = {
            "affinity": pods.affinity,
            "topologySpreadConstraints": pods.topology_spread_constraints,
        }
        problems += selector_problems(given, f"spec.{part}", name)
    return SpecPiece(problems=tuple(problems))


def _labelled(failover: RedisFailover) -> SpecPiece:
    problems = tuple(
        Problem(f"spec.labelWhitelist[{index}]", text)
        for index, pattern in enumerate(failover.spec.label_whitelist)
        if (text := pattern_problem(pattern)) is not None
    )
    if problems:
        return SpecPiece(problems=problems)
    labels = {n: v for n, v in _labels(failover).items() if not n.startswith(OUR_LABELS)}
    return SpecPiece(spec={"pod": {"labels": labels}} if labels else {})


_CLAIM: Final = "spec.redis.storage.persistentVolumeClaim"
_ORIGINS: Final = {
    "spec.replicas": "spec.redis.replicas",
    "spec.engine": "spec.redis.engine",
    "spec.version": "spec.redis.version",
    "spec.image": "spec.redis.image",
    "spec.config": "spec.redis.customConfig",
    "spec.durability": "spec.redis.customConfig",
    "spec.resources": "spec.redis.resources",
    "spec.storage": _CLAIM,
    "spec.storage.size": f"{_CLAIM}.spec.resources.requests.storage",
    "spec.storage.className": f"{_CLAIM}.spec.storageClassName",
    "spec.storage.accessModes": f"{_CLAIM}.spec.accessModes",
    "spec.storage.labels": f"{_CLAIM}.metadata.labels",
    "spec.auth.secretName": "spec.auth.secretPath",
    "spec.bootstrap.fromRedis": "spec.bootstrapNode",
    "spec.deletion.policy": "spec.redis.storage.keepAfterDeletion",
    "spec.disruptionBudget": "spec.redis.disablePodDisruptionBudget",
    "spec.monitoring.exporter": "spec.redis.exporter.enabled",
    "spec.monitoring.exporterImage": "spec.redis.exporter.image",
    "spec.monitoring.exporterResources": "spec.redis.exporter.resources",
    "spec.monitoring.exporterArgs": "spec.redis.exporter.args",
    "spec.monitoring.exporterEnv": "spec.redis.exporter.env",
    "spec.service.annotations": "spec.redis.serviceAnnotations",
    "spec.pod": "spec.redis",
    "spec.pod.annotations": "spec.redis.podAnnotations",
    "spec.pod.labels": "metadata.labels",
    "spec.pod.sidecars": "spec.redis.extraContainers",
    "spec.pod.volumes": "spec.redis.extraVolumes",
    "spec.pod.volumeMounts": "spec.redis.extraVolumeMounts",
    "spec.pod.probes.liveness": "spec.redis.customLivenessProbe",
    "spec.pod.probes.readiness": "spec.redis.customReadinessProbe",
    "spec.pod.probes.startup": "spec.redis.customStartupProbe",
    "spec.pod.terminationGracePeriodSeconds": "spec.redis.terminationGracePeriod",
}
