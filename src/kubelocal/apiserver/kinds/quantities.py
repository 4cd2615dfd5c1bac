"""Quantities such as `500m`, `1Gi` or `2e3`: parsed, compared and formatted as in Kubernetes."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

__all__ = ["amount", "canonical_quantity", "parse_quantity"]

_FORM = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_NANO = Fraction(1, 10**9)
_LONGEST, _LARGEST_EXPONENT = 100, 100


@lru_cache(maxsize=2048)
def parse_quantity(text: str) -> Fraction | None:
    """Parse a quantity; nothing if it is invalid."""
    match = _FORM.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        return None
    number, suffix = Fraction(match[1].rstrip(".") or "0"), match[2] or ""
    if suffix in _BINARY:
        return number * int(1024 ** _BINARY[suffix])
    if suffix in _DECIMAL:
        return number * _power(_DECIMAL[suffix])
    return number * _power(int(suffix[1:]))


def _power(exponent: int) -> Fraction:
    # Beyond this every quantity is past all limits, or zero: more digits would only cost time.
    exponent = max(-_LARGEST_EXPONENT, min(exponent, _LARGEST_EXPONENT))
    whole = int(10 ** abs(exponent))
    return Fraction(whole) if exponent >= 0 else Fraction(1, whole)


@lru_cache(maxsize=2048)
def canonical_quantity(text: str) -> str:
    """Format a quantity with the largest suffix of its kind that leaves a whole number."""
    value = parse_quantity(text)
    match = _FORM.fullmatch(text) if value is not None else None
    if match is None or value is None:
        return text
    suffix = match[2] or ""
    if abs(value) % _NANO:
        value = Fraction(-(-abs(value) // _NANO)) * _NANO * (1 if value > 0 else -1)
    if not value:
        return "0"
    if suffix in _BINARY:
        whole = _binary(value)
        if whole is not None:
            return whole
        suffix = ""
    if suffix[:1] in {"e", "E"} and len(suffix) > 1:
        return _exponent(value)
    return _decimal(value)


def _binary(value: Fraction) -> str | None:
    """Format in powers of 1024; a quantity with a fraction of a byte has no such form."""
    if value.denominator != 1 or abs(value) < 1024:
        return None
    number, power = int(value), 0
    while number % 1024 == 0 and power < 6:
        number //= 1024
        power += 1
    return f"{number}{list(_BINARY)[power - 1]}" if power else str(number)


def _decimal(value: Fraction) -> str:
    for suffix, power in sorted(_DECIMAL.items(), key=lambda item: -item[1]):
        scaled = value / _power(power)
        if scaled.denominator == 1:
            return f"{scaled}{suffix}"
    return str(value)


def _exponent(value: Fraction) -> str:
    for power in range(18, -10, -3):
        scaled = value / _power(power)
        if scaled.denominator == 1:
            return f"{scaled}e{power}" if power else str(scaled)
    return str(value)


@lru_cache(maxsize=1024)
def amount(text: str | float) -> float:
    """Parse a quantity (`100m`, `1Gi`, `2`) as a number: all that the server accepts."""
    number = parse_quantity(str(text))
    if number is None:
        raise ValueError(f"{text!r} is not a quantity")
    return float(number)
