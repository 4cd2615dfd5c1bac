"""Reading managedFields: who owns what, without the times."""

from __future__ import annotations

from typing import Any

__all__ = ["managers", "owned", "paths"]

Entry = tuple[str, str, str]


def managers(found: dict[str, Any]) -> list[Entry]:
    """(manager, operation, subresource) of each entry, in the server's order."""
    entries = found["metadata"].get("managedFields", [])
    return [(each["manager"], each["operation"], each.get("subresource", "")) for each in entries]


def owned(found: dict[str, Any], manager: str, subresource: str = "") -> dict[str, Any]:
    """The fieldsV1 of the one entry of a manager."""
    entries = found["metadata"].get("managedFields", [])
    [entry] = [
        each
        for each in entries
        if (each["manager"], each.get("subresource", "")) == (manager, subresource)
    ]
    assert entry["fieldsType"] == "FieldsV1"
    fields: dict[str, Any] = entry["fieldsV1"]
    return fields


def paths(fields: dict[str, Any], prefix: str = "") -> set[str]:
    """The fields as a flat set: `f:data`, `f:data/f:k`; a dot is the thing itself."""
    flat: set[str] = set()
    for name, inner in fields.items():
        path = f"{prefix}/{name}" if prefix else name
        if name == ".":
            flat.add(prefix)
        elif inner:
            flat |= paths(inner, path)
        else:
            flat.add(path)
    return flat
