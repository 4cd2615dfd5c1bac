"""What Go checks in StatefulSets, Deployments, ReplicaSets, Jobs and disruption budgets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubelocal.apiserver.causes import (
    Cause,
    Fields,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kubelocal.apiserver.objects.validation.pods import check_pod_spec
from kubelocal.apiserver.objects.validation.syntax import (
    at_least,
    choice,
    count_or_percent,
    immutable,
    selector,
    template_labels,
)

__all__ = [
    "check_budget",
    "check_deployment",
    "check_job",
    "check_replica_set",
    "check_stateful_set",
]

_MUTABLE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)


def _check_template(spec: dict[str, Any], kind: str) -> Iterator[Cause]:
    yield from template_labels(spec, kind)
    template = (spec.get("template") or {}).get("spec") or {}
    claims = frozenset(
        str((claim.get("metadata") or {}).get("name"))
        for claim in spec.get("volumeClaimTemplates") or ()
    )
    yield from check_pod_spec("spec.template.spec", template, claims)
    policy = template.get("restartPolicy", "Always")
    if policy in {"OnFailure", "Never"}:
        yield not_supported("spec.template.spec.restartPolicy", policy, ["Always"])


def check_stateful_set(sts: dict[str, Any], old: dict[str, Any] | None) -> Iterator[Cause]:
    """Check a StatefulSet; most of its spec never changes."""
    spec = sts.get("spec") or {}
    policy = spec.get("podManagementPolicy")
    if policy not in {None, "OrderedReady", "Parallel"}:
        text = "must be 'OrderedReady' or 'Parallel'"
        yield invalid("spec.podManagementPolicy", policy, text)
    yield from _check_strategy(spec.get("updateStrategy") or {})
    retention = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    for field in ("whenDeleted", "whenScaled"):
        path = f"spec.persistentVolumeClaimRetentionPolicy.{field}"
        yield from choice(path, retention.get(field), ("Retain", "Delete"))
    yield from at_least("spec.replicas", spec.get("replicas"))
    yield from at_least("spec.minReadySeconds", spec.get("minReadySeconds"))
    yield from at_least("spec.ordinals.start", (spec.get("ordinals") or {}).get("start"))
    yield from _check_template(spec, "statefulset")
    before = (old or {}).get("spec") or {}
    if old is not None and _fixed(spec) != _fixed(before):
        names = ", ".join(f"'{name}'" for name in _MUTABLE[:-1])
        text = (
            f"updates to statefulset spec for fields other than {names} and "
            f"'{_MUTABLE[-1]}' are forbidden"
        )
        yield forbidden("spec", text)


def _fixed(spec: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in spec.items() if name not in _MUTABLE}


def _check_strategy(strategy: dict[str, Any]) -> Iterator[Cause]:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    path = "spec.updateStrategy"
    if kind == "OnDelete" and rolling is not None:
        text = "only allowed for updateStrategy 'RollingUpdate'"
        partition, most = rolling.get("partition", 0), rolling.get("maxUnavailable")
        shown = Fields(Partition=partition, MaxUnavailable=most)
        yield invalid(f"{path}.rollingUpdate", shown, text)
    elif kind not in {"OnDelete", "RollingUpdate", None}:
        shown = Fields(Type=kind, RollingUpdate=rolling)
        yield invalid(path, shown, "must be 'RollingUpdate' or 'OnDelete'")
    elif rolling is not None:
        yield from at_least(f"{path}.rollingUpdate.partition", rolling.get("partition"))


def check_deployment(deployment: dict[str, Any], old: dict[str, Any] | None) -> Iterator[Cause]:
    """Check a Deployment."""
    spec = deployment.get("spec") or {}
    yield from at_least("spec.replicas", spec.get("replicas"))
    yield from _check_template(spec, "deployment")
    yield from _check_deployment_strategy(spec.get("strategy") or {})
    for field in ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"):
        yield from at_least(f"spec.{field}", spec.get(field))
    deadline, ready = spec.get("progressDeadlineSeconds"), spec.get("minReadySeconds", 0)
    if deadline is not None and deadline <= ready:
        text = "must be greater than minReadySeconds"
        yield invalid("spec.progressDeadlineSeconds", deadline, text)
    if old is not None:
        before = (old.get("spec") or {}).get("selector")
        yield from immutable("spec.selector", spec.get("selector"), before)


def _check_deployment_strategy(strategy: dict[str, Any]) -> Iterator[Cause]:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    path = "spec.strategy"
    if kind == "Recreate" and rolling is not None:
        text = "may not be specified when strategy `type` is 'Recreate'"
        yield forbidden(f"{path}.rollingUpdate", text)
    elif kind not in {"Recreate", "RollingUpdate", None}:
        shown = Fields(Type=kind, RollingUpdate=rolling)
        yield not_supported(path, shown, ["Recreate", "RollingUpdate"])
    elif rolling is not None:
        surge, unavailable = rolling.get("maxSurge"), rolling.get("maxUnavailable")
        yield from count_or_percent(f"{path}.rollingUpdate.maxUnavailable", unavailable)
        yield from count_or_percent(f"{path}.rollingUpdate.maxSurge", surge)
        if surge in {0, "0%"} and unavailable in {0, "0%"}:
            text = "may not be 0 when `maxSurge` is 0"
            yield invalid(f"{path}.rollingUpdate.maxUnavailable", unavailable, text)


def check_replica_set(replica_set: dict[str, Any], old: dict[str, Any] | None) -> Iterator[Cause]:
    """Check a ReplicaSet."""
    spec = replica_set.get("spec") or {}
    yield from at_least("spec.replicas", spec.get("replicas"))
    yield from at_least("spec.minReadySeconds", spec.get("minReadySeconds"))
    yield from _check_template(spec, "replicaset")
    if old is not None:
        before = (old.get("spec") or {}).get("selector")
        yield from immutable("spec.selector", spec.get("selector"), before)


def check_job(job: dict[str, Any], old: dict[str, Any] | None) -> Iterator[Cause]:
    """Check a Job; its pods are what they were when it was created."""
    spec = job.get("spec") or {}
    for field in (
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
    ):
        yield from at_least(f"spec.{field}", spec.get(field))
    modes = ("NonIndexed", "Indexed")
    yield from choice("spec.completionMode", spec.get("completionMode"), modes)
    template = (spec.get("template") or {}).get("spec") or {}
    yield from check_pod_spec("spec.template.spec", template)
    if template.get("restartPolicy") not in {"OnFailure", "Never"}:
        text = 'valid values: "OnFailure", "Never"'
        yield required("spec.template.spec.restartPolicy", text)
    if spec.get("selector") is not None:
        yield from _check_job_selector(job, spec)
    before = (old or {}).get("spec") or {}
    if old is not None:
        for field in ("selector", "completions", "completionMode"):
            yield from immutable(f"spec.{field}", spec.get(field), before.get(field))
        if not before.get("suspend"):
            yield from immutable("spec.template", spec.get("template"), before.get("template"))


def _check_job_selector(job: dict[str, Any], spec: dict[str, Any]) -> Iterator[Cause]:
    uid = (job.get("metadata") or {}).get("uid")
    own = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    if not spec.get("manualSelector") and spec["selector"] != own:
        yield invalid("spec.selector", spec["selector"], "`selector` not auto-generated")
    yield from template_labels(spec, "job")


def check_budget(budget: dict[str, Any], _: dict[str, Any] | None) -> Iterator[Cause]:
    """Check a PodDisruptionBudget."""
    spec = budget.get("spec") or {}
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if least is not None and most is not None:
        shown = Fields(
            MinAvailable=least,
            Selector=spec.get("selector"),
            MaxUnavailable=most,
            UnhealthyPodEvictionPolicy=spec.get("unhealthyPodEvictionPolicy"),
        )
        yield invalid("spec", shown, "minAvailable and maxUnavailable cannot be both set")
    for field, value in (("minAvailable", least), ("maxUnavailable", most)):
        if value is not None:
            yield from count_or_percent(f"spec.{field}", value)
    policies = ("AlwaysAllow", "IfHealthyBudget")
    path = "spec.unhealthyPodEvictionPolicy"
    yield from choice(path, spec.get("unhealthyPodEvictionPolicy"), policies)
    yield from selector("spec.selector", spec.get("selector"))
