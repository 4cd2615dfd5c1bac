"""Validation errors of an object, in the words of a Kubernetes API server.

Each constructor returns one `Cause` as it appears in `status.details.causes`; `describe` joins
causes into the sentence of `status.message`. Pure; called by every check of the server.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

__all__ = [
    "Cause",
    "describe",
    "duplicate",
    "forbidden",
    "go_number",
    "go_quote",
    "go_value",
    "invalid",
    "not_supported",
    "required",
    "too_long",
    "too_many",
    "type_invalid",
]


class Cause(Struct, frozen=True):
    """One error: its field, a reason for machines, and a message that omits the field."""

    field: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def go_quote(text: str) -> str:
    """Quote a text."""
    return json.dumps(text, ensure_ascii=False)


def go_number(number: float) -> str:
    """Print a number: whole ones without a point, large ones with an exponent."""
    if isinstance(number, int):
        return str(number)
    return f"{number:g}" if number == int(number) else repr(number)


def go_value(value: Any) -> str:
    """Print a bad value as Kubernetes' field errors do."""
    if isinstance(value, float):
        return go_number(value)
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _message(title: str, detail: str) -> str:
    return f"{title}: {detail}" if detail else title


def required(field: str, detail: str = "") -> Cause:
    """Report that a value must be given."""
    return Cause(field, "FieldValueRequired", _message("Required value", detail))


def invalid(field: str, value: Any, detail: str) -> Cause:
    """Report that a value is malformed or out of bounds."""
    title = f"Invalid value: {go_value(value)}"
    return Cause(field, "FieldValueInvalid", _message(title, detail))


def type_invalid(field: str, value: Any, detail: str) -> Cause:
    """Report that a value is of another type than its schema allows."""
    title = f"Invalid value: {go_value(value)}"
    return Cause(field, "FieldValueTypeInvalid", _message(title, detail))


def not_supported(field: str, value: Any, options: Iterable[str]) -> Cause:
    """Report that a value is none of the choices."""
    title = f"Unsupported value: {go_value(value)}"
    choices = ", ".join(go_quote(option) for option in options)
    detail = f"supported values: {choices}" if choices else ""
    return Cause(field, "FieldValueNotSupported", _message(title, detail))


def duplicate(field: str, value: Any) -> Cause:
    """Report that a value that must be unique appears twice."""
    return Cause(field, "FieldValueDuplicate", f"Duplicate value: {go_value(value)}")


def forbidden(field: str, detail: str) -> Cause:
    """Report that a value may not be given here, or not be changed."""
    return Cause(field, "FieldValueForbidden", _message("Forbidden", detail))


def too_long(field: str, limit: int) -> Cause:
    """Report that a text is longer than allowed (the text itself is not shown)."""
    return Cause(
        field,
        "FieldValueTooLong",
        f"Too long: may not be more than {limit} byte{'' if limit == 1 else 's'}",
    )


def too_many(field: str, count: int, limit: int) -> Cause:
    """Report that there are more items than allowed."""
    detail = f"must have at most {limit} item{'' if limit == 1 else 's'}"
    return Cause(field, "FieldValueTooMany", f"Too many: {count}: {detail}")


def describe(causes: Iterable[Cause]) -> str:
    """Join causes as the message of an Invalid status does: once each, in brackets if several."""
    texts = list(dict.fromkeys(str(cause) for cause in causes))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
