"""Fields the schema does not know: dropped silently, with a warning, or refused, as asked."""

from __future__ import annotations

from collections.abc import Sequence

from .calls import Call
from .causes import Cause
from .entries import Object
from .kinds import drop_unknown
from .metadata import check_shape, prune_metadata
from .status import StatusError, bad_request, invalid

__all__ = ["accept_fields", "check_directive", "strict_text", "unknown_fields"]

_DIRECTIVES = ("", "Ignore", "Warn", "Strict")


def check_directive(call: Call) -> None:
    """Refuse a validation directive that does not exist."""
    given = call.options.get("fieldValidation", "")
    if given not in _DIRECTIVES:
        cause = Cause(
            "fieldValidation",
            "FieldValueNotSupported",
            f'Unsupported value: "{given}": supported values: "", "Ignore", "Strict", "Warn"',
        )
        kind = {"POST": "CreateOptions", "PUT": "UpdateOptions"}.get(
            call.request.method, "PatchOptions"
        )
        raise invalid("meta.k8s.io", kind, "", [cause])


def unknown_fields(call: Call, value: Object) -> list[str]:
    """Drop what the schema does not know, and tell it in the words of warnings."""
    resource = call.resource
    check_shape(resource.kind, resource.version, value)
    dropped = [*drop_unknown(resource, value), *prune_metadata(value["metadata"])]
    return [f'unknown field "{path}"' for path in sorted(dropped)]


def strict_text(found: Sequence[str]) -> str:
    """Return how a strict refusal lists what it found."""
    return f"strict decoding error: {', '.join(found)}"


def accept_fields(call: Call, value: Object, duplicates: Sequence[str]) -> None:
    """Drop unknown fields from a body; warn of them or refuse them as the client asked."""
    found = [f'duplicate field "{key}"' for key in duplicates] + unknown_fields(call, value)
    report(call, found, bad_request(_refusal(call, found)))


def report(call: Call, found: Sequence[str], refusal: StatusError) -> None:
    """Warn of unknown fields or raise the refusal, as the client asked."""
    directive = call.options.get("fieldValidation", "") or "Warn"
    if not found or directive == "Ignore":
        return
    if directive == "Strict":
        raise refusal
    call.warnings.extend(found)


def _refusal(call: Call, found: Sequence[str]) -> str:
    kind, version = call.resource.kind, call.resource.version
    return f'{kind} in version "{version}" cannot be handled as a {kind}: {strict_text(found)}'
