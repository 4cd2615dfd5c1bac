"""The functions that Kubernetes adds to CEL, for rules in CRDs: texts, lists, numbers, quantities.

A quantity is represented as a small map with one hidden key, so that equality works on it.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from kubelocal.apiserver.custom.cel.engine import cel
from kubelocal.apiserver.kinds.quantities import parse_quantity

__all__ = ["LIBRARY"]

_QUANTITY = "__quantity"
_MOST_NUMBERS = 1_000_000  # as much as one rule may cost


def _quantity(text: str) -> dict[str, str]:
    value = parse_quantity(text)
    if value is None:
        form = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
        raise ValueError(f"quantities must match the regular expression '{form}'")
    return {_QUANTITY: str(value)}


def _amount(value: Any) -> Fraction:
    return Fraction(value[_QUANTITY]) if isinstance(value, dict) else Fraction(value)


def _order(left: Any, right: Any) -> int:
    first, second = _amount(left), _amount(right)
    return (first > second) - (first < second)


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
    queue = iter(arguments)
    words = {True: "true", False: "false", None: "null"}

    def fill(match: re.Match[str]) -> str:
        if match[0] == "%%":
            return "%"
        value = next(queue)
        if isinstance(value, bool | None):
            return words[value]
        return str(value) if match[0][-1] in "sd" else str(match[0] % value)

    return re.sub(r"%%|%(\.\d+)?[sdfexXo]", fill, template)


def _is_sorted(items: list[Any]) -> bool:
    return all(a <= b for a, b in itertools.pairwise(items))


def _optional(container: Any, key: Any) -> Any:
    """Select from a map, a list, or an optional one; in sources it is `.?key` and `[?key]`."""
    if isinstance(container, cel.OptionalValue):
        if not container.has_value():
            return cel.OptionalValue.none()
        container = container.value()
    if isinstance(container, dict):
        found = key in container
    else:
        found = isinstance(key, int) and 0 <= key < len(container)
    return cel.OptionalValue.of(container[key]) if found else cel.OptionalValue.none()


def _counted(count: int) -> list[int]:
    """Return the numbers below a count; too many would exceed the cost limit of a rule."""
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
    # quantities
    "quantity": _quantity,
    "isQuantity": lambda text: parse_quantity(text) is not None,
    "isLessThan": lambda left, right: _order(left, right) < 0,
    "isGreaterThan": lambda left, right: _order(left, right) > 0,
    "compareTo": _order,
    "sign": lambda value: (_amount(value) > 0) - (_amount(value) < 0),
    "isInteger": lambda value: _amount(value).denominator == 1,
    "asInteger": lambda value: int(_amount(value)),
    "asApproximateFloat": lambda value: float(_amount(value)),
    "add": lambda left, right: {_QUANTITY: str(_amount(left) + _amount(right))},
    "sub": lambda left, right: {_QUANTITY: str(_amount(left) - _amount(right))},
}
