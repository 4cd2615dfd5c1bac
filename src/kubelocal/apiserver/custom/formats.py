"""The string formats of CRD schemas that are checked; any other holds."""

from __future__ import annotations

import datetime as dt
import ipaddress
import re
from collections.abc import Callable

__all__ = ["has_format", "is_known_format", "parse_duration"]

_DURATION = re.compile(r"([0-9]*\.?[0-9]+|[0-9]+\.)(ns|us|µs|μs|ms|s|m|h)")
_UNITS = {"ns": 1, "us": 1e3, "µs": 1e3, "μs": 1e3, "ms": 1e6, "s": 1e9, "m": 6e10, "h": 3.6e12}
_LONG_DURATION = re.compile(
    r"\s*[0-9]+(\.[0-9]+)?\s*"
    r"(ns|nano\w*|[uµ]s|micro\w*|ms|milli\w*|s|sec\w*|m|min\w*|h|hrs?|hours?|d|days?|w|weeks?)\s*"
)
_DATE_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?"
    r"([Zz]|[+-][0-9]{2}:?[0-9]{2})"
)
_BASE64 = re.compile("(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")


def parse_duration(text: str) -> int | None:
    """Parse a Go duration as nanoseconds; nothing if it is invalid."""
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


def _parses(read: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            read(text)
        except ValueError:
            return False
        return True

    return check


def _is_date_time(text: str) -> bool:
    if not _DATE_TIME.fullmatch(text):
        return False
    hour, minute, second = (int(text[start : start + 2]) for start in (11, 14, 17))
    return _is_date(text[:10]) and hour < 24 and minute < 60 and second < 60


_is_date = _parses(dt.date.fromisoformat)
_CHECKS: dict[str, Callable[[str], bool]] = {
    "ipv4": _parses(ipaddress.IPv4Address),
    "ipv6": _parses(ipaddress.IPv6Address),
    "byte": lambda text: _BASE64.fullmatch(text) is not None,
    "date": lambda text: len(text) == 10 and _is_date(text),
    "duration": lambda text: (
        parse_duration(text) is not None or _LONG_DURATION.fullmatch(text) is not None
    ),
    "datetime": _is_date_time,
}


def is_known_format(name: str) -> bool:
    """Return whether a format is one that is checked."""
    return name.replace("-", "") in _CHECKS


def has_format(name: str, text: str) -> bool:
    """Return whether a text has a known format."""
    return _CHECKS[name.replace("-", "")](text)
