"""A Kubernetes client: requests, errors, kinds, credentials, discovery and the HTTP transport.

Most programs import `Client`, `load`, `HttpTransport` and the usual errors from `kubecontroller`.
The names here are for those that build requests or transports themselves, or handle rare errors;
the built-in kinds are in `objects`. `verbs` builds the requests of a client, `http` sends them,
`config` finds the API server.

May import: `custom`.
Called by: `runtime`, `testing`, and programs that need only a client, such as `kubelocal.node`.
Begin with: `api.Client`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubecontroller.client.access import Access
    from kubecontroller.client.definitions import definition_limitation
    from kubecontroller.client.discovery import RestMapper, parse_plain
    from kubecontroller.client.errors import (
        CertificateRejected,
        ConfigError,
        ConnectionBroken,
        ConnectionFailed,
        CredentialError,
        Expired,
        GarbledLine,
        Gone,
        MethodNotAllowed,
        NoAnswer,
        NoSuchKind,
        RequestTooLarge,
        ServerError,
        ServiceUnavailable,
        StreamError,
        StreamStalled,
        Timeout,
        TooManyRequests,
        Unauthorized,
        UndecodableObject,
        UnsupportedMediaType,
        error_from_response,
    )
    from kubecontroller.client.meta import is_at_least, key_of
    from kubecontroller.client.patches import StrategicPatch
    from kubecontroller.client.request import (
        APPLY_PATCH,
        JSON,
        JSON_PATCH,
        MERGE_PATCH,
        STRATEGIC_PATCH,
        Request,
        Response,
        object_path,
    )
    from kubecontroller.client.scheme import split_api_version
    from kubecontroller.client.transport import Transport
    from kubecontroller.client.watch import Bookmark, WatchedChange

__all__ = [
    "APPLY_PATCH",
    "JSON",
    "JSON_PATCH",
    "MERGE_PATCH",
    "STRATEGIC_PATCH",
    "Access",
    "Bookmark",
    "CertificateRejected",
    "ConfigError",
    "ConnectionBroken",
    "ConnectionFailed",
    "CredentialError",
    "Expired",
    "GarbledLine",
    "Gone",
    "MethodNotAllowed",
    "NoAnswer",
    "NoSuchKind",
    "Request",
    "RequestTooLarge",
    "Response",
    "RestMapper",
    "ServerError",
    "ServiceUnavailable",
    "StrategicPatch",
    "StreamError",
    "StreamStalled",
    "Timeout",
    "TooManyRequests",
    "Transport",
    "Unauthorized",
    "UndecodableObject",
    "UnsupportedMediaType",
    "WatchedChange",
    "definition_limitation",
    "error_from_response",
    "is_at_least",
    "key_of",
    "object_path",
    "parse_plain",
    "split_api_version",
]

if not TYPE_CHECKING:  # else any name would pass the type checker
    from kubecontroller._lazy import loader

    __getattr__ = loader(
        __name__,
        {
            "access": "Access",
            "definitions": "definition_limitation",
            "discovery": "RestMapper parse_plain",
            "errors": (
                "CertificateRejected ConfigError ConnectionBroken ConnectionFailed "
                "CredentialError Expired GarbledLine Gone MethodNotAllowed NoAnswer "
                "NoSuchKind RequestTooLarge ServerError ServiceUnavailable StreamError "
                "StreamStalled Timeout TooManyRequests Unauthorized UndecodableObject "
                "UnsupportedMediaType error_from_response"
            ),
            "meta": "is_at_least key_of",
            "patches": "StrategicPatch",
            "request": (
                "APPLY_PATCH JSON JSON_PATCH MERGE_PATCH STRATEGIC_PATCH Request Response "
                "object_path"
            ),
            "scheme": "split_api_version",
            "transport": "Transport",
            "watch": "Bookmark WatchedChange",
        },
    )
