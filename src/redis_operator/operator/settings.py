"""How one operator process runs: from its arguments and, in a pod, from its environment."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from enum import Enum

from msgspec import Struct

from kubecontroller.runtime import Format
from redis_operator import __version__

__all__ = ["Settings", "WebhookCertificate", "read_settings"]


class WebhookCertificate(Enum):
    """Who issues the certificate of the admission webhooks."""

    OWN = "own"
    ISSUED = "issued"


class Settings(Struct, frozen=True):
    """The choices of an installation."""

    kubeconfig: str = ""
    context: str = ""
    namespaces: tuple[str, ...] = ()  # those to manage; none: all
    namespace: str = "default"  # of the operator itself, with its lease
    pod_labels: tuple[tuple[str, str], ...] = (("app.kubernetes.io/name", "redis-operator"),)
    binding_addresses: bool = False  # without cluster DNS, bindings contain addresses
    workers: int = 8
    elect: bool = True
    health_port: int = 8080  # 0 serves neither health nor metrics
    health_host: str = "0.0.0.0"
    secured_metrics_port: int | None = None  # TLS, for clients that the API server allows
    webhook_port: int = 0  # 0 serves no admission
    webhook_host: str = "0.0.0.0"
    webhook_certificate: WebhookCertificate = WebhookCertificate.OWN
    probe_interval: float = 10.0
    probe_timeout: float = 2.0
    secret_refresh: float = 90.0  # kubelets refresh mounted Secrets within so many seconds
    worker_image: str = f"redis-operator:{__version__}"  # of backups: the operator's own
    log_format: Format = Format.HUMAN
    verbose: bool = False
    wait_for_server: bool = False


def read_settings(
    arguments: Sequence[str], environment: Mapping[str, str] = os.environ
) -> Settings:
    """Read the arguments of `redis-operator run`; exits with a message when they are wrong."""
    parser = _parser(environment)
    given = parser.parse_args(arguments)
    if given.workers < 1:
        parser.error("--workers must be at least 1")
    labels = tuple(_label(text) for text in given.pod_labels.split(",") if text.strip())
    watched = environment.get("WATCH_NAMESPACES", "")
    if given.namespaces is not None:
        watched = given.namespaces
    names = tuple(name.strip() for name in watched.split(",") if name.strip())
    if not names and (watched or given.namespaces is not None):
        parser.error("--namespaces names no namespace; leave it out to manage all")
    if not labels or not all(labels):
        parser.error("--pod-labels must be KEY=VALUE, separated by commas")
    if given.probe_interval < 1:
        parser.error("--probe-interval must be at least 1 second")
    if given.secured_metrics_port is not None and not given.health_port:
        parser.error("--secured-metrics-port needs a --health-port: the same part serves both")
    return Settings(
        kubeconfig=given.kubeconfig,
        context=given.context,
        namespaces=names,
        namespace=given.namespace,
        pod_labels=tuple(label for label in labels if label),
        binding_addresses=given.binding_addresses,
        workers=given.workers,
        elect=not given.no_election,
        health_port=given.health_port,
        health_host=given.health_host,
        secured_metrics_port=given.secured_metrics_port,
        webhook_port=given.webhook_port,
        webhook_host=given.webhook_host,
        webhook_certificate=WebhookCertificate(given.webhook_certificate),
        probe_interval=given.probe_interval,
        secret_refresh=given.secret_refresh,
        worker_image=given.worker_image,
        log_format=Format(given.log),
        verbose=given.verbose,
        wait_for_server=given.wait_for_server,
    )


def _parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    """Create the parser; defaults come from the environment where there are any."""
    parser = argparse.ArgumentParser(
        prog="redis-operator run",
        description="Run the operator: manage the Redis databases of a cluster.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    parser.add_argument("--kubeconfig", default="", help="else KUBECONFIG, else the pod's own")
    parser.add_argument("--context", default="", help="the kubeconfig's context, if not current")
    parser.add_argument(
        "--namespaces",
        default=None,
        help="namespaces to watch, separated by commas; default: WATCH_NAMESPACES, else all",
    )
    parser.add_argument(
        "--namespace",
        default=environment.get("POD_NAMESPACE", "default"),
        help="where the operator runs: its lease is there, and NetworkPolicies of databases let "
        "its pods of this namespace in",
    )
    parser.add_argument(
        "--pod-labels",
        default=environment.get("POD_LABELS", "app.kubernetes.io/name=redis-operator"),
        help="labels of the operator's own pods, KEY=VALUE separated by commas, by which "
        "NetworkPolicies of databases let them in",
    )
    parser.add_argument(
        "--binding-addresses",
        action="store_true",
        help="bindings name the address of the client Service: for clusters without DNS",
    )
    parser.add_argument(
        "--workers", type=int, default=8, help="databases reconciled at the same time"
    )
    parser.add_argument(
        "--no-election", action="store_true", help="do not elect a leader: only one process runs"
    )
    parser.add_argument("--health-port", type=int, default=8080, help="0 serves none")
    parser.add_argument("--health-host", default="0.0.0.0")
    parser.add_argument(
        "--secured-metrics-port",
        type=int,
        default=None,
        help="serve /metrics here instead, over TLS, to accounts that may get that path",
    )
    parser.add_argument(
        "--webhook-port",
        type=int,
        default=0,
        help="where the API server asks before it stores these kinds, over TLS; 0 serves none",
    )
    parser.add_argument("--webhook-host", default="0.0.0.0")
    parser.add_argument(
        "--webhook-certificate",
        choices=[one.value for one in WebhookCertificate],
        default=WebhookCertificate.OWN.value,
        help="own: made and renewed by the operator; issued: read from a Secret that an issuer, "
        "such as cert-manager, writes",
    )
    parser.add_argument("--probe-interval", type=float, default=10.0, help="seconds at rest")
    parser.add_argument(
        "--secret-refresh",
        type=float,
        default=90.0,
        help="seconds within which kubelets refresh mounted Secrets; each of the two stages of a "
        "change of passwords lasts at least that long",
    )
    parser.add_argument(
        "--worker-image",
        default=environment.get("WORKER_IMAGE", f"redis-operator:{__version__}"),
        help="image of the workers that take and restore backups: the operator's own",
    )
    parser.add_argument("--log", choices=[f.value for f in Format], default=Format.HUMAN.value)
    parser.add_argument(
        "--verbose", action="store_true", help="debug log: also say why nothing is done"
    )
    parser.add_argument(
        "--wait-for-server", action="store_true", help="wait for the kubeconfig and the server"
    )
    return parser


def _label(text: str) -> tuple[str, str] | None:
    """Read one label, or None when it is not a label."""
    key, equals, value = text.strip().partition("=")
    return (key, value) if key and equals and value else None
