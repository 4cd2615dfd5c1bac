"""Kubernetes quantities (`100m`, `1.5Gi`, `1e3`) as exact numbers. Pure."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

__all__ = ["QUANTITY_PATTERN", "format_bytes", "parse_quantity"]

QUANTITY_PATTERN = (
    r"^\+?([0-9]+|[0-9]+\.[0-9]*|\.[0-9]+)(Ki|Mi|Gi|Ti|Pi|Ei|m|k|M|G|T|P|E|[eE][+-]?[0-9]{1,2})?$"
)
_QUANTITY = re.compile(QUANTITY_PATTERN.strip("^$"), re.ASCII)
_FACTORS = {
    **{unit: 1024**power for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)},
    **{unit: 1000**power for power, unit in enumerate(("k", "M", "G", "T", "P", "E"), 1)},
}


def parse_quantity(value: str | int) -> Fraction | None:
    """Return the number that a quantity means, or None when it is not a non-negative quantity."""
    return _parse(str(value))


@lru_cache(maxsize=1024)  # the same few are parsed in every pass
def _parse(text: str) -> Fraction | None:
    match = _QUANTITY.fullmatch(text)
    if match is None or len(text) > 40:
        return None
    number, suffix = Fraction(match.group(1).rstrip(".") or "0"), match.group(2) or ""
    return number * _factor(suffix)


def _factor(suffix: str) -> Fraction:
    if suffix == "m":
        return Fraction(1, 1000)
    if suffix in _FACTORS:
        return Fraction(_FACTORS[suffix])
    return Fraction(f"1{suffix}") if suffix else Fraction(1)


def format_bytes(count: int) -> str:
    """Return a size in readable form: `1.2Gi`."""
    size = float(count)
    for unit in ("", "Ki", "Mi", "Gi", "Ti"):
        if size < 1024 or unit == "Ti":
            return f"{size:.0f}{unit}" if unit in ("", "Ki") or size >= 100 else f"{size:.1f}{unit}"
        size /= 1024
    raise AssertionError("unreachable: the loop returns at its last unit")
