"""What the API server asks the operator before it stores an object of ours: one table. Pure.

The installation is made from it, and the operator serves it. Each row says what becomes of a write
while no operator answers (`failure_policy`), and why.

`redis`, `redisfailovers`, `redisbackupschedules`: **Ignore**. The controller checks the same by the
same functions and goes on with the last spec that was good; an answer that is missing costs the
early message. To refuse every change of every database while the operator is away would cost more.

`redisversions`: **Fail**. A version in use that goes leaves its databases without an image, and no
later check gives it back. It is seldom written, by administrators, and no database waits for it.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

__all__ = [
    "CONFIGURATION",
    "INSTALLATION_LABEL",
    "ISSUED_SECRET",
    "SECRET",
    "SERVICE",
    "WEBHOOKS",
    "Webhook",
    "service_names",
]

CONFIGURATION: Final = "redis-operator"
"""The ValidatingWebhookConfiguration, whose CA bundle the operator keeps."""
SERVICE: Final = "redis-operator-webhook"
SECRET: Final = "redis-operator-webhook-tls"  # noqa: S105 - its name
"""The operator's own CA and certificate, in its namespace; made by it, shared by its replicas."""
ISSUED_SECRET: Final = "redis-operator-webhook-issued"  # noqa: S105 - its name
"""The certificate of an issuer, where one is named; the operator only reads it."""

INSTALLATION_LABEL: Final = "redisoperator.dev/installation"
"""On every object of an installation: the namespace that its operator lives in."""


class Webhook(Struct, frozen=True):
    """One rule of the configuration."""

    resource: str
    operations: tuple[str, ...]
    failure_policy: str
    timeout_seconds: int
    namespaced: bool = True

    @property
    def name(self) -> str:
        """What a refusal begins with."""
        return f"{self.resource}.redisoperator.dev"

    @property
    def path(self) -> str:
        """Where it is served."""
        return f"/validate/{self.resource}"


WEBHOOKS: Final = (
    Webhook("redis", ("CREATE", "UPDATE"), "Ignore", 3),
    Webhook("redisfailovers", ("CREATE", "UPDATE"), "Ignore", 3),
    Webhook("redisbackupschedules", ("CREATE", "UPDATE"), "Ignore", 3),
    Webhook("redisversions", ("UPDATE", "DELETE"), "Fail", 5, namespaced=False),
)


def service_names(namespace: str) -> tuple[str, ...]:
    """By which names the API server may reach the operator's Service."""
    return tuple(f"{SERVICE}.{namespace}.svc{more}" for more in ("", ".cluster.local"))
