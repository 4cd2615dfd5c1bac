"""The parts of a schema that have rules, found once for each schema; writes skip the rest."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

__all__ = ["Place", "has_rules", "places"]

_Schema = dict[str, Any]
_MOST_SCHEMAS = 256


class Place(Struct, frozen=True):
    """A part of a schema, with those parts below it that have rules somewhere."""

    schema: _Schema
    is_ruled: bool  # here or below
    fields: dict[str, Place]
    items: Place | None
    rest: Place | None  # of a map, or of an object with fields that are not named

    def below(self, name: str) -> tuple[Place | None, bool]:
        """Return the part below a name, if it has rules, and whether it is a named field."""
        if name in self.schema.get("properties", ()):
            return self.fields.get(name), True
        return self.rest, False


def has_rules(schema: _Schema) -> bool:
    """Return whether a schema has rules itself."""
    return bool(schema.get("x-kubernetes-validations"))


_KNOWN: dict[int, Place] = {}  # by the identity of the schema, which each place keeps alive


def places(schema: _Schema) -> Place:
    """Return the places of the rules of a whole schema."""
    found = _KNOWN.get(id(schema))
    if found is None:
        while len(_KNOWN) >= _MOST_SCHEMAS:
            del _KNOWN[next(iter(_KNOWN))]
        found = _KNOWN[id(schema)] = _place(schema)
    return found


def _place(schema: _Schema) -> Place:
    fields = {name: _place(sub) for name, sub in schema.get("properties", {}).items()}
    fields = {name: sub for name, sub in fields.items() if sub.is_ruled}
    items, rest = (_ruled(schema.get(key)) for key in ("items", "additionalProperties"))
    here = has_rules(schema) or any(map(has_rules, schema.get("allOf", ())))
    is_ruled = here or bool(fields) or items is not None or rest is not None
    return Place(schema, is_ruled, fields, items, rest)


def _ruled(schema: Any) -> Place | None:
    place = _place(schema) if isinstance(schema, dict) else None
    return place if place is not None and place.is_ruled else None
