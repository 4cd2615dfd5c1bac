"""The rules of a schema (x-kubernetes-validations), written in CEL.

`evaluate` tells which rules a value breaks; a rule that looks at `oldSelf` is only asked where
there is an old counterpart, and other rules do not complain about what did not change.
`compile_rules` tells which rules a CRD may not have. Compiled rules are kept, so that a second
object of a kind costs microseconds. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import cel
from msgspec import Struct

from redis_operator.local.apiserver.causes import (
    Cause,
    Fields,
    duplicate,
    forbidden,
    invalid,
    required,
)
from redis_operator.local.apiserver.rules_library import LIBRARY
from redis_operator.local.apiserver.rules_values import escaped, to_cel
from redis_operator.local.apiserver.schema_validation import ABSENT, correlated_items, same

__all__ = ["compile_rules", "evaluate"]

_MAX_MESSAGE = 5 * 1024
_OPTIONAL_FIELD = re.compile(r"\.\?([A-Za-z_]\w*)")
_OPTIONAL_INDEX = re.compile(r"\[\?((?:[^\[\]\"']|\"[^\"]*\"|'[^']*')*)\]")
_TEXT = re.compile(r"""(?:[rR]?"(?:\\.|[^"\\])*"|[rR]?'(?:\\.|[^'\\])*')""")
_CHAIN = re.compile(r"(?<![\w.])(self|oldSelf)((?:\.\w+)+)(\s*\()?")
_CORE = {
    "size",
    "contains",
    "startsWith",
    "endsWith",
    "matches",
    "string",
    "int",
    "uint",
    "double",
    "bool",
    "bytes",
    "dyn",
    "type",
    "duration",
    "timestamp",
    "has",
    "all",
    "exists",
    "exists_one",
    "map",
    "filter",
    "optional.of",
    "optional.none",
    "optional.ofNonZeroValue",
    "of",
    "none",
    "ofNonZeroValue",
    "hasValue",
    "value",
    "or",
    "orValue",
}


class _Rule(Struct, frozen=True):
    """A rule ready to run, or the reason why it cannot."""

    program: Any
    uses_old: bool
    error: str


@lru_cache(maxsize=4096)
def _compiled(source: str) -> _Rule:
    text = _OPTIONAL_FIELD.sub(r'.optional_("\1")', source)
    text = _OPTIONAL_INDEX.sub(r".optional_(\1)", text)
    try:
        program = cel.compile(text)
    except ValueError as error:
        reason = str(error).partition(": ")[2] or str(error)
        return _Rule(None, uses_old=False, error=f"compilation failed: {reason}")
    known = program.references()
    for name in known["functions"]:
        if name[:1].isalpha() and not _is_known(name):
            place = max(source.find(f"{name}("), 0) + 1
            error_text = f"ERROR: <input>:1:{place}: undeclared reference to '{name}'"
            text = f"compilation failed: {error_text} (in container '')"
            return _Rule(None, uses_old=False, error=text)
    return _Rule(program, uses_old="oldSelf" in known["variables"], error="")


def _is_known(name: str) -> bool:
    return (
        name in LIBRARY
        or name in _CORE
        or name.startswith("get")
        or any(qualified.endswith(f".{name}") for qualified in LIBRARY)
    )


def evaluate(schema: dict[str, Any], value: Any, old: Any) -> list[Cause]:
    """Find the rules that a value breaks; `old` is nothing when the object is created."""
    before = ABSENT if old is None else old
    return list(_walk(schema, value, before, "", is_root=True))


@lru_cache(maxsize=1)
def _context() -> Any:
    return cel.Context(functions=LIBRARY)


def _has_rules(schema: dict[str, Any]) -> bool:
    return bool(schema.get("x-kubernetes-validations"))


def _walk(
    schema: dict[str, Any], value: Any, old: Any, path: str, *, is_root: bool = False
) -> Iterator[Cause]:
    if value is None:
        return
    if _has_rules(schema):
        unchanged = old is not ABSENT and same(value, old)
        yield from _check(schema, schema, value, old, path, ratchet=unchanged, is_root=is_root)
    for sub in schema.get("allOf", ()):
        if _has_rules(sub):
            yield from _check(sub, schema, value, old, path, ratchet=False, is_root=is_root)
    if isinstance(value, dict):
        yield from _walk_object(schema, value, old, path)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        counterparts = correlated_items(schema, value, old)
        for index, (item, before) in enumerate(zip(value, counterparts, strict=True)):
            yield from _walk(schema["items"], item, before, f"{path}[{index}]")


def _walk_object(
    schema: dict[str, Any], value: dict[str, Any], old: Any, path: str
) -> Iterator[Cause]:
    properties: dict[str, Any] = schema.get("properties", {})
    rest = schema.get("additionalProperties")
    is_correlatable = isinstance(old, dict) and schema.get("x-kubernetes-map-type") != "atomic"
    before: dict[str, Any] = old if is_correlatable else {}
    for name, item in value.items():
        counterpart = before.get(name, ABSENT)
        if name in properties:
            below = f"{path}.{name}" if path else name
            yield from _walk(properties[name], item, counterpart, below)
        elif isinstance(rest, dict):
            yield from _walk(rest, item, counterpart, f"{path}[{name}]")


def _check(
    holder: dict[str, Any],
    schema: dict[str, Any],
    value: Any,
    old: Any,
    path: str,
    *,
    ratchet: bool,
    is_root: bool,
) -> Iterator[Cause]:
    now = to_cel(schema, value, is_root=is_root)
    before = None if old is ABSENT else to_cel(schema, old, is_root=is_root)
    for rule in holder["x-kubernetes-validations"]:
        compiled = _compiled(rule["rule"])
        is_optional = bool(rule.get("optionalOldSelf"))
        if compiled.uses_old and (old is ABSENT or old is None) and not is_optional:
            continue
        past = before
        if is_optional:
            none = cel.OptionalValue.none()
            past = none if before is None else cel.OptionalValue.of(before)
        variables = {"self": now, "oldSelf": past}
        cause = _judge(rule, compiled, variables, path or "<nil>", schema.get("type", ""))
        if cause is not None and (compiled.uses_old or not ratchet):
            yield cause


def _judge(
    rule: dict[str, Any], compiled: _Rule, variables: dict[str, Any], path: str, kind: str
) -> Cause | None:
    """Run one rule; what goes wrong while it runs counts against the value."""
    if compiled.program is None:
        return invalid(path, kind, f"rule compile error: {compiled.error}")
    try:
        holds = _run(compiled.program, variables)
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        return invalid(path, kind, f"{_runtime_error(error)} evaluating rule: {_shown(rule)}")
    if holds is True:
        return None
    place = _place(path, rule.get("fieldPath", ""))
    return _broken(rule.get("reason"), place, kind, _message(rule, variables))


def _run(program: Any, variables: dict[str, Any]) -> Any:
    context = _context()
    context.update(variables)
    return program.execute(context)


def _runtime_error(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"no such key: {error.args[0]}"
    if isinstance(error, IndexError):
        return str(error)
    if isinstance(error, TypeError):
        return "'no such overload': call arguments did not match a supported operator"
    return str(error).partition("\n")[0]


def _shown(rule: dict[str, Any]) -> str:
    return " ".join(rule["rule"].split())


def _place(path: str, field_path: str) -> str:
    if not field_path:
        return path
    tail = re.sub(r"\['([^']*)'\]", r".\1", field_path)
    return tail.lstrip(".") if path == "<nil>" else f"{path}{tail}"


def _message(rule: dict[str, Any], variables: dict[str, Any]) -> str:
    fallback = rule.get("message") or f"failed rule: {_shown(rule)}"
    source = rule.get("messageExpression")
    if not source:
        return str(fallback)
    compiled = _compiled(source)
    try:
        text = _run(compiled.program, variables) if compiled.program else None
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError):
        return str(fallback)
    if not isinstance(text, str) or not text.strip() or "\n" in text or len(text) > _MAX_MESSAGE:
        return str(fallback)
    return text.strip()


def _broken(reason: str | None, path: str, kind: str, message: str) -> Cause:
    match reason:
        case "FieldValueForbidden":
            return forbidden(path, message)
        case "FieldValueRequired":
            return required(path, message)
        case "FieldValueDuplicate":
            return duplicate(path, kind)
    return invalid(path, kind, message)


def compile_rules(schema: dict[str, Any]) -> list[Cause]:
    """Find the rules of a schema that a CRD may not have; fields are relative to the schema."""
    found = list(_rules_of(schema, "", "", root=schema))
    malformed = [cause for cause in found if not cause.field.endswith((".rule", "Expression"))]
    malformed += [cause for cause in found if cause.reason == "FieldValueRequired"]
    return malformed or found


def _rules_of(
    schema: dict[str, Any], path: str, atomic_at: str, *, root: dict[str, Any]
) -> Iterator[Cause]:
    for index, rule in enumerate(schema.get("x-kubernetes-validations", ())):
        prefix = f"{path}." if path else ""
        place = f"{prefix}x-kubernetes-validations[{index}]"
        yield from _rule_problems(schema, rule, place, atomic_at, is_root=schema is root)
    for name, sub in schema.get("properties", {}).items():
        prefix = f"{path}.properties" if path else "properties"
        is_atomic = schema.get("x-kubernetes-map-type") == "atomic"
        below = (path or ".") if is_atomic and not atomic_at else atomic_at
        yield from _rules_of(sub, f"{prefix}[{name}]", below, root=root)
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            is_atomic = word == "items" and schema.get("x-kubernetes-list-type") != "map"
            below = (path or ".") if is_atomic and not atomic_at else atomic_at
            prefix = f"{path}.{word}" if path else word
            yield from _rules_of(schema[word], prefix, below, root=root)


def _rule_problems(
    schema: dict[str, Any], rule: dict[str, Any], place: str, atomic_at: str, *, is_root: bool
) -> Iterator[Cause]:
    source = rule.get("rule", "")
    if not source.strip():
        yield required(f"{place}.rule", "rule is not specified")
        return
    yield from _message_problems(rule, place)
    compiled = _compiled(source)
    error = compiled.error or _unknown_field(schema, source, is_root=is_root)
    if error:
        yield invalid(f"{place}.rule", _printed(rule), error)
    elif compiled.uses_old and atomic_at:
        text = (
            f"oldSelf cannot be used on the uncorrelatable portion of the schema within {atomic_at}"
        )
        yield invalid(f"{place}.rule", source, text)
    elif rule.get("optionalOldSelf") is not None and not compiled.uses_old:
        text = "may not be set if oldSelf is not used in rule"
        yield invalid(f"{place}.optionalOldSelf", rule["optionalOldSelf"], text)
    expression = rule.get("messageExpression")
    if expression and _compiled(expression).error:
        text = f"messageExpression {_compiled(expression).error}"
        yield invalid(f"{place}.messageExpression", _printed(rule), text)


def _message_problems(rule: dict[str, Any], place: str) -> Iterator[Cause]:
    message, reason = rule.get("message", ""), rule.get("reason")
    if message and not message.strip():
        yield invalid(f"{place}.message", message, "must be non-empty if specified")
    elif "\n" in message.strip():
        yield invalid(f"{place}.message", message, "must not contain line breaks")
    elif "\n" in rule["rule"].strip() and not message and not rule.get("messageExpression"):
        text = "message must be specified if rule contains line breaks"
        yield required(f"{place}.message", text)
    path = rule.get("fieldPath")
    if path is not None and not path.strip():
        yield invalid(f"{place}.fieldPath", path, "must be non-empty if specified")
    known = (
        "FieldValueRequired",
        "FieldValueForbidden",
        "FieldValueInvalid",
        "FieldValueDuplicate",
    )
    if reason is not None and reason not in known:
        detail = f"supported values: {', '.join(known)}"
        yield invalid(f"{place}.reason", reason, detail)


def _printed(rule: dict[str, Any]) -> Fields:
    return Fields(
        Rule=rule.get("rule", ""),
        Message=rule.get("message", ""),
        MessageExpression=rule.get("messageExpression", ""),
        Reason=rule.get("reason"),
        FieldPath=rule.get("fieldPath", ""),
        OptionalOldSelf=rule.get("optionalOldSelf"),
    )


def _unknown_field(schema: dict[str, Any], source: str, *, is_root: bool) -> str:
    """Follow chains such as self.a.b through the schema; a field that is not there is an error."""
    for match in _CHAIN.finditer(_TEXT.sub("''", source)):
        names = match[2].split(".")[1:]
        node: dict[str, Any] = schema
        for position, name in enumerate(names):
            is_call = position == len(names) - 1 and match[3]
            if is_call or node.get("type") != "object":
                break
            fields = {escaped(field): sub for field, sub in node.get("properties", {}).items()}
            if is_root and position == 0:
                fields |= {known: {} for known in ("apiVersion", "kind", "metadata")}
            if name in fields:
                node = fields[name]
            elif isinstance(node.get("additionalProperties"), dict):
                node = node["additionalProperties"]
            else:
                place = source.find(f".{name}") + 1
                return f"compilation failed: ERROR: <input>:1:{place}: undefined field '{name}'"
    return ""
