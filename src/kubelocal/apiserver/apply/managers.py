"""The entries of metadata.managedFields: read and written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from kubelocal.apiserver.apply.fieldset import FieldSet, members, path_text, union
from kubelocal.apiserver.causes import Cause, go_quote

__all__ = [
    "Conflict",
    "Manager",
    "Managers",
    "Record",
    "cap",
    "conflict_causes",
    "conflict_message",
    "conflicts_of",
    "decode",
    "encode",
]

_MAX_UPDATERS = 10
_BUCKET = "ancient-changes"


class Manager(Struct, frozen=True):
    """The identity of an entry; an applier is the same at any version."""

    name: str
    operation: str
    version: str
    subresource: str

    def owning(self, fields: FieldSet, version: str, time: str | None) -> Record:
        """Return the record of this manager."""
        return Record(fields=fields, version=version, time=time)

    @property
    def identity(self) -> str:
        """The text by which Kubernetes orders managers."""
        text = f'{{"manager":{go_quote(self.name)},"operation":"{self.operation}"'
        if self.version:
            text += f',"apiVersion":"{self.version}"'
        if self.subresource:
            text += f',"subresource":"{self.subresource}"'
        return f"{text}}}"

    def __str__(self) -> str:
        text = go_quote(self.name)
        if self.subresource:
            text += f" with subresource {go_quote(self.subresource)}"
        return f"{text} using {self.version}" if self.operation == "Update" else text


class Record(Struct, frozen=True):
    """The fields of one manager, the API version of their paths, and their time."""

    fields: FieldSet
    version: str
    time: str | None

    def owning(self, fields: FieldSet) -> Record:
        """Return the record with other fields."""
        return msgspec.structs.replace(self, fields=fields)

    def at(self, time: str | None) -> Record:
        """Return the record with another time."""
        return msgspec.structs.replace(self, time=time)


Managers = dict[Manager, Record]


class Conflict(Struct, frozen=True):
    """A field that another manager owns."""

    manager: Manager
    path: tuple[str, ...]

    @property
    def field(self) -> str:
        """The field in the form of a status."""
        return path_text(self.path)

    @property
    def message(self) -> str:
        """The manager that owns the field."""
        return f"conflict with {self.manager}"


def decode(entries: Any) -> Managers:
    """Decode managedFields; invalid entries are ignored."""
    result: Managers = {}
    if not isinstance(entries, list):
        return result
    for entry in entries:
        if not isinstance(entry, dict) or entry.get("operation") not in {"Apply", "Update"}:
            return {}
        fields = entry.get("fieldsV1") or {}
        if entry.get("fieldsType", "FieldsV1") != "FieldsV1" or not isinstance(fields, dict):
            return {}
        version = entry.get("apiVersion", "")
        known = Manager(
            entry.get("manager", ""),
            entry["operation"],
            version if entry["operation"] == "Update" else "",
            entry.get("subresource", ""),
        )
        result[known] = Record(fields=fields, version=version, time=entry.get("time"))
    return result


def encode(managers: Managers) -> list[dict[str, Any]]:
    """Encode managedFields: appliers first, then by age."""
    return [_entry(known, managers[known]) for known in sorted(managers, key=_by_age(managers))]


def _by_age(managers: Managers) -> Any:
    def key(known: Manager) -> tuple[str, str, str, str, str]:
        record = managers[known]
        return (
            known.operation,
            record.time or "",
            known.name,
            record.version,
            known.subresource,
        )

    return key


def _entry(known: Manager, record: Record) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "manager": known.name,
        "operation": known.operation,
        "apiVersion": record.version,
    }
    if record.time is not None:
        entry["time"] = record.time
    entry["fieldsType"] = "FieldsV1"
    entry["fieldsV1"] = record.fields
    if known.subresource:
        entry["subresource"] = known.subresource
    return entry


def cap(managers: Managers) -> None:
    """Bound the number of updaters: the oldest are merged into one entry for each version."""
    updaters = [known for known in managers if known.operation == "Update"]
    excess = len(updaters) - _MAX_UPDATERS
    if excess <= 0:
        return
    updaters.sort(key=lambda known: (managers[known].time or "", known.identity))
    first: dict[str, Manager] = {}
    for known in updaters:
        if excess <= 0:
            return
        record = managers[known]
        bucket = Manager(_BUCKET, "Update", record.version, "")
        if record.version not in first:
            first[record.version] = known
            continue
        if bucket not in managers:
            managers[bucket] = managers.pop(first[record.version])
        fields = union(record.fields, managers[bucket].fields)
        del managers[known]
        managers[bucket] = Record(fields=fields, version=record.version, time=record.time)
        excess -= 1


def conflicts_of(conflicts: dict[Manager, FieldSet]) -> list[Conflict]:
    """Return conflicts by manager, then in the order of the fields."""
    return [
        Conflict(known, path)
        for known in sorted(conflicts, key=lambda known: known.identity)
        for path in members(conflicts[known])
    ]


def conflict_causes(conflicts: Iterable[Conflict]) -> list[Cause]:
    """Return conflicts as the causes of a status."""
    return [Cause(found.field, "FieldManagerConflict", found.message) for found in conflicts]


def conflict_message(conflicts: list[Conflict]) -> str:
    """Return conflicts as the message of a status."""
    if len(conflicts) == 1:
        only = conflicts[0]
        place = path_text(only.path)
        return f"Apply failed with 1 conflict: conflict with {only.manager}: {place}"
    by_manager: dict[str, list[str]] = {}
    for found in conflicts:
        by_manager.setdefault(str(found.manager), []).append(path_text(found.path))
    lines = []
    for known, places in by_manager.items():
        lines.append(f"conflicts with {known}:")
        lines += [f"- {place}" for place in places]
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)
