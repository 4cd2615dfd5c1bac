"""The string formats that a CRD schema can ask for; an unknown format is not checked."""

from __future__ import annotations

import datetime as dt
import email.utils
import ipaddress
import re
from collections.abc import Callable
from urllib.parse import urlsplit

__all__ = ["has_format", "is_duration", "is_known_format", "parse_duration"]

_DURATION = re.compile(r"([0-9]*\.?[0-9]+|[0-9]+\.)(ns|us|µs|μs|ms|s|m|h)")
_UNITS = {"ns": 1, "us": 1e3, "µs": 1e3, "μs": 1e3, "ms": 1e6, "s": 1e9, "m": 6e10, "h": 3.6e12}
_LONG_DURATION = re.compile(
    r"\s*[0-9]+(\.[0-9]+)?\s*"
    r"(ns|nanos?|nanoseconds?|[uµ]s|micros?|microseconds?|ms|millis?|milliseconds?"
    r"|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|weeks?)\s*"
)
_HEX = "[0-9a-f]"
_DATE_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?"
    r"([Zz]|[+-][0-9]{2}:?[0-9]{2})"
)
_NAME = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"


def _matches(pattern: str, flags: int = 0) -> Callable[[str], bool]:
    compiled = re.compile(pattern, flags)
    return lambda text: compiled.fullmatch(text) is not None


def _uuid(version: str = "") -> Callable[[str], bool]:
    third = f"{version}{_HEX}{{3}}" if version else f"{_HEX}{{4}}"
    fourth = f"[89ab]{_HEX}{{3}}" if version in {"4", "5"} else f"{_HEX}{{4}}"
    return _matches(f"{_HEX}{{8}}-?{_HEX}{{4}}-?{third}-?{fourth}-?{_HEX}{{12}}", re.IGNORECASE)


def parse_duration(text: str) -> int | None:
    """Read a Go duration as nanoseconds, or give nothing if it is none."""
    body = text.removeprefix("-").removeprefix("+") if text[:1] in "+-" else text
    if body == "0":
        return 0
    total, position = 0.0, 0
    while match := _DURATION.match(body, position):
        total += float(match[1]) * _UNITS[match[2]]
        position = match.end()
    if position != len(body) or not position:
        return None
    return -int(total) if text.startswith("-") else int(total)


def is_duration(text: str) -> bool:
    """Tell whether a text is a duration of Go, or a number and a unit in words."""
    return parse_duration(text) is not None or _LONG_DURATION.fullmatch(text) is not None


def _is_date(text: str) -> bool:
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        return False
    try:
        dt.date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_date_time(text: str) -> bool:
    if not _DATE_TIME.fullmatch(text):
        return False
    hour, minute, second = (int(text[start : start + 2]) for start in (11, 14, 17))
    return _is_date(text[:10]) and hour < 24 and minute < 60 and second < 60


def _is_ip(version: int) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            return ipaddress.ip_address(text.partition("%")[0]).version == version
        except ValueError:
            return False

    return check


def _is_cidr(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return bool(re.search(r"/[0-9]+$", text))


def _is_uri(text: str) -> bool:
    """Follow Go's ParseRequestURI: an absolute path, or a scheme."""
    if text.startswith("/"):
        return True
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return (
        bool(parts.scheme) and " " not in parts.netloc and not re.search(r"[\x00-\x20\x7f]", text)
    )


def _is_hostname(text: str) -> bool:
    parts = text.split(".")
    label = re.compile(r"[^\W_]([^\W_]|-)*(?<!-)")
    if len(text) > 255 or not all(len(part) <= 63 and label.fullmatch(part) for part in parts):
        return False
    return len(parts) == 1 or re.fullmatch(r"[^\W\d_]{2,63}", parts[-1]) is not None


def _is_email(text: str) -> bool:
    address = email.utils.parseaddr(text)[1]
    local, at, domain = address.rpartition("@")
    return bool(local and at and domain) and " " not in address


def _is_isbn10(text: str) -> bool:
    digits = text.replace("-", "").replace(" ", "")
    if not re.fullmatch(r"[0-9]{9}[0-9X]", digits):
        return False
    return not sum((10 - i) * (10 if d == "X" else int(d)) for i, d in enumerate(digits)) % 11


def _is_isbn13(text: str) -> bool:
    digits = text.replace("-", "").replace(" ", "")
    if not re.fullmatch(r"[0-9]{13}", digits):
        return False
    return not sum(int(d) * (3 if i % 2 else 1) for i, d in enumerate(digits)) % 10


def _is_credit_card(text: str) -> bool:
    digits = re.sub(r"[^0-9]+", "", text)
    if not 12 < len(digits) < 20:
        return False
    doubled = [int(d) * (1 + i % 2) for i, d in enumerate(reversed(digits))]
    return not sum(d - 9 if d > 9 else d for d in doubled) % 10


_CHECKS: dict[str, Callable[[str], bool]] = {
    "bsonobjectid": _matches("[0-9a-fA-F]{24}"),
    "uri": _is_uri,
    "email": _is_email,
    "hostname": _is_hostname,
    "ipv4": _is_ip(4),
    "ipv6": _is_ip(6),
    "cidr": _is_cidr,
    "mac": _matches(
        "(?:[0-9A-Fa-f]{2}([:-])(?:[0-9A-Fa-f]{2}\\1){4}[0-9A-Fa-f]{2}"
        "|(?:[0-9A-Fa-f]{4}\\.){2}[0-9A-Fa-f]{4})"
    ),
    "uuid": _uuid(),
    "uuid3": _uuid("3"),
    "uuid4": _uuid("4"),
    "uuid5": _uuid("5"),
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "creditcard": _is_credit_card,
    "ssn": _matches("[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}"),
    "hexcolor": _matches("#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "rgbcolor": _matches(r"rgb\(\s*([0-9]{1,3}\s*,\s*){2}[0-9]{1,3}\s*\)"),
    "byte": _matches("(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"),
    "password": lambda _: True,
    "date": _is_date,
    "duration": is_duration,
    "datetime": _is_date_time,
    "k8sshortname": lambda text: len(text) <= 63 and re.fullmatch(_NAME, text) is not None,
    "k8slongname": lambda text: (
        len(text) <= 253 and re.fullmatch(f"{_NAME}(\\.{_NAME})*", text) is not None
    ),
}


def is_known_format(name: str) -> bool:
    """Tell whether a format is one that is checked."""
    return name.replace("-", "") in _CHECKS


def has_format(name: str, text: str) -> bool:
    """Tell whether a text has a known format."""
    return _CHECKS[name.replace("-", "")](text)
