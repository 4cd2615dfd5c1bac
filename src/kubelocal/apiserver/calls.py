"""One request on its way through the server: its resource, its user and its options.

Also the protocol between the core and its shell: the core is a generator that yields an `Effect`
whenever it needs the outside world (a webhook to be called) and is sent the outcome, and that
returns an `Answer`.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TypeAlias, TypeVar

from msgspec import Struct

from kubecontroller.client import Request, Response
from kubelocal.apiserver.causes import Cause
from kubelocal.apiserver.errors import invalid
from kubelocal.apiserver.kinds.table import Resource
from kubelocal.apiserver.storage.watch import Watch

__all__ = [
    "Answer",
    "Call",
    "CallWebhook",
    "Connect",
    "Steps",
    "User",
    "WebhookFailed",
    "WebhookReply",
]

T = TypeVar("T")


class User(Struct, frozen=True):
    """The user of a request."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


class Connect(Struct, frozen=True):
    """An answer that is a stream to or from a pod: log, exec, attach or portforward."""

    subresource: str
    namespace: str
    name: str
    pod: dict[str, object]
    query: tuple[tuple[str, str], ...]


class CallWebhook(Struct, frozen=True):
    """Ask the shell to POST a review to an admission webhook."""

    url: str
    address: str  # connect here instead of to the host of the URL, if given
    ca_bundle: bytes | None
    server_name: str | None
    body: bytes
    timeout: float


class WebhookReply(Struct, frozen=True):
    """The response of a webhook."""

    status: int
    body: bytes


class WebhookFailed(Struct, frozen=True):
    """Why a webhook did not respond."""

    why: str


Answer: TypeAlias = Response | Watch | Connect
Outcome: TypeAlias = WebhookReply | WebhookFailed
Steps: TypeAlias = Generator[CallWebhook, Outcome, T]


class Call(Struct, frozen=True):
    """A routed request."""

    request: Request
    user: User
    resource: Resource
    namespace: str
    name: str
    subresource: str
    options: Mapping[str, str]
    headers: Mapping[str, str]
    warnings: list[str]

    @property
    def dry_run(self) -> bool:
        """Return whether nothing that this request does may be stored."""
        value = self.options.get("dryRun", "")
        if value not in {"", "All"}:
            cause = Cause(
                "dryRun",
                "FieldValueNotSupported",
                f'Unsupported value: ["{value}"]: supported values: "All"',
            )
            raise invalid("meta.k8s.io", self.options_kind, "", [cause])
        return value == "All"

    @property
    def options_kind(self) -> str:
        """Return the kind of options that a request of this method takes."""
        kinds = {"POST": "CreateOptions", "PUT": "UpdateOptions", "DELETE": "DeleteOptions"}
        return kinds.get(self.request.method, "PatchOptions")

    def flag(self, name: str) -> bool:
        """Return a boolean option as Kubernetes reads it: present and not false."""
        value = self.options.get(name)
        return value is not None and value.lower() not in {"false", "0"}

    @property
    def manager(self) -> str:
        """Return the field manager of what this request writes."""
        given = self.options.get("fieldManager", "")
        return given or self.headers.get("user-agent", "unknown").split("/")[0] or "unknown"
