"""Label and field selectors: parsed once, evaluated often.

A parsed selector is a tuple of requirements that must all hold. An invalid one is refused in the
wording of Kubernetes, since people read it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from kubelocal.apiserver.errors import bad_request
from kubelocal.apiserver.kinds.names import label_problem, value_problem

__all__ = [
    "Requirement",
    "matches",
    "parse_fields",
    "parse_labels",
    "selector_of",
    "selector_text",
]


class Requirement(Struct, frozen=True):
    """One condition on one key."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Return whether the labels (or fields) satisfy this."""
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value is not None and value in self.values
            case "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
        if value is None or not re.fullmatch(r"[+-]?\d+", value):
            return False
        bound = int(next(iter(self.values)))
        return int(value) > bound if self.operator == "gt" else int(value) < bound


def matches(requirements: Sequence[Requirement], labels: Mapping[str, str]) -> bool:
    """Return whether all requirements hold."""
    return all(requirement.holds(labels) for requirement in requirements)


_TOKEN = re.compile(r"\s*(==|!=|=|!|,|\(|\)|<|>|[^\s=!,()<>]+)")


def parse_labels(text: str) -> tuple[Requirement, ...]:
    """Parse a label selector: `a=b,c!=d,e in (f,g),!h,i`."""
    try:
        return _Parser(text).parse()
    except ValueError as error:
        raise bad_request(str(error)) from error


class _Parser:
    """Parses one selector from left to right."""

    def __init__(self, text: str) -> None:
        self._words: list[str] = []
        position = 0
        stripped = text.rstrip()
        while position < len(stripped):
            found = _TOKEN.match(stripped, position)
            if found is None:
                raise ValueError(f"unexpected text {stripped[position:]!r} in the selector")
            self._words.append(found.group(1))
            position = found.end()
        self._at = 0

    def parse(self) -> tuple[Requirement, ...]:
        found: list[Requirement] = []
        if not self._words:
            return ()
        while True:
            found.append(self._requirement())
            word = self._take()
            if word == "":
                return tuple(found)
            if word != ",":
                raise ValueError(f"found '{word}', expected: ',' or 'end of string'")

    def _peek(self) -> str:
        return self._words[self._at] if self._at < len(self._words) else ""

    def _take(self) -> str:
        word = self._peek()
        self._at += 1
        return word

    def _key(self) -> str:
        key = self._take()
        if key in {"", ",", "(", ")", "=", "==", "!=", "<", ">", "!"}:
            raise ValueError(f"found '{key}', expected: !, identifier, or 'end of string'")
        problem = label_problem(key)
        if problem:
            raise ValueError(f'unable to parse requirement: key: Invalid value: "{key}": {problem}')
        return key

    def _requirement(self) -> Requirement:
        if self._peek() == "!":
            self._take()
            return Requirement(self._key(), "!")
        key = self._key()
        word = self._peek()
        if word in {"", ","}:
            return Requirement(key, "exists")
        self._take()
        match word:
            case "=" | "==":
                return Requirement(key, "in", frozenset([self._value(key)]))
            case "!=":
                return Requirement(key, "notin", frozenset([self._value(key)]))
            case "in" | "notin":
                return Requirement(key, word, self._values(key))
            case ">" | "<":
                bound = self._value(key)
                if not re.fullmatch(r"[+-]?\d+", bound):
                    raise ValueError(
                        f'unable to parse requirement: values[0]: Invalid value: "{bound}": for'
                        " 'Gt', 'Lt' operators, the value must be an integer"
                    )
                return Requirement(key, "gt" if word == ">" else "lt", frozenset([bound]))
        raise ValueError(
            f"unable to parse requirement: found '{word}', expected: in, notin, =, ==, !=, gt, lt"
        )

    def _value(self, key: str) -> str:
        if self._peek() in {"", ","}:
            return ""
        value = self._take()
        if value in {"=", "==", "!=", "(", ")", "!", "<", ">"}:
            raise ValueError(f"unable to parse requirement: found '{value}', expected: identifier")
        return _checked(key, value)

    def _values(self, key: str) -> frozenset[str]:
        if self._take() != "(":
            found = self._words[self._at - 1]
            raise ValueError(f"unable to parse requirement: found '{found}' expected: '('")
        values: set[str] = set()
        while True:
            word = self._take()
            if word == ")":
                return frozenset(values or {""})
            if word == ",":
                continue
            if word == "":
                raise ValueError("unable to parse requirement: found '', expected: ',', or ')'")
            values.add(_checked(key, word))


def _checked(key: str, value: str) -> str:
    problem = value_problem(value)
    if problem:
        raise ValueError(
            f'unable to parse requirement: values[0][{key}]: Invalid value: "{value}": {problem}'
        )
    return value


def selector_of(selector: Mapping[str, Any] | None) -> tuple[Requirement, ...] | None:
    """Parse a LabelSelector of an object; a missing one selects nothing (None)."""
    if selector is None:
        return None
    found = [
        Requirement(key, "in", frozenset([value]))
        for key, value in (selector.get("matchLabels") or {}).items()
    ]
    words = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
    words |= {"Gt": "gt", "Lt": "lt"}  # only for nodes
    found += [
        Requirement(item["key"], words[item["operator"]], frozenset(item.get("values") or ()))
        for item in selector.get("matchExpressions") or ()
    ]
    return tuple(found)


def selector_text(selector: Mapping[str, Any] | None) -> str:
    """Return a LabelSelector as one text."""
    found = selector or {}
    parts = [f"{key}={item}" for key, item in (found.get("matchLabels") or {}).items()]
    for one in found.get("matchExpressions") or ():
        values = ",".join(sorted(one.get("values") or ()))
        match one["operator"]:
            case "In" | "NotIn":
                parts.append(f"{one['key']} {one['operator'].lower()} ({values})")
            case "Exists":
                parts.append(one["key"])
            case _:
                parts.append(f"!{one['key']}")
    return ",".join(sorted(parts))


def parse_fields(
    text: str, is_known: Callable[[str], bool], *, plain: bool = False
) -> tuple[Requirement, ...]:
    """Parse a field selector: `a=b,c!=d` over the selectable fields of a resource."""
    found = []
    for term in re.split(r"(?<!\\),", text):
        if not term:
            continue
        parts = re.fullmatch(r"((?:[^=!\\]|\\.)*)(==|!=|=)(.*)", term, re.DOTALL)
        if parts is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        key, operator, value = parts.groups()
        if not is_known(key):
            only = 'only "metadata.name", "metadata.namespace"'
            raise bad_request(
                f'"{key}" is not a known field selector: {only}'
                if plain
                else f"field label not supported: {key}"
            )
        value = re.sub(r"\\(.)", r"\1", value)
        found.append(Requirement(key, "notin" if operator == "!=" else "in", frozenset([value])))
    return tuple(found)
