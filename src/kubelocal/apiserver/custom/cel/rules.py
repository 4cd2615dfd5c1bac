"""The rules of a schema (x-kubernetes-validations), written in CEL.

`evaluate` returns the rules that a value violates; a rule that uses `oldSelf` runs only where there
is an old counterpart, and other rules do not run on unchanged values. `compile_rules` returns the
rules that a CRD may not have. Compiled rules are cached, so that a second object of a kind costs
microseconds, and so are their results for the same values. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Struct

from kubelocal.apiserver.causes import (
    Cause,
    duplicate,
    forbidden,
    invalid,
    required,
)
from kubelocal.apiserver.custom.cel.compile import Rule, compile_rules, compiled, mentioned
from kubelocal.apiserver.custom.cel.engine import cel
from kubelocal.apiserver.custom.cel.library import LIBRARY
from kubelocal.apiserver.custom.cel.places import Place, has_rules, places
from kubelocal.apiserver.custom.cel.values import escaped, to_cel
from kubelocal.apiserver.custom.validation import (
    ABSENT,
    correlated_items,
    same,
    validate,
)

__all__ = ["compile_rules", "evaluate", "find_violations"]

_MAX_MESSAGE = 5 * 1024
_FUNCTION_ERROR = re.compile(r"Python function call failed: \w+: (.*?)\. Check function arguments")
_BLOCKING = {
    "FieldValueNotSupported",
    "FieldValueRequired",
    "FieldValueTooLong",
    "FieldValueTooMany",
    "FieldValueTypeInvalid",
}
_UNCHECKED = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)


def evaluate(schema: dict[str, Any], value: Any, old: Any) -> list[Cause]:
    """Return the rules that a value violates; `old` is nothing when the object is created."""
    before = ABSENT if old is None else old
    return list(_walk(places(schema), value, before, "", is_root=True))


def find_violations(schema: dict[str, Any], value: Any, old: Any) -> list[Cause]:
    """Return all violations of a custom resource, of its schema and of its rules.

    Rules do not run on a value of the wrong shape; the last cause says so then.
    """
    found = validate(schema, value, old)
    if not places(schema).is_ruled:
        return found
    if any(cause.reason in _BLOCKING for cause in found):
        return [*found, invalid("<nil>", None, _UNCHECKED)]
    return found + evaluate(schema, value, old)


def _context(variables: dict[str, Any]) -> Any:
    """Return the context that rules run with: making it costs more than running one."""
    return cel.Context(variables=variables, functions=LIBRARY)


def _walk(
    place: Place, value: Any, old: Any, path: str, *, is_root: bool = False
) -> Iterator[Cause]:
    if value is None or not place.is_ruled:
        return
    schema = place.schema
    if has_rules(schema):
        unchanged = old is not ABSENT and same(value, old)
        yield from _check(schema, schema, value, old, path, ratchet=unchanged, is_root=is_root)
    for sub in schema.get("allOf", ()):
        if has_rules(sub):
            yield from _check(sub, schema, value, old, path, ratchet=False, is_root=is_root)
    if isinstance(value, dict):
        yield from _walk_object(place, value, old, path)
    elif isinstance(value, list) and place.items is not None:
        counterparts = correlated_items(schema, value, old)
        for index, (item, before) in enumerate(zip(value, counterparts, strict=True)):
            yield from _walk(place.items, item, before, f"{path}[{index}]")


def _walk_object(place: Place, value: dict[str, Any], old: Any, path: str) -> Iterator[Cause]:
    is_atomic = place.schema.get("x-kubernetes-map-type") == "atomic"
    before: dict[str, Any] = old if isinstance(old, dict) and not is_atomic else {}
    for name, item in value.items():
        below, is_field = place.below(name)
        if below is not None:
            under = f"{path}[{name}]" if not is_field else f"{path}.{name}" if path else name
            yield from _walk(below, item, before.get(name, ABSENT), under)


class _Answer(Struct, frozen=True):
    """The result of rules for a value; it keeps both alive, since they are found by identity."""

    holder: dict[str, Any]
    schema: dict[str, Any]
    causes: tuple[Cause, ...]


_MOST_ANSWERS = 1024
_ANSWERS: dict[tuple[object, ...], _Answer] = {}


def _check(
    holder: dict[str, Any],
    schema: dict[str, Any],
    value: Any,
    old: Any,
    path: str,
    *,
    ratchet: bool,
    is_root: bool,
) -> tuple[Cause, ...]:
    """Run the rules of one place; the results for the same values are cached."""
    rules = [(rule, compiled(rule["rule"])) for rule in holder["x-kubernetes-validations"]]
    if ratchet:  # unchanged values are not checked again: most writes change only the status
        rules = [(rule, ready) for rule, ready in rules if ready.uses_old]
    if not rules:
        return ()
    fields = _fields(rule for rule, _ in rules)
    now = _part(value, fields)
    before = old if old is ABSENT else _part(old, fields)
    try:
        encoded = (
            msgspec.json.encode(now),
            b"" if before is ABSENT else msgspec.json.encode(before),
        )
    except (OverflowError, TypeError, ValueError):
        return tuple(_asked(rules, schema, now, before, path, is_root=is_root))
    key = (id(holder), id(schema), path, ratchet, is_root, *encoded)
    known = _ANSWERS.get(key)
    if known is None:
        while len(_ANSWERS) >= _MOST_ANSWERS:
            del _ANSWERS[next(iter(_ANSWERS))]
        causes = tuple(_asked(rules, schema, now, before, path, is_root=is_root))
        known = _ANSWERS[key] = _Answer(holder, schema, causes)
    return known.causes


def _asked(
    rules: list[tuple[dict[str, Any], Rule]],
    schema: dict[str, Any],
    value: Any,
    old: Any,
    path: str,
    *,
    is_root: bool,
) -> Iterator[Cause]:
    now = to_cel(schema, value, is_root=is_root)
    before = None if old is ABSENT else to_cel(schema, old, is_root=is_root)
    fallback = _context({"self": now, "oldSelf": before})
    for rule, ready in rules:
        is_optional = bool(rule.get("optionalOldSelf"))
        if ready.uses_old and (old is ABSENT or old is None) and not is_optional:
            continue
        context = fallback
        if is_optional:
            none = cel.OptionalValue.none()
            past = none if before is None else cel.OptionalValue.of(before)
            context = _context({"self": now, "oldSelf": past})
        cause = _judge(rule, ready, context, path or "<nil>", schema)
        if cause is not None:
            yield cause


def _fields(rules: Iterable[dict[str, Any]]) -> frozenset[str] | None:
    """Return the fields that rules use; nothing where they may use all."""
    found: set[str] = set()
    for rule in rules:
        for source in (rule["rule"], rule.get("messageExpression", "")):
            spoken = mentioned(source)
            if spoken is None:
                return None
            found |= spoken
    return frozenset(found)


def _part(value: Any, fields: frozenset[str] | None) -> Any:
    """Return a value with only these fields."""
    if fields is None or not isinstance(value, dict):
        return value
    return {name: item for name, item in value.items() if escaped(name) in fields}


def _judge(
    rule: dict[str, Any], ready: Rule, context: Any, path: str, schema: dict[str, Any]
) -> Cause | None:
    """Run one rule; an error while it runs is a violation."""
    kind = schema.get("type", "")
    if ready.program is None:
        return invalid(path, kind, f"rule compile error: {ready.error}")
    try:
        holds = ready.program.execute(context)
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        return invalid(path, kind, f"{_runtime_error(error)} evaluating rule: {_shown(rule)}")
    if holds is True:
        return None
    place = _place(schema, path, rule.get("fieldPath", ""))
    return _broken(rule.get("reason"), place, kind, _message(rule, context))


def _runtime_error(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"no such key: {error.args[0]}"
    if isinstance(error, IndexError):
        return str(error)
    if isinstance(error, TypeError):
        return "'no such overload': call arguments did not match a supported operator"
    match = _FUNCTION_ERROR.search(str(error))
    return match[1] if match else str(error).partition("\n")[0]


def _shown(rule: dict[str, Any]) -> str:
    return str(rule.get("message") or " ".join(rule["rule"].split()))


def _place(schema: dict[str, Any], path: str, field_path: str) -> str:
    """Return the path that a rule points at: fields after a dot, keys of maps in brackets."""
    if not field_path:
        return path
    tail, node = "", schema
    for dotted, quoted in re.findall(r"\.(\w+)|\['([^']*)'\]", field_path):
        name = dotted or quoted
        properties = node.get("properties")
        tail += f".{name}" if properties else f"[{name}]"
        below = (properties or {}).get(name, node.get("additionalProperties"))
        node = below if isinstance(below, dict) else {}
    return tail.lstrip(".") if path == "<nil>" else f"{path}{tail}"


def _message(rule: dict[str, Any], context: Any) -> str:
    fallback = rule.get("message") or f"failed rule: {_shown(rule)}"
    source = rule.get("messageExpression")
    if not source:
        return str(fallback)
    ready = compiled(source)
    try:
        text = ready.program.execute(context) if ready.program else None
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
