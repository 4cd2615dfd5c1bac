"""Errors in the wording of Kubernetes, because clients match on reasons and people on text.

Every refusal of the server is raised as a `StatusError` and becomes the body of the response in
one place. The functions below have the only wording of each refusal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kubelocal.apiserver.causes import Cause, describe

__all__ = [
    "StatusError",
    "already_exists",
    "bad_request",
    "conflict",
    "expired",
    "forbidden",
    "internal",
    "invalid",
    "method_not_allowed",
    "not_acceptable",
    "not_found",
    "success",
    "too_large",
    "too_many_requests",
    "too_new",
    "unauthorized",
    "unavailable",
    "unsupported_media_type",
]

MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


class StatusError(Exception):
    """A refusal: HTTP code, machine-readable reason, text for people, and details."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = dict(details) if details is not None else None
        self.metadata = dict(metadata or {})

    @property
    def retry_after(self) -> int | None:
        """Seconds that the client should wait before it retries, if known."""
        return (self.details or {}).get("retryAfterSeconds")

    def body(self) -> dict[str, Any]:
        """Return the `Status` object that a client sees."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status


def qualified(group: str, plural: str) -> str:
    """Return a resource's name in messages: `deployments.apps`, or `pods` in the core group."""
    return f"{plural}.{group}" if group else plural


def _details(group: str, kind: str, name: str = "", **more: Any) -> dict[str, Any]:
    details: dict[str, Any] = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    if kind:
        details["kind"] = kind
    details.update(more)
    return details


def success(group: str, plural: str, name: str, uid: str) -> dict[str, Any]:
    """Return the `Status` of a completed deletion."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": _details(group, plural, name, uid=uid),
    }


def not_found(group: str, plural: str, name: str) -> StatusError:
    """No such object."""
    text = f'{qualified(group, plural)} "{name}" not found'
    return StatusError(404, "NotFound", text, details=_details(group, plural, name))


def already_exists(group: str, plural: str, name: str) -> StatusError:
    """An object of that name exists."""
    text = f'{qualified(group, plural)} "{name}" already exists'
    return StatusError(409, "AlreadyExists", text, details=_details(group, plural, name))


def conflict(group: str, plural: str, name: str, why: str = MODIFIED) -> StatusError:
    """The object has changed since the client read it."""
    text = f'Operation cannot be fulfilled on {qualified(group, plural)} "{name}": {why}'
    return StatusError(409, "Conflict", text, details=_details(group, plural, name))


def invalid(group: str, kind: str, name: str, causes: Sequence[Cause]) -> StatusError:
    """The object violates rules; every violated rule is a cause."""
    subject = f"{kind}.{group}" if group else kind
    details = _details(
        group,
        kind,
        name,
        causes=[
            {"reason": cause.reason, "message": cause.message, "field": cause.field}
            for cause in causes
        ],
    )
    text = f'{subject} "{name}" is invalid' + (f": {describe(causes)}" if causes else "")
    return StatusError(422, "Invalid", text, details=details)


def forbidden(group: str, plural: str, name: str, why: str) -> StatusError:
    """The caller, or the state of the cluster, does not allow this."""
    subject = qualified(group, plural) + (f' "{name}"' if name else "")
    text = f"{subject} is forbidden: {why}" if plural else f"forbidden: {why}"
    return StatusError(403, "Forbidden", text, details=_details(group, plural, name))


def unauthorized() -> StatusError:
    """The credential is not valid."""
    return StatusError(401, "Unauthorized", "Unauthorized")


def bad_request(message: str) -> StatusError:
    """The request itself cannot be understood."""
    return StatusError(400, "BadRequest", message)


def method_not_allowed(details: Mapping[str, Any] | None = None) -> StatusError:
    """The resource exists but has no such verb."""
    return StatusError(
        405,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
        details=details or {},
    )


def unsupported_media_type(accepted: Sequence[str]) -> StatusError:
    """The body is in a format that the server does not read."""
    listed = ", ".join(accepted)
    text = (
        f"the body of the request was in an unknown format - accepted media types include: {listed}"
    )
    return StatusError(415, "UnsupportedMediaType", text)


def not_acceptable() -> StatusError:
    """The client accepts no format that the server writes."""
    text = "406: Not Acceptable\n\nAvailable representations: application/json"
    return StatusError(406, "NotAcceptable", text, details={})


def too_large(limit: int) -> StatusError:
    """The body is larger than the limit."""
    return StatusError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}")


def expired(message: str, *, again: str = "") -> StatusError:
    """The requested version is no longer in the history; `again` continues inconsistently."""
    metadata = {"continue": again} if again else None
    return StatusError(410, "Expired", message, metadata=metadata)


def too_new(asked: int, current: int) -> StatusError:
    """The requested version does not exist yet."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return StatusError(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {asked}, current: {current}",
        details={"causes": [cause], "retryAfterSeconds": 1},
    )


def too_many_requests(message: str, retry_after: int, **details: Any) -> StatusError:
    """The request is refused for now; the client should retry later."""
    if retry_after:
        details["retryAfterSeconds"] = retry_after
    return StatusError(429, "TooManyRequests", message, details=details)


def internal(message: str) -> StatusError:
    """The server failed, not the client."""
    details = {"causes": [{"message": message}]}
    return StatusError(500, "InternalError", f"Internal error occurred: {message}", details=details)


def unavailable(message: str) -> StatusError:
    """A component that this request needs is not running."""
    return StatusError(503, "ServiceUnavailable", message)
