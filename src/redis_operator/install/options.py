"""The options of an installation. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct, field

from redis_operator import __version__

__all__ = [
    "DEFAULT_NAMESPACE",
    "EVERYWHERE",
    "Issuer",
    "MonitoringOptions",
    "Options",
    "problems",
    "read_issuer",
]

DEFAULT_NAMESPACE: Final = "redis-operator"
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_IMAGE: Final = re.compile(r"[a-z0-9][\w./:-]*(@sha256:[0-9a-f]{64})?")
_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_LABEL_KEY: Final = re.compile(
    r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?"
)
_KIND: Final = re.compile(r"[A-Z][A-Za-z0-9]{0,62}")
_DNS_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?)?")
EVERYWHERE: Final = "*"
"""In place of the names of namespaces: all of them."""


class Issuer(Struct, frozen=True, omit_defaults=True):
    """An issuer of cert-manager, which signs the certificate of the webhooks."""

    name: str
    kind: str = "Issuer"  # or ClusterIssuer, or a kind of a third-party group
    group: str = "cert-manager.io"


class MonitoringOptions(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Options for Prometheus and Grafana."""

    install: bool = True  # ServiceMonitors, alerts and dashboard, where the cluster has the kinds
    labels: Mapping[str, str] = field(default_factory=dict)  # by which a Prometheus selects them
    runbook_url: str = "docs/runbooks"  # where the pages of alerts are
    scrape_namespaces: tuple[str, ...] = ("monitoring",)  # whose pods may read /metrics
    secured: bool = False  # over TLS, and only to accounts that may get that path


class Options(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The options of one installation; they are stored in the cluster for the next upgrade."""

    namespace: str = DEFAULT_NAMESPACE
    image: str = f"redis-operator:{__version__}"
    pull_policy: str = "IfNotPresent"
    pull_secrets: tuple[str, ...] = ()
    watch_namespaces: tuple[str, ...] = ()  # none named: all
    replicas: int = 2
    placement: Mapping[str, Any] = field(default_factory=dict)  # fields of the pod's spec
    arguments: tuple[str, ...] = ()  # more of them for `redis-operator run`
    webhooks: bool = True  # whether the API server asks the operator before it stores these kinds
    issuer: Issuer | None = None  # signs the certificate of the webhooks; none: the operator itself
    monitoring: MonitoringOptions = field(default_factory=MonitoringOptions)
    resources: Mapping[str, Mapping[str, str]] = field(
        default_factory=lambda: {
            "requests": {"cpu": "100m", "memory": "128Mi"},
            "limits": {"memory": "512Mi"},
        }
    )


def problems(options: Options) -> list[str]:
    """Return the problems of the options: where, what, and what to do."""
    found = []
    if not _LABEL.fullmatch(options.namespace):
        found.append(
            f"--namespace: {options.namespace!r} is not a name of a namespace; use lower case "
            "letters, digits and '-', at most 63"
        )
    found += [
        f"--watch-namespaces: {name!r} is not a name of a namespace"
        for name in options.watch_namespaces
        if not _LABEL.fullmatch(name)
    ]
    doubled = {n for n in options.watch_namespaces if options.watch_namespaces.count(n) > 1}
    found += [f"--watch-namespaces: {name!r} is named twice" for name in sorted(doubled)]
    if not _IMAGE.fullmatch(options.image):
        found.append(f"--image: {options.image!r} is not a name of an image; use [HOST/]NAME:TAG")
    if not 1 <= options.replicas <= 10:
        found.append(
            f"--replicas: {options.replicas} is not between 1 and 10; one leads, others are ready "
            "to take over"
        )
    if options.pull_policy not in _PULL_POLICIES:
        found.append(
            f"--pull-policy: {options.pull_policy!r} is not one of {', '.join(_PULL_POLICIES)}"
        )
    found += _issuer_problems(options)
    return [*found, *_monitoring_problems(options.monitoring)]


def read_issuer(text: str) -> Issuer | None:
    """Return the issuer that `[KIND[.GROUP]/]NAME` names; `own` means none."""
    place, _, name = text.strip().rpartition("/")
    if not place:
        return None if name == "own" else Issuer(name)
    kind, _, group = place.partition(".")
    return Issuer(name, kind, group or "cert-manager.io")


def _issuer_problems(options: Options) -> list[str]:
    issuer = options.issuer
    if issuer is None:
        return []
    found = []
    if not _DNS_NAME.fullmatch(issuer.name):
        found.append(f"--certificate-issuer: {issuer.name!r} is not the name of an issuer")
    if not _KIND.fullmatch(issuer.kind) or not _DNS_NAME.fullmatch(issuer.group):
        place = f"{issuer.kind}.{issuer.group}"
        found.append(f"--certificate-issuer: {place!r} is not KIND or KIND.GROUP of an issuer")
    if not options.webhooks:
        found.append(
            "--certificate-issuer: without webhooks there is nothing to certify; leave out "
            "--without-webhooks, or use --certificate-issuer own"
        )
    return found


def _monitoring_problems(chosen: MonitoringOptions) -> list[str]:
    found = [
        f"--monitoring-label: {key}={value} is not a label; use KEY=VALUE of letters, digits, '-', "
        "'_' and '.'"
        for key, value in chosen.labels.items()
        if not _LABEL_KEY.fullmatch(key) or not _LABEL_VALUE.fullmatch(value)
    ]
    found += [
        f"--scrape-namespaces: {name!r} is not a name of a namespace"
        for name in chosen.scrape_namespaces
        if name != EVERYWHERE and not _LABEL.fullmatch(name)
    ]
    if not chosen.runbook_url:
        found.append("--runbook-url: it is empty; name the place of the folder docs/runbooks")
    return found
