"""The functions that Kubernetes adds to CEL, for rules in CRDs.

Values of types that CEL does not have (quantities, addresses, URLs, versions) are carried as small
maps with one hidden key, so that equality works on them.
"""

from __future__ import annotations

import ipaddress
import itertools
import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any
from urllib.parse import parse_qs, urlsplit

from kubelocal.apiserver.custom.cel.engine import cel
from kubelocal.apiserver.custom.formats import has_format
from kubelocal.apiserver.kinds.quantities import parse_quantity

__all__ = ["LIBRARY"]

_QUANTITY, _IP, _CIDR, _URL, _VERSION, _FORMAT = (
    "__quantity",
    "__ip",
    "__cidr",
    "__url",
    "__version",
    "__format",
)
_MOST_NUMBERS = 1_000_000  # as much as one rule may cost
_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z.-]+))?(?:\+([0-9A-Za-z.-]+))?"
)


def _quantity(text: str) -> dict[str, str]:
    value = parse_quantity(text)
    if value is None:
        form = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
        raise ValueError(f"quantities must match the regular expression '{form}'")
    return {_QUANTITY: str(value)}


def _amount(value: Any) -> Fraction:
    return Fraction(value[_QUANTITY]) if isinstance(value, dict) else Fraction(value)


def _semver(text: str) -> dict[str, str]:
    if not _SEMVER.fullmatch(text):
        raise ValueError(f"no semantic version: {text!r}")
    return {_VERSION: text}


def _precedence(value: dict[str, str]) -> tuple[Any, ...]:
    match = _SEMVER.fullmatch(value[_VERSION])
    assert match is not None
    before = match[4]
    parts = tuple(
        (0, int(p), "") if p.isdecimal() else (1, 0, p) for p in (before or "").split(".")
    )
    return int(match[1]), int(match[2]), int(match[3]), before is None, parts


def _order(left: Any, right: Any) -> int:
    if isinstance(left, dict) and _VERSION in left:
        a, b = _precedence(left), _precedence(right)
        return (a > b) - (a < b)
    first, second = _amount(left), _amount(right)
    return (first > second) - (first < second)


def _is(kind: Callable[[str], Any]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            kind(text)
        except ValueError:
            return False
        return True

    return check


def _ip(value: Any) -> dict[str, str]:
    if isinstance(value, dict):
        return {_IP: value[_CIDR].partition("/")[0]}
    if "%" in value or (":" in value and "." in value):
        raise ValueError(f"no IP address: {value!r}")
    return {_IP: str(ipaddress.ip_address(value))}


def _cidr(text: str) -> dict[str, str]:
    address, slash, length = text.partition("/")
    if not slash or not length.isdecimal():
        raise ValueError(f"no CIDR: {text!r}")
    ipaddress.ip_network(text, strict=False)
    return {_CIDR: f"{ipaddress.ip_address(address)}/{length}"}


def _address(value: Any) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    return ipaddress.ip_address(value[_IP] if isinstance(value, dict) else value)


def _network(value: Any) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    text = value[_CIDR] if isinstance(value, dict) else value
    return ipaddress.ip_network(text, strict=False)


def _contains_cidr(value: Any, other: Any) -> bool:
    outer, inner = _network(value), _network(other)
    same = outer.version == inner.version
    return same and inner[0] in outer and inner[-1] in outer


def _url(text: str) -> dict[str, str]:
    parts = urlsplit(text)
    if not parts.scheme and not text.startswith("/"):
        raise ValueError(f"no URL: {text!r}")
    return {_URL: text}


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if not separator:
        return list(text) if limit < 0 else [*text[: limit - 1], text[limit - 1 :]]
    return text.split(separator, limit - 1 if limit > 0 else -1)


def _index_of(value: Any, wanted: Any, start: int = 0) -> int:
    if isinstance(value, str):
        return value.find(wanted, start)
    return value.index(wanted) if wanted in value else -1


def _last_index_of(value: Any, wanted: Any, start: int | None = None) -> int:
    if isinstance(value, str):
        return value.rfind(wanted) if start is None else value.rfind(wanted, 0, start + 1)
    return len(value) - 1 - value[::-1].index(wanted) if wanted in value else -1


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found = [match[0] for match in re.finditer(pattern, text)]
    return found if limit < 0 else found[:limit]


def _find(text: str, pattern: str) -> str:
    match = re.search(pattern, text)
    return match[0] if match else ""


def _format_text(template: str, arguments: list[Any]) -> str:
    queue = list(arguments)

    def fill(match: re.Match[str]) -> str:
        if match[0] == "%%":
            return "%"
        value = queue.pop(0)
        if match[2] in "fe":
            return str(f"%{match[1] or ''}{match[2]}" % value)
        if match[2] in "xXob" and isinstance(value, int):
            return format(value, match[2])
        return _text(value)

    return re.sub(r"%%|%(\.\d+)?([sdfebxXo])", fill, template)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(_text(item) for item in value) + "]"
    return "null" if value is None else str(value)


def _is_sorted(items: list[Any]) -> bool:
    return all(a <= b for a, b in itertools.pairwise(items))


def _optional(container: Any, key: Any) -> Any:
    """Select from a map, a list, or an optional one; the source writes `.?key` and `[?key]`."""
    if isinstance(container, cel.OptionalValue):
        if not container.has_value():
            return cel.OptionalValue.none()
        container = container.value()
    if isinstance(container, dict):
        found = key in container
    else:
        found = isinstance(key, int) and 0 <= key < len(container)
    return cel.OptionalValue.of(container[key]) if found else cel.OptionalValue.none()


def _named_format(name: str) -> Any:
    known = {
        "dns1123Label": r"[a-z0-9]([-a-z0-9]*[a-z0-9])?",
        "dns1123Subdomain": r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
        "dns1035Label": r"[a-z]([-a-z0-9]*[a-z0-9])?",
        "qualifiedName": r"([a-z0-9.-]+/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?",
        "labelValue": r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?",
        "uri": "",
        "uuid": "",
        "byte": "",
        "date": "",
        "datetime": "",
    }
    if name not in known:
        return cel.OptionalValue.none()
    return cel.OptionalValue.of({_FORMAT: name, "pattern": known[name]})


def _check_format(value: Any, text: str) -> Any:
    """Give the complaints about a text, or nothing if it has the format."""
    name, pattern = value[_FORMAT], value["pattern"]
    limit = 253 if name == "dns1123Subdomain" else 63
    if pattern:
        good = re.fullmatch(pattern, text) is not None and len(text.rpartition("/")[2]) <= limit
    else:
        good = has_format(name, text)
    if good:
        return cel.OptionalValue.none()
    return cel.OptionalValue.of([f"{text!r} is no {name}"])


def _counted(count: int) -> list[int]:
    """Return the numbers below a count; too many would cost more than a rule may."""
    if count > _MOST_NUMBERS:
        raise ValueError(f"operation cancelled: actual cost limit exceeded by a list of {count}")
    return list(range(count))


LIBRARY: dict[str, Callable[..., Any]] = {
    "optional_": _optional,
    # lists
    "isSorted": _is_sorted,
    "sum": sum,
    "min": min,
    "max": max,
    "indexOf": _index_of,
    "lastIndexOf": _last_index_of,
    "distinct": lambda items: [x for i, x in enumerate(items) if x not in items[:i]],
    "flatten": lambda items: [y for x in items for y in (x if isinstance(x, list) else [x])],
    "reverse": lambda value: value[::-1],
    "slice": lambda items, start, end: items[start:end],
    "sort": sorted,
    "lists.range": _counted,
    "sets.contains": lambda left, right: all(x in left for x in right),
    "sets.equivalent": lambda left, right: (
        all(x in left for x in right) and all(x in right for x in left)
    ),
    "sets.intersects": lambda left, right: any(x in left for x in right),
    # strings
    "charAt": lambda text, index: text[index : index + 1],
    "join": lambda items, separator="": separator.join(items),
    "lowerAscii": str.lower,
    "upperAscii": str.upper,
    "replace": lambda text, old, new, count=-1: text.replace(old, new, count),
    "split": _split,
    "substring": lambda text, start, end=None: text[start:end],
    "trim": str.strip,
    "format": _format_text,
    "strings.quote": lambda text: f'"{text}"',
    "find": _find,
    "findAll": _find_all,
    # numbers
    "math.greatest": lambda *numbers: max(*numbers) if len(numbers) > 1 else max(numbers[0]),
    "math.least": lambda *numbers: min(*numbers) if len(numbers) > 1 else min(numbers[0]),
    "math.abs": abs,
    "math.ceil": lambda number: float(math.ceil(number)),
    "math.floor": lambda number: float(math.floor(number)),
    "math.round": lambda number: float(math.floor(abs(number) + 0.5)) * (1 if number > 0 else -1),
    # quantities and versions
    "quantity": _quantity,
    "isQuantity": _is(_quantity),
    "semver": _semver,
    "isSemver": _is(_semver),
    "major": lambda value: _precedence(value)[0],
    "minor": lambda value: _precedence(value)[1],
    "patch": lambda value: _precedence(value)[2],
    "isLessThan": lambda left, right: _order(left, right) < 0,
    "isGreaterThan": lambda left, right: _order(left, right) > 0,
    "compareTo": _order,
    "sign": lambda value: (_amount(value) > 0) - (_amount(value) < 0),
    "isInteger": lambda value: _amount(value).denominator == 1,
    "asInteger": lambda value: int(_amount(value)),
    "asApproximateFloat": lambda value: float(_amount(value)),
    "add": lambda left, right: {_QUANTITY: str(_amount(left) + _amount(right))},
    "sub": lambda left, right: {_QUANTITY: str(_amount(left) - _amount(right))},
    # addresses
    "ip": _ip,
    "isIP": _is(_ip),
    "ip.isCanonical": lambda text: _ip(text)[_IP] == text,
    "cidr": _cidr,
    "isCIDR": _is(_cidr),
    "family": lambda value: _address(value).version,
    "isUnspecified": lambda value: _address(value).is_unspecified,
    "isLoopback": lambda value: _address(value).is_loopback,
    "isLinkLocalUnicast": lambda value: _address(value).is_link_local,
    "isLinkLocalMulticast": lambda value: str(_address(value)).startswith(("224.0.0.", "ff02:")),
    "isGlobalUnicast": lambda value: (
        not (
            _address(value).is_unspecified
            or _address(value).is_loopback
            or _address(value).is_multicast
            or _address(value).is_link_local
        )
    ),
    "containsIP": lambda value, other: _address(other) in _network(value),
    "containsCIDR": _contains_cidr,
    "masked": lambda value: {_CIDR: str(_network(value))},
    "prefixLength": lambda value: _network(value).prefixlen,
    # URLs
    "url": _url,
    "isURL": _is(_url),
    "getScheme": lambda value: urlsplit(value[_URL]).scheme,
    "getHost": lambda value: urlsplit(value[_URL]).netloc.rpartition("@")[2],
    "getHostname": lambda value: urlsplit(value[_URL]).hostname or "",
    "getPort": lambda value: str(urlsplit(value[_URL]).port or ""),
    "getEscapedPath": lambda value: urlsplit(value[_URL]).path,
    "getQuery": lambda value: parse_qs(urlsplit(value[_URL]).query, keep_blank_values=True),
    # formats
    "format.named": _named_format,
    "validate": _check_format,
}
LIBRARY |= {
    f"format.{name}": lambda name=name: {**_named_format(name).value()}
    for name in (
        "dns1123Label",
        "dns1123Subdomain",
        "dns1035Label",
        "qualifiedName",
        "labelValue",
        "uri",
        "uuid",
        "byte",
        "date",
        "datetime",
    )
}
