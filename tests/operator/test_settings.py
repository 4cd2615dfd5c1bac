"""Arguments and environment of the operator's process, and what they mean."""

from __future__ import annotations

from typing import Any

import pytest

from kubecontroller.runtime.logs import Format
from redis_operator import __version__
from redis_operator.operator.settings import Settings, WebhookCertificate, read_settings

LABELS = (("app.kubernetes.io/name", "redis-operator"),)


def test_without_arguments_and_environment_all_is_as_documented() -> None:
    found = read_settings([], {})
    assert found == Settings()
    assert (found.namespaces, found.namespace, found.pod_labels) == ((), "default", LABELS)
    assert (found.workers, found.elect, found.binding_addresses) == (8, True, False)
    assert (found.health_port, found.secured_metrics_port, found.webhook_port) == (8080, None, 0)
    assert (found.health_host, found.webhook_host) == ("0.0.0.0", "0.0.0.0")
    assert found.webhook_certificate is WebhookCertificate.OWN
    assert (found.probe_interval, found.probe_timeout, found.secret_refresh) == (10.0, 2.0, 90.0)
    assert found.worker_image == f"redis-operator:{__version__}"
    assert (found.log_format, found.verbose, found.wait_for_server) == (Format.HUMAN, False, False)


@pytest.mark.parametrize(
    ("arguments", "field", "value"),
    [
        (["--kubeconfig", "/k"], "kubeconfig", "/k"),
        (["--context", "c"], "context", "c"),
        (["--namespaces", " a, ,b "], "namespaces", ("a", "b")),
        (["--namespace", "ops"], "namespace", "ops"),
        (["--pod-labels", "a=b, c=d,"], "pod_labels", (("a", "b"), ("c", "d"))),
        (["--binding-addresses"], "binding_addresses", True),
        (["--workers", "1"], "workers", 1),
        (["--no-election"], "elect", False),
        (["--health-port", "0"], "health_port", 0),
        (["--health-host", "127.0.0.1"], "health_host", "127.0.0.1"),
        (["--secured-metrics-port", "8443"], "secured_metrics_port", 8443),
        (["--webhook-port", "9443"], "webhook_port", 9443),
        (["--webhook-host", "127.0.0.1"], "webhook_host", "127.0.0.1"),
        (["--webhook-certificate", "issued"], "webhook_certificate", WebhookCertificate.ISSUED),
        (["--probe-interval", "1"], "probe_interval", 1.0),
        (["--secret-refresh", "5"], "secret_refresh", 5.0),
        (["--worker-image", "ours:1"], "worker_image", "ours:1"),
        (["--log", "json"], "log_format", Format.JSON),
        (["--verbose"], "verbose", True),
        (["--wait-for-server"], "wait_for_server", True),
    ],
)
def test_an_argument_sets_one_field(arguments: list[str], field: str, value: Any) -> None:
    found = read_settings(arguments, {})
    assert getattr(found, field) == value
    others = [name for name in Settings.__struct_fields__ if name != field]
    assert [getattr(found, name) for name in others] == [
        getattr(Settings(), name) for name in others
    ]


@pytest.mark.parametrize(
    ("variable", "text", "argument", "field", "value"),
    [
        ("WATCH_NAMESPACES", "a,b", "--namespaces=c", "namespaces", ("a", "b")),
        ("POD_NAMESPACE", "ops", "--namespace=c", "namespace", "ops"),
        ("POD_LABELS", "a=b", "--pod-labels=c=d", "pod_labels", (("a", "b"),)),
        ("WORKER_IMAGE", "ours:1", "--worker-image=c", "worker_image", "ours:1"),
    ],
)
def test_a_pod_is_configured_by_its_environment_and_an_argument_has_the_last_word(
    variable: str, text: str, argument: str, field: str, value: Any
) -> None:
    assert getattr(read_settings([], {variable: text}), field) == value
    assert getattr(read_settings([argument], {variable: text}), field) != value


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--namespaces", ""], "--namespaces names no namespace; leave it out to manage all"),
        (["--namespaces", " , "], "--namespaces names no namespace; leave it out to manage all"),
        (["--workers", "0"], "--workers must be at least 1"),
        (["--pod-labels", " , "], "--pod-labels must be KEY=VALUE"),
        (["--pod-labels", "a=b,c"], "--pod-labels must be KEY=VALUE"),
        (["--pod-labels", "=b"], "--pod-labels must be KEY=VALUE"),
        (["--pod-labels", "a="], "--pod-labels must be KEY=VALUE"),
        (["--probe-interval", "0.5"], "--probe-interval must be at least 1 second"),
        (
            ["--secured-metrics-port", "8443", "--health-port", "0"],
            "--secured-metrics-port needs a --health-port",
        ),
        (["--webhook-certificate", "none"], "invalid choice"),
    ],
)
def test_an_argument_that_makes_no_sense_is_refused(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        read_settings(arguments, {})
    assert ended.value.code == 2
    assert words in capsys.readouterr().err
