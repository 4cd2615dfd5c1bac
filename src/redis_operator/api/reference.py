"""The reference of a kind: every field of its spec and status, from its definition. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct

__all__ = ["reference"]

Schema = dict[str, Any]
_HEADER: Final = "<!-- Made by `make generate` from src/redis_operator; do not edit. -->\n"
_BOUNDS: Final = (
    ("minimum", "at least {}"),
    ("maximum", "at most {}"),
    ("maxLength", "at most {} characters"),
    ("maxItems", "at most {} entries"),
    ("maxProperties", "at most {} entries"),
)


class _Row(Struct, frozen=True):
    path: str
    kind: str
    default: str
    text: str


def reference(definition: dict[str, Any]) -> str:
    """Return the page of one kind."""
    spec = definition["spec"]
    names, [version] = spec["names"], spec["versions"]
    schema: Schema = version["schema"]["openAPIV3Schema"]
    scope = "of a namespace" if spec["scope"] == "Namespaced" else "of the cluster"
    short = ", ".join(f"`{name}`" for name in names.get("shortNames", ()))
    lines = [
        f"# {names['kind']}",
        "",
        f"`{spec['group']}/{version['name']}`, an object {scope}; for kubectl `{names['plural']}`"
        + (f" or {short}" if short else "")
        + f". {schema.get('description', '')}",
    ]
    lines += _checked(schema, "")
    for part in ("spec", "status"):
        if part in schema["properties"]:
            lines += ["", f"## {part}", *_part(schema["properties"][part], part)]
    return _HEADER + "\n".join(lines) + "\n"


def _part(schema: Schema, name: str) -> list[str]:
    rows = list(_fields(schema, name))
    lines = [schema.get("description", ""), ""]
    if name == "spec":
        lines += ["| field | type | default | meaning |", "|---|---|---|---|"]
        lines += [f"| `{row.path}` | {row.kind} | {row.default} | {row.text} |" for row in rows]
    else:
        lines += ["| field | type | meaning |", "|---|---|---|"]
        lines += [f"| `{row.path}` | {row.kind} | {row.text} |" for row in rows]
    return [*lines, *_checked(schema, name)]


def _checked(schema: Schema, path: str) -> list[str]:
    """Return the rules over several fields, each line once."""
    found = [
        (f"{path}{rule.get('fieldPath', '')}".lstrip("."), rule["message"])
        for rule in schema.get("x-kubernetes-validations", ())
        if rule.get("message")
    ]
    lines = [f"- {f'`{place}`: ' if place else ''}{_cell(text)}" for place, text in found]
    return ["", "Refused with these messages:", "", *dict.fromkeys(lines)] if lines else []


def _fields(schema: Schema, path: str) -> Iterator[_Row]:
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        own = f"{path}.{name}"
        yield _row(own, field, required=name in required)
        yield from _inner(field, own)


def _inner(field: Schema, path: str) -> Iterator[_Row]:
    if field.get("type") == "array":
        yield from _inner(field["items"], f"{path}[]")
    elif isinstance(field.get("additionalProperties"), dict):
        yield from _inner(field["additionalProperties"], f"{path}.*")
    else:
        yield from _fields(field, path)


def _row(path: str, field: Schema, *, required: bool) -> _Row:
    default = _default(field["default"]) if "default" in field else "required" if required else ""
    parts = [_sentence(field.get("description", "")), *map(_refused, _rules(field))]
    return _Row(path, _kind(field), default, _cell(" ".join(part for part in parts if part)))


def _refused(message: str) -> str:
    return f"Refused: {_sentence(message)}"


def _kind(field: Schema) -> str:
    if field.get("x-kubernetes-int-or-string"):
        return "integer or string"
    values = field.get("enum")
    if values:
        return _cell(" or ".join(f"`{value}`" for value in values))
    limits = [text.format(field[name]) for name, text in _BOUNDS if name in field]
    kind = field.get("type", "any")
    if kind == "array":
        kind = f"list of {_kind(field['items'])}"
    elif isinstance(field.get("additionalProperties"), dict):
        kind = f"map of {_kind(field['additionalProperties'])}"
    return ", ".join([kind, *limits])


def _default(value: Any) -> str:
    if isinstance(value, bool):
        return "`true`" if value else "`false`"
    if isinstance(value, list):
        return _cell(", ".join(f"`{one}`" for one in value))
    return _cell(f"`{value}`") if value not in ({}, "") else ""


def _rules(schema: Schema) -> list[str]:
    found = [rule.get("message", "") for rule in schema.get("x-kubernetes-validations", ())]
    return [message for message in found if message]


def _sentence(text: str) -> str:
    text = text.strip()
    return text if not text or text.endswith((".", ":", "!")) else f"{text}."


def _cell(text: str) -> str:
    """Return text without characters that would end the cell of a table."""
    return text.replace("|", "\\|").replace("\n", " ")
