"""Limits of values that fields of several kinds have in common, and how a field is described."""

from __future__ import annotations

from typing import Any, Final

from .quantity import QUANTITY_PATTERN

__all__ = [
    "DATABASE_NAME",
    "HOST",
    "IMAGE",
    "LOCAL_NAME",
    "PLAIN_TEXT",
    "POINT_NAME",
    "QUANTITIES",
    "RESERVED_ENDING",
    "TEXTS",
    "TIME",
    "VERSION",
    "WORD",
    "described",
    "named",
]

PLAIN_TEXT: Final = r"^[^\x00-\x1f\x7f]*$"
"""No control characters: nothing that could start a new line in a configuration file."""
LOCAL_NAME: Final = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
"""The name of an object in the same namespace; a slash is impossible."""
RESERVED_ENDING: Final = (
    r"-(nodes|primaries|replicas|ro|sentinel|stats|conn|auth|users|admin|recovery|config|[0-9]+)$"
)
"""Suffixes in the names of the operator's objects; a database with such a name could conflict."""
DATABASE_NAME: Final = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"
VERSION: Final = r"^[0-9]{1,3}(\.[0-9]{1,3}){0,2}$"
IMAGE: Final = r"^[a-zA-Z0-9][a-zA-Z0-9._/:@-]*$"
POINT_NAME: Final = r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"
"""The name of a restore point in an archive."""
TIME: Final = (
    r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3])(:[0-5][0-9]){2}"
    r"(\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"
)
"""A moment in the format of RFC 3339."""
HOST: Final = r"^[a-zA-Z0-9_.:-]+$"
WORD: Final = r"^[a-zA-Z0-9_.-]+$"
TEXTS: Final = {"maxProperties": 64, "values": {"maxLength": 4096, "pattern": PLAIN_TEXT}}
QUANTITIES: Final = {"maxProperties": 16, "values": {"pattern": QUANTITY_PATTERN, "maxLength": 40}}


def described(description: str, **limits: Any) -> dict[str, Any]:
    """The description of a field, with the limits of its values."""
    return {"description": description, **limits}


def named(description: str) -> dict[str, Any]:
    """A field that names an object of the same namespace."""
    return described(description, pattern=LOCAL_NAME, maxLength=253)
