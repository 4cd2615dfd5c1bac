"""Checks that many built-in kinds share: ports, names, selectors, numbers, choices."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping
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

__all__ = [
    "at_least",
    "choice",
    "config_key",
    "count_or_percent",
    "dns_label",
    "dns_subdomain",
    "immutable",
    "ip_address",
    "labels",
    "matches",
    "port_name",
    "port_number",
    "quantity",
    "selector",
    "target_port",
    "template_labels",
    "unique",
]

_PERCENT = re.compile(r"[0-9]+%")
_PERCENT_TEXT = (
    "a valid percent string must be a numeric string followed by an ending '%' "
    "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
)
_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_KEY_TEXT = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
    "(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is "
    "'[-._a-zA-Z0-9]+')"
)
_PORT_TEXT = "must be between 1 and 65535, inclusive"


def at_least(path: str, value: Any, least: int = 0) -> Iterator[Cause]:
    """A number may not be below a bound."""
    if isinstance(value, int) and value < least:
        yield invalid(path, value, f"must be greater than or equal to {least}")


def choice(path: str, value: Any, choices: Iterable[str]) -> Iterator[Cause]:
    """A text must be one of a few, if it is given."""
    options = list(choices)
    if value is not None and value not in options:
        yield not_supported(path, value, options)


def dns_label(path: str, value: str) -> Iterator[Cause]:
    """A name without dots."""
    for text in name_problems("", "Namespace", value):
        yield invalid(path, value, text)


def dns_subdomain(path: str, value: str) -> Iterator[Cause]:
    """A name that may have dots."""
    for text in name_problems("", "", value):
        yield invalid(path, value, text)


def port_number(path: str, value: Any) -> Iterator[Cause]:
    """A port of TCP or UDP."""
    if not isinstance(value, int) or not 0 < value < 65536:
        yield invalid(path, value, _PORT_TEXT)


def port_name(path: str, value: str) -> Iterator[Cause]:
    """A name of a port, as services can refer to it."""
    if len(value) > 15:
        yield invalid(path, value, "must be no more than 15 characters")
    if re.search(r"[^-a-z0-9]", value):
        text = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
        yield invalid(path, value, text)
    if not re.search(r"[a-z]", value):
        yield invalid(path, value, "must contain at least one letter (a-z)")
    if "--" in value:
        yield invalid(path, value, "must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        yield invalid(path, value, "must not begin or end with a hyphen")


def target_port(path: str, value: Any) -> Iterator[Cause]:
    """A port by number or by name."""
    yield from port_name(path, value) if isinstance(value, str) else port_number(path, value)


def ip_address(path: str, value: str) -> Iterator[Cause]:
    """An address of IPv4 or IPv6."""
    try:
        ipaddress.ip_address(value)
    except ValueError:
        text = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
        yield invalid(path, value, text)


def quantity(path: str, value: Any) -> Iterator[Cause]:
    """An amount that is not negative."""
    amount = parse_quantity(str(value))
    if amount is not None and amount < 0:
        yield invalid(path, str(value), "must be greater than or equal to 0")


def count_or_percent(path: str, value: Any) -> Iterator[Cause]:
    """A number that is not negative, or a share of at most all."""
    if isinstance(value, str):
        if not _PERCENT.fullmatch(value):
            yield invalid(path, value, _PERCENT_TEXT)
        elif int(value[:-1]) > 100:
            yield invalid(path, value, "must not be greater than 100%")
    else:
        yield from at_least(path, value)


def config_key(path: str, key: str) -> Iterator[Cause]:
    """A key of a ConfigMap or Secret, which must be fit to be a file name."""
    if len(key) > 253:
        yield invalid(path, key, "must be no more than 253 characters")
    if not _KEY.fullmatch(key):
        yield invalid(path, key, _KEY_TEXT)
    if key in {".", ".."}:
        yield invalid(path, key, f"must not be '{key}'")
    elif key.startswith(".."):
        yield invalid(path, key, "must not start with '..'")


def labels(path: str, found: Mapping[str, Any] | None) -> Iterator[Cause]:
    """Labels in a place other than metadata."""
    for key, value in (found or {}).items():
        problem = label_problem(key)
        if problem:
            yield invalid(path, key, problem)
        problem = value_problem(value)
        if problem:
            yield invalid(path, value, problem)


def unique(path: str, items: Iterable[Any], field: str = "name") -> Iterator[Cause]:
    """No two items may share a field."""
    seen = set()
    for index, item in enumerate(items):
        value = item.get(field)
        if not value:
            continue
        if value in seen:
            yield duplicate(f"{path}[{index}].{field}", value)
        seen.add(value)


def selector(path: str, found: Mapping[str, Any] | None) -> Iterator[Cause]:
    """A label selector must be well formed."""
    found = found or {}
    yield from labels(f"{path}.matchLabels", found.get("matchLabels"))
    for index, term in enumerate(found.get("matchExpressions") or ()):
        place = f"{path}.matchExpressions[{index}]"
        operator, values = term.get("operator"), term.get("values")
        if operator in {"In", "NotIn"}:
            if not values:
                text = "must be specified when `operator` is 'In' or 'NotIn'"
                yield required(f"{place}.values", text)
        elif operator in {"Exists", "DoesNotExist"}:
            if values:
                text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                yield forbidden(f"{place}.values", text)
        else:
            yield invalid(f"{place}.operator", operator or "", "not a valid selector operator")
        problem = label_problem(term.get("key", ""))
        if problem:
            yield invalid(f"{place}.key", term.get("key", ""), problem)


def matches(found: Mapping[str, Any], these: Mapping[str, str]) -> bool:
    """Tell whether labels meet a selector."""
    if any(these.get(key) != value for key, value in (found.get("matchLabels") or {}).items()):
        return False
    for term in found.get("matchExpressions") or ():
        key, values = term.get("key", ""), term.get("values") or ()
        holds = {
            "In": these.get(key) in values,
            "NotIn": these.get(key) not in values,
            "Exists": key in these,
            "DoesNotExist": key not in these,
        }
        if not holds.get(term.get("operator"), False):
            return False
    return True


def template_labels(spec: Mapping[str, Any], kind: str) -> Iterator[Cause]:
    """A workload's selector must be there and match its own pods."""
    wanted = spec.get("selector")
    found = list(selector("spec.selector", wanted))
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
    if wanted is None or not matches(wanted, these or {}):
        text = "`selector` does not match template `labels`"
        yield invalid("spec.template.metadata.labels", these, text)


def immutable(path: str, new: Any, old: Any) -> Iterator[Cause]:
    """A field that may not change."""
    if new != old:
        yield invalid(path, new, "field is immutable")
