"""Webhooks in one call: a server, its certificate, and the configurations that name it."""

from __future__ import annotations

import random
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from kubecontroller.client.meta import Key, Manifest
from kubecontroller.client.scheme import Kind
from kubecontroller.runtime.certkeeper import CertificateKeeper, Target
from kubecontroller.runtime.manager import Manager
from kubecontroller.runtime.webhook import Admit, Convert, WebhookServer

__all__ = ["MUTATING", "VALIDATING", "Certificate", "serve_webhooks", "serve_with"]

_GROUP: Final = "admissionregistration.k8s.io"
VALIDATING: Final[Kind[Manifest]] = Kind(
    _GROUP,
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    False,
    dict,
)
MUTATING: Final[Kind[Manifest]] = Kind(
    _GROUP, "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", False, dict
)


class Certificate(Protocol):
    """A certificate to serve webhooks with: `CertificateKeeper`, or `IssuedCertificate`."""

    @property
    def context(self) -> ssl.SSLContext:
        """The TLS context, whose certificate may change at any time."""

    def limitation(self) -> str | None:
        """Return why there is no certificate to serve with yet, or nothing."""

    async def begin(self) -> None:
        """Load the certificate before the server starts, if there is one."""

    async def run(self) -> None:
        """Keep the certificate up to date for ever."""


def serve_webhooks(
    manager: Manager,
    *,
    secret: Key,
    names: Sequence[str],
    targets: Sequence[Target],
    admission: Mapping[str, Admit] | None = None,
    conversion: Mapping[str, Convert] | None = None,
    labels: Mapping[str, str] | None = None,
    host: str = "0.0.0.0",
    port: int = 9443,
    on_renewed: Callable[[str], object] = lambda _: None,
) -> tuple[CertificateKeeper, WebhookServer]:
    """Serve webhooks by path on every replica, with a certificate that all of them share.

    The certificate is for `names` and is kept in `secret`, with `labels`; it is renewed without a
    restart, and `on_renewed` is called with the reason. Its authority is put into `targets`
    (`webhook_target`, `conversion_target`), and again when it is removed there. A replica is not
    ready before it has a certificate that the targets trust. Port 0 takes any free one.
    """
    keeper = CertificateKeeper(
        manager.unfenced_client,
        secret=secret,
        labels=labels,
        names=names,
        targets=targets,
        random=random.random,
        on_renewed=on_renewed,
    )
    server = serve_with(
        manager, keeper, admission=admission, conversion=conversion, host=host, port=port
    )
    return keeper, server


def serve_with(
    manager: Manager,
    certificate: Certificate,
    *,
    admission: Mapping[str, Admit] | None = None,
    conversion: Mapping[str, Convert] | None = None,
    host: str = "0.0.0.0",
    port: int = 9443,
) -> WebhookServer:
    """Serve webhooks as `serve_webhooks` does, with another source of the certificate."""
    server = WebhookServer(
        certificate.context,
        host=host,
        port=port,
        is_leaving=lambda: manager.limitation() is not None,
    )
    for path, admit in (admission or {}).items():
        server.add_admission(path, admit)
    for path, convert in (conversion or {}).items():
        server.add_conversion(path, convert)
    server.before_start(certificate.begin)
    manager.add_webhooks(server)
    manager.add_task("certificate", certificate.run)
    if manager.health is not None:
        manager.health.add_readiness("certificate", certificate.limitation)
    return server
