"""Fast check that an object of a built-in kind has only known fields of the right types.

The schema of a kind becomes one msgspec type, against which an object is checked in C. The type is
at most as lenient as the walks of `decoding` and `schema`: an object that it accepts needs no walk,
and one that it refuses is checked by those, which can also say what is wrong. Pure.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta

from kubelocal.apiserver.kinds.schemas import OBJECT_META, schema_of

__all__ = ["fits"]

_QUANTITY = Annotated[str, Meta(pattern=r"^[+-]?[0-9.]+[eEinumkKMGTP]*[-+]?[0-9]*\Z")]
_TIME = Annotated[
    str,
    Meta(
        pattern=r"^[1-9][0-9]{3}-(?:(?:0[13-9]|1[0-2])-(?:0[1-9]|[12][0-9]|30)"
        r"|02-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13578]|1[02])-31)"
        r"T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z\Z"
    ),
]
_SCALARS: dict[tuple[str, str], Any] = {
    ("string", ""): str,
    ("string", "byte"): bytes,
    ("string", "date-time"): _TIME,
    ("boolean", ""): bool,
    ("number", ""): float,
    ("integer", "int32"): Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)],
    ("integer", ""): Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)],
}


Schema = dict[str, Any]


class _NoType(Exception):  # noqa: N818 - a property of a schema
    """A schema without a msgspec type, such as one that contains itself."""


def fits(group: str, version: str, kind: str, value: dict[str, Any]) -> bool:
    """Return whether an object certainly has no unknown or mistyped field; false is not certain."""
    wanted = _type_of(group, version, kind)
    if wanted is None:
        return False
    try:
        msgspec.convert(value, wanted)
    except (msgspec.ValidationError, RecursionError):
        return False
    return True


@cache
def _type_of(group: str, version: str, kind: str) -> Any:
    try:
        return _type(schema_of(group, version, kind), {}, ())
    except (_NoType, KeyError):
        return None


def _type(schema: Schema, known: dict[str, Any], above: tuple[str, ...]) -> Any:
    if schema.get("x-quantity"):
        return _QUANTITY | int | float
    if schema.get("format") == "int-or-string":
        return int | str
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        if "properties" in schema or "items" in schema:
            raise _NoType
        return dict[str, Any]
    kind = schema.get("type", "")
    if kind == "array" and "items" in schema:
        return list[_type(schema["items"], known, above)]  # type: ignore[misc]  # made at run time
    if kind == "object" or "properties" in schema:
        return _object_type(schema, known, above)
    form = schema.get("format", "")
    found = _SCALARS.get((kind, form)) or _SCALARS.get((kind, ""))
    if found is None:
        raise _NoType
    return found


def _object_type(schema: Schema, known: dict[str, Any], above: tuple[str, ...]) -> Any:
    rest = schema.get("additionalProperties")
    if isinstance(rest, dict) and "properties" not in schema:
        return dict[str, _type(rest, known, above)]  # type: ignore[misc]  # made at run time
    name = schema.get("x-definition", "")
    if rest or (name and name in above):
        raise _NoType
    if name not in known:
        fields = [
            (f"field{number}", _field(name, sub, known, above), _optional(field))
            for number, (field, sub) in enumerate(schema.get("properties", {}).items())
        ]
        made = msgspec.defstruct("Shape", fields, forbid_unknown_fields=True, gc=False)
        if not name:
            return made
        known[name] = made
    return known[name]


def _field(owner: str, schema: Schema, known: dict[str, Any], above: tuple[str, ...]) -> Any:
    """Let a field be null, as it is where Go writes nothing; except metadata and its fields."""
    kind = _type(schema, known, (*above, owner))
    is_metadata = OBJECT_META in (owner, schema.get("x-definition"))
    return kind if is_metadata else kind | None


def _optional(field: str) -> Any:
    return msgspec.field(name=field, default=UNSET)
