"""From a `RedisOperator` to the choices of an installation, or what is wrong with it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import msgspec

from redis_operator.api.redisoperator import (
    MonitoringComponent,
    RedisOperator,
    RedisOperatorSpec,
    RedisOperatorStatus,
)
from redis_operator.api.schema import Schema, schema_of
from redis_operator.api.shape import Problem
from redis_operator.api.validation import shape, without_null
from redis_operator.install.options import Issuer, MonitoringOptions, Options

__all__ = ["Named", "load_redisoperator", "load_status", "options_of"]

Named = tuple[str, dict[str, str]]
"""A namespace, and its labels."""


@lru_cache(maxsize=1)
def _schema() -> Schema:
    return schema_of(RedisOperator)


def load_redisoperator(raw: dict[str, Any]) -> RedisOperator | tuple[Problem, ...]:
    """Return what an object describes, or every problem that it has on its own."""
    found = sorted(set(shape(raw, _schema())))
    if found:
        return tuple(found)
    kept = {name: without_null(raw.get(name) or {}) for name in ("metadata", "spec")}
    try:
        loaded = msgspec.convert(kept, RedisOperator, strict=True)
    except msgspec.ValidationError as error:
        return (Problem("spec", f"cannot be read: {error}"),)
    watched = loaded.spec.namespaces
    if watched.names and watched.match_labels:
        text = "name the namespaces or say by which labels they are found, not both"
        return (Problem("spec.namespaces", text),)
    if "namespaces" in kept["spec"] and not watched.names and not watched.match_labels:
        text = "it chooses no namespace: name some, or labels, or leave it out for all"
        return (Problem("spec.namespaces", text),)
    return loaded


def load_status(raw: dict[str, Any]) -> RedisOperatorStatus:
    """Return the recorded status; empty when it cannot be read."""
    try:
        return msgspec.convert(without_null(raw.get("status") or {}), RedisOperatorStatus)
    except msgspec.ValidationError:
        return RedisOperatorStatus()


def options_of(
    spec: RedisOperatorSpec, *, namespace: str, namespaces: Iterable[Named]
) -> Options | Problem:
    """Return the choices that a spec makes in a cluster that has these namespaces."""
    known = dict(namespaces)
    watched = tuple(sorted(set(spec.namespaces.names)))
    missing = [name for name in watched if name not in known]
    if missing:
        text = f"there is no namespace {', '.join(missing)}; create it, or take it off the list"
        return Problem("spec.namespaces.names", text)
    wanted = spec.namespaces.match_labels
    if wanted:
        watched = tuple(
            sorted(n for n, labels in known.items() if wanted.items() <= labels.items())
        )
        if not watched:
            return Problem("spec.namespaces.matchLabels", "no namespace has these labels")
    changes: dict[str, Any] = {}
    if spec.resources.requests or spec.resources.limits:
        changes["resources"] = msgspec.to_builtins(spec.resources)
    arguments = (*spec.arguments, *(("--verbose",) if spec.verbose else ()))
    return Options(
        namespace=namespace,
        image=spec.image,
        pull_policy=spec.image_pull_policy.value,
        pull_secrets=tuple(secret.name for secret in spec.image_pull_secrets),
        watch_namespaces=watched,
        replicas=spec.replicas,
        placement=msgspec.to_builtins(spec.placement),
        arguments=arguments,
        webhooks=spec.components.admission.enabled,
        issuer=_issuer(spec),
        monitoring=_monitoring(spec.components.monitoring),
        **changes,
    )


def _issuer(spec: RedisOperatorSpec) -> Issuer | None:
    named = spec.certificates.issuer_ref
    if named is None or not spec.components.admission.enabled:
        return None
    return Issuer(named.name, named.kind, named.group)


def _monitoring(wanted: MonitoringComponent) -> MonitoringOptions:
    return MonitoringOptions(
        install=wanted.enabled,
        labels=wanted.labels,
        runbook_url=wanted.runbook_url,
        scrape_namespaces=wanted.scrape_namespaces,
        secured=wanted.secured,
    )
