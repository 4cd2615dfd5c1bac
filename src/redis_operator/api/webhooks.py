"""The admission webhooks of the operator's kinds: one table. Pure.

The installation is generated from it, and the operator serves it. Each row says what happens to a
write while no operator responds (`failure_policy`), and why.

`redis`, `redisfailovers`, `redisbackupschedules`: **Ignore**. The controller checks the same by the
same functions and keeps using the last valid spec; without a response only the early message is
missing. To refuse every change of every database while the operator is down would cost more.

`redisversions`: **Fail**. Deleting a version in use leaves its databases without an image, and no
later check restores it. It is seldom written, by administrators, and no database waits for it.
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
"""The ValidatingWebhookConfiguration, whose CA bundle the operator maintains."""
SERVICE: Final = "redis-operator-webhook"
SECRET: Final = "redis-operator-webhook-tls"  # noqa: S105 - its name
"""The operator's own CA and certificate, in its namespace; its replicas share them."""
ISSUED_SECRET: Final = "redis-operator-webhook-issued"  # noqa: S105 - its name
"""The certificate of an issuer, where one is named; the operator only reads it."""

INSTALLATION_LABEL: Final = "redisoperator.dev/installation"
"""On every object of an installation: the namespace of its operator."""


class Webhook(Struct, frozen=True):
    """One rule of the configuration."""

    resource: str
    operations: tuple[str, ...]
    failure_policy: str
    timeout_seconds: int
    namespaced: bool = True

    @property
    def name(self) -> str:
        """The name of the webhook; a refusal begins with it."""
        return f"{self.resource}.redisoperator.dev"

    @property
    def path(self) -> str:
        """The path that it is served at."""
        return f"/validate/{self.resource}"


WEBHOOKS: Final = (
    Webhook("redis", ("CREATE", "UPDATE"), "Ignore", 3),
    Webhook("redisfailovers", ("CREATE", "UPDATE"), "Ignore", 3),
    Webhook("redisbackupschedules", ("CREATE", "UPDATE"), "Ignore", 3),
    Webhook("redisversions", ("UPDATE", "DELETE"), "Fail", 5, namespaced=False),
)


def service_names(namespace: str) -> tuple[str, ...]:
    """Return the names by which the API server may reach the operator's Service."""
    return tuple(f"{SERVICE}.{namespace}.svc{more}" for more in ("", ".cluster.local"))
