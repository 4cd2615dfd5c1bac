# ruff: noqa: N818 - errors are named after what the server says: NotFound, Conflict, Expired
"""Errors between this client and an API server.

    KubeError
    ├── ConfigError                  a kubeconfig or in-cluster file is wrong (file, field)
    │   └── CredentialError          no usable credential came from a file or exec plugin
    ├── ConnectionFailed             no HTTP response (host)
    │   ├── CertificateRejected      TLS: wrong CA, wrong name, expired
    │   ├── ConnectionBroken         lost later: the request may have been executed
    │   └── NoAnswer                 the deadline of the caller passed
    ├── StreamError                  a watch stream went wrong
    │   ├── GarbledLine              a line that is not a watch event
    │   └── StreamStalled            open, but silent for longer than allowed
    ├── UndecodableObject            a response that does not fit the expected type
    ├── NoSuchKind                   discovery knows no such kind or resource
    └── ApiError                     the server responded with a Status (status, reason, causes)
        ├── BadRequest 400           ├── Unauthorized 401        ├── Forbidden 403
        ├── NotFound 404             ├── MethodNotAllowed 405    ├── Conflict 409
        ├── AlreadyExists 409        ├── Gone 410 ── Expired     ├── RequestTooLarge 413
        ├── UnsupportedMediaType 415 ├── Invalid 422             ├── TooManyRequests 429
        └── ServerError 5xx ── Timeout 504, ServiceUnavailable 503

Each error carries its facts as fields; the message is for people and says what to do.
"""

from __future__ import annotations

from typing import ClassVar, Final

import msgspec
from msgspec import Struct

from kubecontroller.client.request import Response

__all__ = [
    "UNDECODABLE",
    "AlreadyExists",
    "ApiError",
    "BadRequest",
    "Cause",
    "CertificateRejected",
    "ConfigError",
    "Conflict",
    "ConnectionBroken",
    "ConnectionFailed",
    "CredentialError",
    "Expired",
    "Forbidden",
    "GarbledLine",
    "Gone",
    "Invalid",
    "KubeError",
    "MethodNotAllowed",
    "NoAnswer",
    "NoSuchKind",
    "NotFound",
    "RequestTooLarge",
    "ServerError",
    "ServiceUnavailable",
    "Status",
    "StatusDetails",
    "StreamError",
    "StreamStalled",
    "Timeout",
    "TooManyRequests",
    "Unauthorized",
    "UndecodableObject",
    "UnsupportedMediaType",
    "error_from_response",
    "error_from_status",
    "retry_after",
]


class Cause(Struct, frozen=True):
    """One of several reasons for a refusal, with the field that it concerns."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Struct, frozen=True, rename="camel"):
    """The part of a Status that names the object, the causes and when to retry."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[Cause, ...] | None = None
    retry_after_seconds: int = 0


class Status(Struct, frozen=True):
    """The `Status` object that an API server sends when it does not return the object."""

    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails | None = None


class KubeError(Exception):
    """Base of all errors that this package raises on purpose."""


class ConfigError(KubeError):
    """A configuration file cannot be used; says which file, which field and what to do."""

    def __init__(self, problem: str, *, file: str = "", field: str = "", advice: str = "") -> None:
        self.file = file
        self.field = field
        self.advice = advice
        where = ": ".join(part for part in (file, field) if part)
        text = f"{where}: {problem}" if where else problem
        super().__init__(f"{text}. {advice}" if advice else text)


class CredentialError(ConfigError):
    """No usable credential: a token file is gone, or an exec plugin failed."""


class ConnectionFailed(KubeError):
    """The server sent no HTTP response; `host` is its address."""

    def __init__(self, problem: str, *, host: str = "", advice: str = "") -> None:
        self.host = host
        self.advice = advice
        text = f"{host}: {problem}" if host else problem
        super().__init__(f"{text}. {advice}" if advice else text)


class CertificateRejected(ConnectionFailed):
    """TLS failed: one side does not trust the certificate of the other."""


class ConnectionBroken(ConnectionFailed):
    """The connection was lost after it was made: the request may have been executed."""


class NoAnswer(ConnectionFailed):
    """The deadline of the caller passed. The request may have been executed."""


class StreamError(KubeError):
    """A watch stream cannot be read any further; open a new one."""

    def __init__(self, problem: str, *, path: str = "") -> None:
        self.path = path
        super().__init__(f"watch of {path}: {problem}" if path else problem)


class GarbledLine(StreamError):
    """A line of a watch stream is not a watch event; `excerpt` is its beginning."""

    def __init__(self, problem: str, *, path: str = "", excerpt: bytes = b"") -> None:
        self.excerpt = excerpt
        super().__init__(f"{problem}: {excerpt[:80]!r}" if excerpt else problem, path=path)


class StreamStalled(StreamError):
    """The stream is open, but silent for longer than the caller allows."""


class UndecodableObject(KubeError):
    """A response does not fit the type that its kind is registered with.

    `carried_out` is true when it is the response to a write: the write happened nevertheless.
    """

    def __init__(self, problem: str, *, ref: str = "", carried_out: bool = False) -> None:
        self.ref = ref
        self.problem = problem
        self.carried_out = carried_out
        text = (
            f"{ref}: {problem}. Read it as a plain value, or correct the type" if ref else problem
        )
        super().__init__(f"{text}. The write itself was carried out" if carried_out else text)


class NoSuchKind(KubeError):
    """The server serves no such kind or resource; `wanted` is its name."""

    def __init__(self, wanted: str, *, advice: str = "") -> None:
        self.wanted = wanted
        text = f"the API server serves no {wanted}"
        super().__init__(f"{text}. {advice}" if advice else text)


class ApiError(KubeError):
    """The server responded with an error.

    `ref` names the object or resource, `causes` are the server's reasons field by field and
    `retry_after` is the number of seconds that it asks to wait, if it says so.
    """

    advice: ClassVar[str] = ""

    def __init__(
        self,
        message: str,
        *,
        status: int,
        reason: str = "",
        ref: str = "",
        causes: tuple[Cause, ...] = (),
        retry_after: float | None = None,
    ) -> None:
        self.status = status
        self.reason = reason
        self.ref = ref
        self.causes = causes
        self.retry_after = retry_after
        self.message = message
        super().__init__(self._sentence())

    def _sentence(self) -> str:
        text = f"{self.ref}: {self.message}" if self.ref else self.message
        missing = [c for c in self.causes if c.message and c.message not in self.message]
        if missing:
            listed = "; ".join(f"{c.field}: {c.message}" if c.field else c.message for c in missing)
            text = f"{text} ({listed})"
        text = f"{text} [{self.status} {self.reason}]" if self.reason else f"{text} [{self.status}]"
        return f"{text}. {self.advice}" if self.advice else text


class BadRequest(ApiError):
    """The request itself is wrong, whatever the object's state."""


class Unauthorized(ApiError):
    """The server does not accept the credential."""

    advice = "Check the token, client certificate or exec plugin of this context"


class Forbidden(ApiError):
    """The user is known and lacks the permission."""

    advice = "Grant it with a Role and RoleBinding, or look for the admission rule named here"


class NotFound(ApiError):
    """No such object, or no such resource."""


class MethodNotAllowed(ApiError):
    """The resource does not support this verb."""


class Conflict(ApiError):
    """Another client changed the object, a precondition failed, or a field has another manager."""

    advice = "Read the object again and decide again"


class AlreadyExists(ApiError):
    """An object of that name exists already."""


class Gone(ApiError):
    """The requested version is no longer available."""


class Expired(Gone):
    """The resourceVersion or continue token is too old; list again."""

    advice = "List again and watch from there"


class RequestTooLarge(ApiError):
    """The body is larger than the server accepts."""


class UnsupportedMediaType(ApiError):
    """The server does not accept this media type, such as a strategic patch of a custom kind."""


class Invalid(ApiError):
    """The object violates rules of its kind; `causes` has one entry for each wrong field."""


class TooManyRequests(ApiError):
    """The server asks to slow down, or a disruption budget forbids an eviction for now."""


class ServerError(ApiError):
    """The server failed; the same request may work later."""


class Timeout(ServerError):
    """The server did not finish the request in time; it may have been executed."""


class ServiceUnavailable(ServerError):
    """The server, or a webhook or aggregated server behind it, is not ready."""


_BY_REASON: Final[dict[str, type[ApiError]]] = {
    "AlreadyExists": AlreadyExists,
    "BadRequest": BadRequest,
    "Conflict": Conflict,
    "Expired": Expired,
    "Forbidden": Forbidden,
    "Gone": Gone,
    "InternalError": ServerError,
    "Invalid": Invalid,
    "MethodNotAllowed": MethodNotAllowed,
    "NotFound": NotFound,
    "RequestEntityTooLarge": RequestTooLarge,
    "ServerTimeout": Timeout,
    "ServiceUnavailable": ServiceUnavailable,
    "Timeout": Timeout,
    "TooManyRequests": TooManyRequests,
    "Unauthorized": Unauthorized,
    "UnsupportedMediaType": UnsupportedMediaType,
}

_BY_STATUS: Final[dict[int, type[ApiError]]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: MethodNotAllowed,
    409: Conflict,
    410: Gone,
    413: RequestTooLarge,
    415: UnsupportedMediaType,
    422: Invalid,
    429: TooManyRequests,
    503: ServiceUnavailable,
    504: Timeout,
}

_STATUS_DECODER: Final = msgspec.json.Decoder(Status)

UNDECODABLE: Final = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)
"""What decoding raises: the JSON does not fit, is nested too deeply, or is not UTF-8."""


def error_from_response(response: Response, *, ref: str = "") -> ApiError:
    """Return the typed error for a response that is not a success; the body may be anything."""
    try:
        status = _STATUS_DECODER.decode(response.body)
    except UNDECODABLE:
        excerpt = response.body[:200].decode("utf-8", "replace").strip()
        status = Status(message=excerpt)
    error = error_from_status(status, code=response.status, ref=ref)
    if error.retry_after is None:
        error.retry_after = retry_after(response)
    return error


def error_from_status(status: Status, *, code: int = 0, ref: str = "") -> ApiError:
    """Return the typed error for a Status; `code` is the HTTP status, if there was one.

    The reason decides, since several reasons share a status; the status decides where the server
    gave no reason, as proxies in front of it do.
    """
    number = code or status.code
    kind = _BY_REASON.get(status.reason) or _BY_STATUS.get(number)
    if kind is None:
        kind = ServerError if number >= 500 else ApiError
    details = status.details
    wait = float(details.retry_after_seconds) if details and details.retry_after_seconds else None
    return kind(
        status.message or status.reason or "the server gave no reason",
        status=number,
        reason=status.reason,
        ref=ref,
        causes=(details.causes or ()) if details else (),
        retry_after=wait,
    )


def retry_after(response: Response) -> float | None:
    """Return the seconds to wait according to a response; dates are ignored."""
    text = response.headers.get("retry-after", "").strip()
    return float(text) if text.isascii() and text.isdigit() else None
