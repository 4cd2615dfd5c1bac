"""Compiles CEL expressions, and checks the rules of a schema.

The CEL library does not check types, so fields are looked up in the schema here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from msgspec import Struct

from kubelocal.apiserver.causes import Cause, invalid, not_supported, required
from kubelocal.apiserver.custom.cel.engine import cel
from kubelocal.apiserver.custom.cel.library import LIBRARY
from kubelocal.apiserver.custom.cel.syntax import (
    Call,
    Expression,
    Ident,
    Listed,
    Mapped,
    Select,
    parse,
)
from kubelocal.apiserver.custom.cel.values import escaped

__all__ = ["Rule", "compile_rules", "compiled", "mentioned"]

_OPTIONAL_FIELD = re.compile(r"\.\?([A-Za-z_]\w*)")
_OPTIONAL_INDEX = re.compile(r"\[\?((?:[^\[\]\"']|\"[^\"]*\"|'[^']*')*)\]")
_SPOKEN = re.compile(r"\b(?:self|oldSelf)\b(?:\.(\w+)\b(?!\s*\())?")
_MACROS = ("all", "exists", "exists_one", "map", "filter")
_BINDING = re.compile(rf"\.(?:{'|'.join(_MACROS)})\(\s*(\w+)\s*,")
_REASONS = tuple(f"FieldValue{word}" for word in ("Duplicate", "Forbidden", "Invalid", "Required"))
_TYPES = {"int", "uint", "double", "bool", "string", "bytes", "list", "map", "null_type", "type"}
_QUALIFIERS = {"optional", *(name.partition(".")[0] for name in LIBRARY if "." in name)}
_VARIABLES = {"self", "oldSelf", *_TYPES, *_QUALIFIERS}
_CORE = re.compile(
    "size|contains|startsWith|endsWith|matches|dyn|duration|timestamp|has|of|none|ofNonZeroValue"
    f"|hasValue|value|or|orValue|{'|'.join([*_MACROS, *_TYPES])}"
)
_Schema = dict[str, Any]


class Rule(Struct, frozen=True):
    """A compiled rule, or the reason why it cannot be compiled."""

    program: Any
    uses_old: bool
    error: str


class _Undefined(Exception):  # noqa: N818 - the name of a field
    """A rule names a field that the schema does not have."""


@lru_cache(maxsize=4096)
def compiled(source: str) -> Rule:
    """Compile a source; compiled sources are cached."""
    text = _OPTIONAL_FIELD.sub(r'.optional_("\1")', source)
    text = _OPTIONAL_INDEX.sub(r".optional_(\1)", text)
    try:
        program = cel.compile(text)
    except ValueError as error:
        return Rule(None, uses_old=False, error=f"compilation failed: {error}")
    known = program.references()
    unknown = [name for name in known["functions"] if name[:1].isalpha() and not _is_known(name)]
    unknown += {*known["variables"]} - _VARIABLES - {*_BINDING.findall(source)}
    if unknown:
        text = f"compilation failed: undeclared reference to '{unknown[0]}'"
        return Rule(None, uses_old=False, error=text)
    return Rule(program, uses_old="oldSelf" in known["variables"], error="")


@lru_cache(maxsize=4096)
def mentioned(source: str) -> frozenset[str] | None:
    """Return the fields of `self` that a source names; nothing where it may read others too."""
    found = _SPOKEN.findall(source)
    return frozenset(found) if all(found) else None


def _is_known(name: str) -> bool:
    last = f".{name}"
    is_core = _CORE.fullmatch(name) is not None
    return is_core or name in LIBRARY or any(one.endswith(last) for one in LIBRARY)


def compile_rules(
    schema: _Schema, *, at: str = "schema", atomic_at: str = "", is_root: bool = True
) -> list[Cause]:
    """Return the rules of a schema that a CRD may not have; `at` is the path of the schema."""
    found: list[Cause] = []
    for index, rule in enumerate(schema.get("x-kubernetes-validations", ())):
        place = f"{at}.x-kubernetes-validations[{index}]"
        found += _rule_problems(schema, rule, place, atomic_at, is_root=is_root)
    fixed = atomic_at or (at if schema.get("x-kubernetes-map-type") == "atomic" else "")
    for name, sub in schema.get("properties", {}).items():
        below = f"{at}.properties[{name}]"
        found += compile_rules(sub, at=below, atomic_at=fixed, is_root=False)
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            is_atomic = word == "items" and schema.get("x-kubernetes-list-type") != "map"
            fixed = atomic_at or (at if is_atomic else "")
            below = f"{at}.{word}"
            found += compile_rules(schema[word], at=below, atomic_at=fixed, is_root=False)
    return found


def _rule_problems(
    schema: _Schema, rule: dict[str, Any], place: str, atomic_at: str, *, is_root: bool
) -> Iterator[Cause]:
    source = rule.get("rule", "")
    if not source.strip():
        yield required(f"{place}.rule", "rule is not specified")
        return
    ready = compiled(source)
    is_optional = bool(rule.get("optionalOldSelf"))
    error = ready.error or _type_error(schema, source, "boolean", is_root, is_optional)
    if error:
        yield invalid(f"{place}.rule", source, error)
    elif ready.uses_old and atomic_at:
        text = "oldSelf cannot be used on the uncorrelatable portion of the schema within "
        yield invalid(f"{place}.rule", source, f"{text}{atomic_at}")
    elif rule.get("optionalOldSelf") is not None and not ready.uses_old:
        text = "may not be set if oldSelf is not used in rule"
        yield invalid(f"{place}.optionalOldSelf", rule["optionalOldSelf"], text)
    yield from _message_problems(schema, rule, place, is_root=is_root)


def _message_problems(
    schema: _Schema, rule: dict[str, Any], place: str, *, is_root: bool
) -> Iterator[Cause]:
    expression = rule.get("messageExpression")
    if expression:
        error = compiled(expression).error
        error = error or _type_error(schema, expression, "string", is_root, True)
        if error:
            yield invalid(f"{place}.messageExpression", expression, f"messageExpression {error}")
    message, reason, path = (rule.get(word) for word in ("message", "reason", "fieldPath"))
    if message and "\n" in message.strip():
        yield invalid(f"{place}.message", message, "must not contain line breaks")
    elif not message and "\n" in rule["rule"].strip():
        yield required(f"{place}.message", "must be specified if rule contains line breaks")
    if path is not None and not _leads_somewhere(schema, path):
        yield invalid(f"{place}.fieldPath", path, "must be a valid path")
    if reason is not None and reason not in _REASONS:
        yield not_supported(f"{place}.reason", reason, _REASONS)


def _leads_somewhere(schema: _Schema, path: str) -> bool:
    node: Any = schema
    for dotted, quoted in re.findall(r"\.(\w+)|\['([^']*)'\]", path):
        rest = node.get("additionalProperties")
        node = (node.get("properties") or {}).get(dotted or quoted, rest)
        if not isinstance(node, dict):
            return False
    return path.startswith((".", "["))


def _type_error(schema: _Schema, source: str, wanted: str, is_root: bool, is_optional: bool) -> str:
    """Look up fields in the schema; a missing one is an error."""
    tree = parse(source)
    if tree is None:
        return ""
    own = schema
    if is_root:
        always: _Schema = {name: {} for name in ("apiVersion", "kind", "metadata")}
        own = {**schema, "properties": {**always, **schema.get("properties", {})}}
    try:
        found = _followed(tree, {"self": own, "oldSelf": {} if is_optional else own})
    except _Undefined as error:
        return f"compilation failed: undefined field '{error}'"
    kind = found.get("type", wanted)
    return "" if kind == wanted else f"must evaluate to a {wanted}, not to {kind}"


def _followed(tree: Expression, known: dict[str, _Schema]) -> _Schema:
    """Return the schema of an expression's result, empty where it is not known."""
    if isinstance(tree, Ident):
        return known.get(tree.name, {})
    if isinstance(tree, Select):
        return _field(_followed(tree.operand, known), tree.field)
    if isinstance(tree, Listed | Mapped):
        for item in tree.items:
            _followed(item, known)
    elif isinstance(tree, Call):
        over = _followed(tree.target, known) if tree.target is not None else {}
        args, inner = tree.args, known
        if tree.function in _MACROS and tree.target is not None and isinstance(args[0], Ident):
            inner = {**known, args[0].name: over.get("items") or {}}
            args = args[1:]
        found = [_followed(arg, inner) for arg in args]
        if tree.function == "_[_]":
            below = found[0].get("items") or found[0].get("additionalProperties")
            return below if isinstance(below, dict) else {}
        if tree.function == "filter":
            return over
    return {}


def _field(schema: _Schema, name: str) -> _Schema:
    if schema.get("type") != "object" or schema.get("x-kubernetes-preserve-unknown-fields"):
        return {}
    for field, sub in schema.get("properties", {}).items():
        if escaped(field) == name:
            return dict(sub)
    rest = schema.get("additionalProperties")
    if not isinstance(rest, dict):
        raise _Undefined(name)
    return rest
