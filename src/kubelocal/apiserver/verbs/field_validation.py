"""Bodies against their schema: values of the wrong type, and unknown fields.

Wrong types are always refused for built-in kinds, as Go cannot hold them. Unknown fields are
dropped silently, with a warning, or refused, as the client chose with `fieldValidation`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kubelocal.apiserver.calls import Call
from kubelocal.apiserver.causes import Cause, too_long
from kubelocal.apiserver.errors import StatusError, bad_request, invalid
from kubelocal.apiserver.format.field_types import mistyped
from kubelocal.apiserver.kinds.schemas import OBJECT_META, definition
from kubelocal.apiserver.kinds.table import Resource
from kubelocal.apiserver.objects.questions import drop_unknown, schema_for
from kubelocal.apiserver.storage.entries import Object
from kubelocal.apiserver.verbs.shapes import fits

__all__ = [
    "accept_fields",
    "check_directive",
    "check_metadata",
    "is_plain",
    "report",
    "strict_text",
    "type_problem",
    "unknown_fields",
]

_LONGEST_MANAGER = 128
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
        raise invalid("meta.k8s.io", call.options_kind, "", [cause])
    if len(call.options.get("fieldManager", "")) > _LONGEST_MANAGER:
        cause = too_long("fieldManager", _LONGEST_MANAGER)
        raise invalid("meta.k8s.io", call.options_kind, "", [cause])


def is_plain(call: Call, value: Object) -> bool:
    """Return quickly, for most objects, that nothing in them is mistyped or unknown."""
    resource = call.resource
    return (
        resource.custom is None
        and "metadata" in value
        and fits(resource.group, resource.version, resource.kind, value)
    )


def type_problem(call: Call, value: Object) -> str | None:
    """Return what has the wrong type in an object of a built-in kind."""
    if call.resource.custom is not None:
        return None
    return mistyped(schema_for(call.resource), value)


def check_metadata(resource: Resource, value: Object) -> None:
    """Refuse metadata with values of wrong types; drop its nulls."""
    problem = mistyped(definition(OBJECT_META), value.get("metadata"), "metadata")
    metadata = value["metadata"] = {} if problem else value.get("metadata") or {}
    for key, item in list(metadata.items()):
        if item is None:
            del metadata[key]
        elif key in {"labels", "annotations"}:
            metadata[key] = {name: text or "" for name, text in item.items()}
        elif isinstance(item, list) and None in item:
            problem = f"metadata.{key}: null is not allowed"
    if problem is not None:
        raise bad_request(f"{_subject(resource)}: {problem}")


def unknown_fields(call: Call, value: Object) -> list[str]:
    """Drop fields that the schema does not know, and return their warnings."""
    order = {key: number for number, key in enumerate(value)}
    check_metadata(call.resource, value)
    dropped = drop_unknown(call.resource, value)
    dropped.sort(key=lambda path: order.get(path.partition(".")[0].partition("[")[0], len(order)))
    return [f'unknown field "{path}"' for path in dropped]


def strict_text(found: Sequence[str]) -> str:
    """Return the text of a strict refusal."""
    return f"strict decoding error: {', '.join(found)}"


def _subject(resource: Resource) -> str:
    kind = resource.kind
    return f'{kind} in version "{resource.version}" cannot be handled as a {kind}'


def accept_fields(call: Call, value: Object, duplicates: Sequence[str]) -> None:
    """Refuse wrong types; drop unknown fields, and warn or refuse as the client chose."""
    subject = _subject(call.resource)
    found: list[str] = []
    if not is_plain(call, value):
        problem = type_problem(call, value)
        if problem is not None:
            raise bad_request(f"{subject}: {problem}")
        found = unknown_fields(call, value)
    found += [f'duplicate field "{key}"' for key in duplicates]
    report(call, found, lambda: bad_request(f"{subject}: {strict_text(found)}"))


def report(call: Call, found: Sequence[str], refusal: Callable[[], StatusError]) -> None:
    """Warn of unknown fields or raise the refusal, as the client chose."""
    directive = call.options.get("fieldValidation", "") or "Warn"
    if not found or directive == "Ignore":
        return
    if directive == "Strict":
        raise refusal()
    call.warnings.extend(found)
