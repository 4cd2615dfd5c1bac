"""Reads the protobuf bodies that typed commands of kubectl send.

A body is an envelope: four magic bytes, then its kind, then the message. Field numbers come from a
table made of Kubernetes' own definitions; the JSON form of a kind is known from its schema: Go
writes every field that is not a pointer, so zeros that its JSON would omit are dropped here, and
parts that its JSON inlines are inlined, or wrapped less deeply.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from kubelocal.apiserver.errors import bad_request
from kubelocal.apiserver.kinds.schemas import definition, schema_of

__all__ = ["PROTOBUF", "decode_protobuf"]

PROTOBUF = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_DEPTH = 100
_EXPONENT = 1e21  # from here on Go writes a whole number with an exponent
_SCHEMA_PROPS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
_SCHEMA_WORDS = {"schema": "$schema", "ref": "$ref"}
_CAPITAL = re.compile("[A-Z]")


@cache
def _messages() -> dict[str, dict[str, str]]:
    text = files(__package__).joinpath("protobuf_fields.json").read_bytes()
    found: dict[str, dict[str, str]] = msgspec.json.decode(text)
    return found


def decode_protobuf(body: bytes) -> dict[str, Any]:
    """Return the object in an envelope."""
    try:
        return _envelope(body)
    except (ValueError, IndexError, struct.error, KeyError) as error:
        raise bad_request(f"the protobuf body cannot be read: {error}") from error


def _envelope(body: bytes) -> dict[str, Any]:
    if not body.startswith(_MAGIC):
        raise ValueError(f"it must begin with {_MAGIC!r}")
    outer = _message("runtime.Unknown", body[len(_MAGIC) :], 0)
    kind = outer.get("typeMeta") or {}
    group, _, version = kind.get("apiVersion", "").rpartition("/")
    name = f"{group.partition('.')[0] or 'core'}.{version}.{kind.get('kind', '')}"
    if kind.get("kind") == "DeleteOptions":
        name = "meta.v1.DeleteOptions"
    if name not in _messages():
        raise ValueError(f"{kind.get('apiVersion')} {kind.get('kind')} is not a known kind")
    value = _message(name, outer.get("raw", b""), 0)
    try:
        schema = schema_of(group, version, kind["kind"])
    except KeyError:
        schema = {}
    value = _as_json(schema, value)
    return {"kind": kind["kind"], "apiVersion": kind["apiVersion"], **value}


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = raw[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number is longer than 64 bits")


def _fields(raw: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(raw):
        tag, at = _varint(raw, at)
        match tag & 7:
            case 0:
                number, at = _varint(raw, at)
                yield tag >> 3, number
            case 1:
                yield tag >> 3, raw[at : at + 8]
                at += 8
            case 2:
                size, at = _varint(raw, at)
                if at + size > len(raw):
                    raise ValueError("a field is longer than the message")
                yield tag >> 3, raw[at : at + size]
                at += size
            case 5:
                yield tag >> 3, raw[at : at + 4]
                at += 4
            case other:
                raise ValueError(f"wire type {other} is not used by Kubernetes")


def _message(name: str, raw: bytes, depth: int) -> Any:
    if depth > _DEPTH:
        raise ValueError("it is nested too deeply")
    table = _messages()[name]
    found: dict[str, Any] = {}
    for number, content in _fields(raw):
        described = table.get(str(number))
        if described is None:
            continue
        field, _, kind = described.partition(" ")
        if kind.endswith("[]"):
            found.setdefault(field, []).append(_value(kind[:-2], content, depth))
        elif kind.endswith("{}"):
            key, value = _pair(kind[:-2], content, depth)
            found.setdefault(field, {})[key] = value
        else:
            found[field] = _value(kind, content, depth)
    return _special(name, found)


def _pair(kind: str, content: int | bytes, depth: int) -> tuple[str, Any]:
    parts = dict(_fields(_bytes(content)))
    key = _bytes(parts.get(1, b"")).decode()
    return key, _value(kind, parts.get(2, b""), depth)


def _bytes(content: int | bytes) -> bytes:
    if isinstance(content, int):
        raise ValueError("expected a text, found a number")  # noqa: TRY004
    return content


def _value(kind: str, content: int | bytes, depth: int) -> Any:
    if "." in kind:
        return _message(kind, _bytes(content), depth + 1)
    match kind:
        case "string":
            return _bytes(content).decode()
        case "bytes":
            return _bytes(content)
        case "bool":
            return bool(content)
        case "double":
            number = struct.unpack("<d", _bytes(content))[0]
            return int(number) if number.is_integer() and abs(number) < _EXPONENT else number
    if not isinstance(content, int):
        raise ValueError("expected a number, found a text")  # noqa: TRY004
    return content - (1 << 64) if content >= 1 << 63 else content


def _special(name: str, found: dict[str, Any]) -> Any:
    """Return the JSON of messages that is not an object of their fields."""
    match name:
        case "resource.Quantity":
            return found.get("string", "")
        case "intstr.IntOrString":
            return found.get("strVal", "") if found.get("type") else found.get("intVal", 0)
        case "meta.v1.Time" | "meta.v1.MicroTime":
            return _instant(found, micro=name.endswith("MicroTime"))
        case "meta.v1.FieldsV1":
            return msgspec.json.decode(found.get("Raw") or b"null")
        case "runtime.RawExtension" | "apiextensions.v1.JSON":
            return msgspec.json.decode(found.get("raw") or b"null")
        case "apiextensions.v1.JSONSchemaProps":
            return _schema_props(found)
        case "apiextensions.v1.JSONSchemaPropsOrArray":
            return found["schema"] if "schema" in found else found.get("jSONSchemas", [])
        case "apiextensions.v1.JSONSchemaPropsOrBool":
            return found["schema"] if "schema" in found else found.get("allows", False)
        case "apiextensions.v1.JSONSchemaPropsOrStringArray":
            return found["schema"] if "schema" in found else found.get("property", [])
    return found


def _schema_props(found: dict[str, Any]) -> dict[str, Any]:
    """Return a schema in JSON form: words with dashes and dollars, and no zeros.

    Its zeros are dropped here because `items` and similar fields may hold anything according to
    their own schema, so no caller knows which are zeros of Go and which were meant.
    """
    words = definition(_SCHEMA_PROPS)["properties"]
    shown: dict[str, Any] = {}
    for key, item in found.items():
        name = _SCHEMA_WORDS.get(key) or _CAPITAL.sub(lambda part: f"-{part[0].lower()}", key)
        name = name if name in words else key
        if not (_is_zero(item) and words[name].get("x-omit-empty")):
            shown[name] = item
    return shown


def _instant(found: dict[str, Any], *, micro: bool) -> str | None:
    if not found.get("seconds"):
        return None
    moment = datetime.fromtimestamp(found["seconds"], UTC)
    text = moment.strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{found.get('nanos', 0) // 1000:06d}Z" if micro else f"{text}Z"


def _as_json(schema: dict[str, Any], value: Any) -> Any:
    """Return a message in the JSON form of its kind."""
    if isinstance(value, bytes):
        return msgspec.to_builtins(value)
    if isinstance(value, list):
        return [_as_json(schema.get("items") or {}, item) for item in value]
    if not isinstance(value, dict):
        return value
    properties = schema.get("properties")
    if properties is None:
        rest = schema.get("additionalProperties")
        inner = rest if isinstance(rest, dict) else {}
        return {key: _as_json(inner, item) for key, item in value.items()}
    found: dict[str, Any] = {}
    for key, item in value.items():
        if key in properties:
            shown = _as_json(properties[key], item)
            if not (_is_zero(shown) and properties[key].get("x-omit-empty")) and shown is not None:
                found[key] = shown
        elif isinstance(item, dict):  # Go embeds it, so its JSON has no name for it
            found |= _as_json(schema, item)
    return found


def _is_zero(value: Any) -> bool:
    return value is None or (not isinstance(value, float) and not value)
