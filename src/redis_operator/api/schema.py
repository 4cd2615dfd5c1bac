"""The schemas of the custom resources, with the descriptions and limits of `describe`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from kubecontroller.custom import Facts, Schema
from kubecontroller.custom import schema_of as custom_schema_of

from .describe import FIELDS
from .describe_redisbackup import REDISBACKUP_FIELDS
from .describe_redisbackupschedule import REDISBACKUPSCHEDULE_FIELDS
from .describe_redisfailover import REDISFAILOVER_FIELDS
from .describe_redisoperator import REDISOPERATOR_FIELDS
from .describe_redisrestore import REDISRESTORE_FIELDS
from .metadata import Metadata
from .rules import rules_of

__all__ = ["ALL_FIELDS", "Schema", "schema_of"]

ALL_FIELDS: Final = (
    FIELDS
    | REDISBACKUP_FIELDS
    | REDISBACKUPSCHEDULE_FIELDS
    | REDISFAILOVER_FIELDS
    | REDISOPERATOR_FIELDS
    | REDISRESTORE_FIELDS
)
"""The descriptions and limits of every kind."""
_DATABASES: Final = frozenset({"Redis", "RedisFailover"})
"""The kinds whose names are a part of the names of other objects, which limits their length."""


def schema_of(struct: type[Struct]) -> Schema:
    """Return the schema of one of the types. Every field must be described."""
    return custom_schema_of(struct, describe=_describe, rules=rules_of)


def _describe(struct: type[Struct], field: msgspec.structs.FieldInfo) -> Facts:
    if field.type is Metadata:
        name: dict[str, Any] = {"type": "string"}  # any name that Kubernetes accepts
        if struct.__name__ in _DATABASES:
            name |= ALL_FIELDS["Metadata.name"]
        return {"type": "object", "properties": {"name": name}}
    declared = next(base for base in struct.__mro__ if field.name in _declared(base))
    return ALL_FIELDS[f"{declared.__name__}.{field.name}"]


def _declared(struct: type) -> Mapping[str, Any]:
    """Return the fields that a type defines itself, without those of its base."""
    found: Mapping[str, Any] = vars(struct).get("__annotations__", {})
    return found
