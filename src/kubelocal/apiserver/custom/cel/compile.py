"""CEL sources made ready to run, and what is wrong with the rules of a schema.

The CEL library does not check types, so fields are followed through the schema here as far as
that can be done by their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from msgspec import Struct

from kubelocal.apiserver.causes import Cause, Fields, invalid, not_supported, required
from kubelocal.apiserver.custom.cel.engine import cel
from kubelocal.apiserver.custom.cel.library import LIBRARY
from kubelocal.apiserver.custom.cel.values import escaped

__all__ = ["Rule", "compile_rules", "compiled"]

_OPTIONAL_FIELD = re.compile(r"\.\?([A-Za-z_]\w*)")
_OPTIONAL_INDEX = re.compile(r"\[\?((?:[^\[\]\"']|\"[^\"]*\"|'[^']*')*)\]")
_TEXT = re.compile(r"""(?:[rR]?"(?:\\.|[^"\\])*"|[rR]?'(?:\\.|[^'\\])*')""")
_CHAIN = re.compile(r"(?<![\w.])(\w+)((?:\.\w+)+)(\s*\()?")
_BOUND = re.compile(
    r"(?<![\w.])(\w+)((?:\.\w+)*)\.(?:all|exists|exists_one|map|filter)\(\s*(\w+)\s*,"
)
_BINDING = re.compile(r"\.(?:all|exists|exists_one|map|filter)\(\s*(\w+)\s*,")
_REASONS = (
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
)
_TYPES = {"int", "uint", "double", "bool", "string", "bytes", "list", "map", "null_type", "type"}
_QUALIFIERS = {"optional", *(name.partition(".")[0] for name in LIBRARY if "." in name)}
_VARIABLES = {"self", "oldSelf", *_TYPES, *_QUALIFIERS}
_CORE = set(
    re.findall(
        r"\S+",
        "size contains startsWith endsWith matches string int uint double bool bytes dyn type "
        "duration timestamp has all exists exists_one map filter optional.of optional.none "
        "optional.ofNonZeroValue of none ofNonZeroValue hasValue value or orValue",
    )
)


class Rule(Struct, frozen=True):
    """A rule ready to run, or the reason why it cannot."""

    program: Any
    uses_old: bool
    error: str


@lru_cache(maxsize=4096)
def compiled(source: str) -> Rule:
    """Make a source ready to run; sources seen before cost nothing."""
    text = _OPTIONAL_FIELD.sub(r'.optional_("\1")', source)
    text = _OPTIONAL_INDEX.sub(r".optional_(\1)", text)
    try:
        program = cel.compile(text)
    except ValueError as error:
        reason = str(error).partition(": ")[2] or str(error)
        reason = reason.replace("\n| ", "\n | ")
        return Rule(None, uses_old=False, error=f"compilation failed: {reason}")
    known = program.references()
    problem = _undeclared(source, known["functions"], known["variables"])
    if problem:
        return Rule(None, uses_old=False, error=problem)
    return Rule(program, uses_old="oldSelf" in known["variables"], error="")


def _undeclared(source: str, functions: list[str], variables: list[str]) -> str:
    plain = _TEXT.sub(lambda match: "'" + "_" * (len(match[0]) - 2) + "'", source)
    for name in functions:
        if name[:1].isalpha() and not _is_known(name):
            return _error(
                source,
                plain.find(f"{name}(") + len(name),
                f"undeclared reference to '{name}' (in container '')",
            )
    bound = set(_BINDING.findall(plain))
    for name in variables:
        if name not in _VARIABLES and name not in bound:
            match = re.search(rf"(?<![\w.]){re.escape(name)}\b", plain)
            place = match.start() if match else 0
            return _error(source, place, f"undeclared reference to '{name}' (in container '')")
    return ""


def _is_known(name: str) -> bool:
    return (
        name in LIBRARY
        or name in _CORE
        or name.startswith("get")
        or any(qualified.endswith(f".{name}") for qualified in LIBRARY)
    )


def _error(source: str, place: int, text: str) -> str:
    """Point at a place in the source, as the compiler does."""
    place = max(place, 0)
    line = source.count("\n", 0, place)
    column = place - (source.rfind("\n", 0, place) + 1)
    shown = source.split("\n")[line]
    pointer = "." * column + "^"
    where = f"ERROR: <input>:{line + 1}:{column + 1}: {text}"
    return f"compilation failed: {where}\n | {shown}\n | {pointer}"


def compile_rules(schema: dict[str, Any], *, at: str = "") -> list[Cause]:
    """Find the rules of a schema that a CRD may not have; `at` is the place of the schema."""
    found = list(_rules_of(schema, at, "", is_root=True))
    malformed = [cause for cause in found if "xpression" not in cause.field[-10:]]
    malformed = [
        cause
        for cause in malformed
        if cause.reason == "FieldValueRequired" or not cause.field.endswith(".rule")
    ]
    return malformed or found


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _rules_of(
    schema: dict[str, Any], path: str, atomic_at: str, *, is_root: bool = False
) -> Iterator[Cause]:
    for index, rule in enumerate(schema.get("x-kubernetes-validations", ())):
        place = _join(path, f"x-kubernetes-validations[{index}]")
        yield from _rule_problems(schema, rule, place, atomic_at, is_root=is_root)
    fixed = atomic_at or (path if schema.get("x-kubernetes-map-type") == "atomic" else "")
    for name, sub in schema.get("properties", {}).items():
        yield from _rules_of(sub, f"{_join(path, 'properties')}[{name}]", fixed)
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            is_atomic = word == "items" and schema.get("x-kubernetes-list-type") != "map"
            below = atomic_at or (path if is_atomic else "")
            yield from _rules_of(schema[word], _join(path, word), below)


def _rule_problems(
    schema: dict[str, Any], rule: dict[str, Any], place: str, atomic_at: str, *, is_root: bool
) -> Iterator[Cause]:
    source = rule.get("rule", "")
    if not source.strip():
        yield required(f"{place}.rule", "rule is not specified")
        return
    yield from _word_problems(schema, rule, place)
    ready = compiled(source)
    error = ready.error or _type_error(schema, source, is_root=is_root)
    if error:
        yield invalid(f"{place}.rule", _printed(rule), error)
    elif ready.uses_old and atomic_at:
        text = "oldSelf cannot be used on the uncorrelatable portion of the schema within "
        yield invalid(f"{place}.rule", source, f"{text}{atomic_at}")
    elif rule.get("optionalOldSelf") is not None and not ready.uses_old:
        text = "may not be set if oldSelf is not used in rule"
        yield invalid(f"{place}.optionalOldSelf", rule["optionalOldSelf"], text)
    yield from _expression_problems(schema, rule, place)


def _expression_problems(
    schema: dict[str, Any], rule: dict[str, Any], place: str
) -> Iterator[Cause]:
    expression = rule.get("messageExpression")
    if not expression:
        return
    error = compiled(expression).error
    if error:
        text = f"messageExpression {error}"
        yield invalid(f"{place}.messageExpression", _printed(rule), text)
    elif _type_of(schema, expression) not in {"", "string"}:
        text = "messageExpression must evaluate to a string"
        yield invalid(f"{place}.messageExpression", _printed(rule), text)


def _word_problems(schema: dict[str, Any], rule: dict[str, Any], place: str) -> Iterator[Cause]:
    message, reason = rule.get("message", ""), rule.get("reason")
    if message and not message.strip():
        yield invalid(f"{place}.message", message, "must be non-empty if specified")
    elif "\n" in message.strip():
        yield invalid(f"{place}.message", message, "must not contain line breaks")
    elif "\n" in rule["rule"].strip() and not message:
        text = "message must be specified if rule contains line breaks"
        yield required(f"{place}.message", text)
    path = rule.get("fieldPath")
    if path is not None and not path.strip():
        yield invalid(f"{place}.fieldPath", path, "must be non-empty if specified")
    elif path is not None and not _leads_somewhere(schema, path):
        yield invalid(f"{place}.fieldPath", path, "must be a valid path")
    if reason is not None and reason not in _REASONS:
        yield not_supported(f"{place}.reason", reason, _REASONS)


def _leads_somewhere(schema: dict[str, Any], path: str) -> bool:
    node: Any = schema
    for name in re.findall(r"\.(\w+)|\['([^']*)'\]", path):
        node = _field(node, name[0] or name[1])
        if node is None:
            return False
    return path.startswith((".", "["))


def _field(node: dict[str, Any], name: str) -> dict[str, Any] | None:
    found = node.get("properties", {}).get(name)
    if found is None and isinstance(node.get("additionalProperties"), dict):
        found = node["additionalProperties"]
    return found if isinstance(found, dict) else None


def _printed(rule: dict[str, Any]) -> Fields:
    return Fields(
        Rule=rule.get("rule", ""),
        Message=rule.get("message", ""),
        MessageExpression=rule.get("messageExpression", ""),
        Reason=rule.get("reason"),
        FieldPath=rule.get("fieldPath", ""),
        OptionalOldSelf=rule.get("optionalOldSelf"),
    )


def _type_of(schema: dict[str, Any], source: str) -> str:
    """Give the type of a source that is nothing but a field, and nothing for any other."""
    match = re.fullmatch(r"\s*self((?:\.\w+)*)\s*", source)
    node: dict[str, Any] | None = schema
    for name in match[1].split(".")[1:] if match else ():
        node = _step(node or {}, name, is_root=False)
    return (node or {}).get("type", "") if match else ""


def _step(node: dict[str, Any], name: str, *, is_root: bool) -> dict[str, Any] | None:
    """Follow a field; nothing means that the schema has no such field."""
    if node.get("type") != "object" or node.get("x-kubernetes-preserve-unknown-fields"):
        return {}
    for field, sub in node.get("properties", {}).items():
        if escaped(field) == name:
            return dict(sub)
    rest = node.get("additionalProperties")
    if isinstance(rest, dict):
        return rest
    return {} if is_root and name in {"apiVersion", "kind", "metadata"} else None


def _type_error(schema: dict[str, Any], source: str, *, is_root: bool) -> str:
    """Follow chains such as self.a.b through the schema; a field that is not there is an error."""
    plain = _TEXT.sub(lambda match: "'" + "_" * (len(match[0]) - 2) + "'", source)
    known = {"self": schema}
    if not re.search(r"oldSelf\s*\.\s*(hasValue|value|orValue|or|opt)", plain):
        known["oldSelf"] = schema
    for match in _BOUND.finditer(plain):
        node = _resolve(known.get(match[1], {}), match[2].split(".")[1:])
        if node.get("type") == "array":
            known[match[3]] = node.get("items") or {}
    for match in _CHAIN.finditer(plain):
        if match[1] not in known:
            continue
        node, place = known[match[1]], match.end(1)
        names = match[2].split(".")[1:]
        for position, name in enumerate(names[:-1] if match[3] else names):
            below = _step(node, name, is_root=is_root and not position)
            if below is None:
                return _error(source, place, f"undefined field '{name}'")
            node, place = below, place + len(name) + 1
    kind = _type_of(schema, source)
    return "" if kind in {"", "boolean"} else "cel expression must evaluate to a bool"


def _resolve(node: dict[str, Any], names: list[str]) -> dict[str, Any]:
    for name in names:
        node = _step(node, name, is_root=False) or {}
    return node
