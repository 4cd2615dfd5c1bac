"""Checks of single fields of built-in kinds, and the tables of `fields.json` that name them.

In a table `name!` is a field that is required and `""` the value itself; a list has a table for its
items and, if they must be unique, the field by which. A text is a choice (`A|B`), a range (`0..9`),
another table (`#pod`) or the name of a check. Pure.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from kubelocal.apiserver.causes import (
    Cause,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kubelocal.apiserver.kinds.names import label_problem, name_problems, value_problem
from kubelocal.apiserver.kinds.quantities import parse_quantity
from kubelocal.apiserver.kinds.selectors import matches, selector_of

__all__ = [
    "CHECKS",
    "Object",
    "address",
    "amounts",
    "config_key",
    "find",
    "immutable",
    "one_of",
    "target_port",
    "template_labels",
]

Object = dict[str, Any]
Check = Callable[[str, Any], Iterable[Cause]]
CHECKS: dict[str, Check] = {}  # by the names that tables use; more are added where they belong

_RANGE = re.compile(r"(\d+)\.\.(\d*)")
_PERCENT = re.compile(r"[0-9]+%")
_KEY = re.compile(r"[-._a-zA-Z0-9]+")


@cache
def _tables() -> dict[str, Any]:
    tables = json.loads(Path(__file__).with_name("fields.json").read_bytes())
    return {name: _laid_out(table) for name, table in tables.items()}


def _laid_out(table: Any) -> Any:
    """Return a table with its fields as tuples: name, whether it is required, and what is below."""
    if isinstance(table, list):
        return [_laid_out(table[0]), *table[1:]]
    if isinstance(table, str):
        return table
    return tuple((one.rstrip("!"), one.endswith("!"), _laid_out(table[one])) for one in table)


def find(table: Any, path: str, value: Any) -> Iterator[Cause]:
    """Yield what is wrong with a value, by its table or the name of one."""
    if isinstance(table, str):
        check = _check_of(table)
        yield from check(path, value) if callable(check) else find(check, path, value)
    elif isinstance(table, list):
        for index, item in enumerate(value or ()):
            yield from find(table[0], f"{path}[{index}]", item)
        yield from _unique(path, value, table[1]) if len(table) > 1 else ()
    else:
        for name, is_required, below in table:
            found = value.get(name) if name and value else None
            if not name:
                yield from find(below, path, value)
            elif not found and is_required:
                yield required(f"{path}.{name}" if path else name)
            elif below and found is not None and found != "":
                yield from find(below, f"{path}.{name}" if path else name, found)


@cache
def _check_of(text: str) -> Any:
    """Return the table or the check that a text in a table names."""
    if found := _RANGE.fullmatch(text):
        return _between(int(found[1]), int(found[2]) if found[2] else None)
    if "|" in text:
        return one_of(*text.split("|"))
    return CHECKS.get(text) or _tables().get(text, ())


def _unique(path: str, items: Iterable[Any], field: str) -> Iterator[Cause]:
    seen = set()
    for index, item in enumerate(items or ()):
        value = item.get(field)
        if value and value in seen:
            yield duplicate(f"{path}[{index}].{field}", value)
        seen.add(value)


def _between(least: int, most: int | None) -> Check:
    text = f"must be greater than or equal to {least}"
    if most is not None:
        text = f"must be between {least} and {most}, inclusive"

    def check(path: str, value: Any) -> Iterator[Cause]:
        if isinstance(value, int) and (value < least or (most is not None and value > most)):
            yield invalid(path, value, text)

    return check


def one_of(*choices: str) -> Check:
    """A text that is one of several."""

    def check(path: str, value: Any) -> Iterator[Cause]:
        if value not in choices:
            yield not_supported(path, value, choices)

    return check


def _named(kind: str) -> Check:
    def check(path: str, value: str) -> Iterator[Cause]:
        for text in name_problems("", kind, value):
            yield invalid(path, value, text)

    return check


def _port_name(path: str, value: str) -> Iterator[Cause]:
    """The name of a port, as services refer to it."""
    if len(value) > 15:
        yield invalid(path, value, "must be no more than 15 characters")
    if re.search(r"[^-a-z0-9]", value):
        text = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
        yield invalid(path, value, text)
    if not re.search(r"[a-z]", value):
        yield invalid(path, value, "must contain at least one letter (a-z)")
    if "--" in value or value.startswith("-") or value.endswith("-"):
        yield invalid(path, value, "must not begin or end with a hyphen, nor have two in a row")


def target_port(path: str, value: Any) -> Iterable[Cause]:
    """A port by number or by name."""
    return (_port_name if isinstance(value, str) else _PORT)(path, value)


def address(path: str, value: str) -> Iterator[Cause]:
    """An IPv4 or IPv6 address."""
    try:
        ipaddress.ip_address(value)
    except ValueError:
        text = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
        yield invalid(path, value, text)


def _count_or_percent(path: str, value: Any) -> Iterator[Cause]:
    """A number that is not negative, or a percentage of at most 100."""
    if isinstance(value, str) and not _PERCENT.fullmatch(value):
        text = "a valid percent string must be a numeric string followed by an ending '%'"
        yield invalid(path, value, text)
    elif isinstance(value, str) and int(value[:-1]) > 100:
        yield invalid(path, value, "must not be greater than 100%")
    else:
        yield from _between(0, None)(path, value)


def amounts(path: str, found: Mapping[str, Any]) -> Iterator[Cause]:
    """Quantities by name, none negative."""
    for name, value in found.items():
        amount = parse_quantity(str(value))
        if amount is not None and amount < 0:
            yield invalid(f"{path}[{name}]", str(value), "must be greater than or equal to 0")


def config_key(path: str, key: str) -> Iterator[Cause]:
    """A key of a ConfigMap or Secret, which must be valid as a file name."""
    if len(key) > 253:
        yield invalid(path, key, "must be no more than 253 characters")
    if not _KEY.fullmatch(key):
        text = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        yield invalid(path, key, text)
    elif key == "." or key.startswith(".."):
        yield invalid(path, key, "must not be '.' and must not start with '..'")


def _labels(path: str, found: Mapping[str, Any]) -> Iterator[Cause]:
    """Labels in a place other than metadata."""
    for key, value in found.items():
        for text, problem in ((key, label_problem(key)), (value, value_problem(value))):
            if problem:
                yield invalid(path, text, problem)


def _selector(path: str, found: Mapping[str, Any]) -> Iterator[Cause]:
    """A label selector must be well formed."""
    yield from _labels(f"{path}.matchLabels", found.get("matchLabels") or {})
    for index, term in enumerate(found.get("matchExpressions") or ()):
        place = f"{path}.matchExpressions[{index}]"
        operator, values = term.get("operator"), term.get("values")
        if operator in {"In", "NotIn"} and not values:
            text = "must be specified when `operator` is 'In' or 'NotIn'"
            yield required(f"{place}.values", text)
        elif operator in {"Exists", "DoesNotExist"} and values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield forbidden(f"{place}.values", text)
        elif operator not in {"In", "NotIn", "Exists", "DoesNotExist"}:
            yield invalid(f"{place}.operator", operator or "", "not a valid selector operator")
        problem = label_problem(term.get("key", ""))
        if problem:
            yield invalid(f"{place}.key", term.get("key", ""), problem)


def template_labels(spec: Mapping[str, Any], kind: str) -> Iterator[Cause]:
    """A workload's selector must exist and match its own pods."""
    wanted = spec.get("selector")
    found = list(_selector("spec.selector", wanted or {}))
    yield from found
    if wanted is None:
        yield required("spec.selector")
    elif not wanted.get("matchLabels") and not wanted.get("matchExpressions"):
        yield invalid("spec.selector", wanted, f"empty selector is invalid for {kind}")
        return
    if found:
        yield invalid("spec.selector", wanted, "")
        return
    these = spec.get("template", {}).get("metadata", {}).get("labels")
    if wanted is None or not matches(selector_of(wanted) or (), these or {}):
        text = "`selector` does not match template `labels`"
        yield invalid("spec.template.metadata.labels", these, text)


def immutable(path: str, new: Any, old: Any) -> Iterator[Cause]:
    """A field that may not change."""
    if new != old:
        yield invalid(path, new, "field is immutable")


def _label_key(path: str, key: str) -> Iterator[Cause]:
    problem = label_problem(key)
    if problem:
        yield invalid(path, key, problem)


_PORT = _between(1, 65535)
CHECKS |= {
    "address": address,
    "amounts": amounts,
    "count or percent": _count_or_percent,
    "label": _named("Namespace"),
    "label key": _label_key,
    "labels": _labels,
    "name": _named("Service"),
    "port": _PORT,
    "port name": _port_name,
    "selector": _selector,
    "subdomain": _named(""),
    "target port": target_port,
}
