"""Selectors that were written for pods of the older operator: they match no pod here. Pure.

Anti-affinity with such a selector would separate nothing, without any error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct

from redis_operator.api.shape import Problem
from redis_operator.manifests.names import COMPONENT_LABEL, DATABASE_LABEL

__all__ = ["Selector", "older_selectors", "selector_problems"]

_NAME: Final = "app.kubernetes.io/name"
_PART: Final = "app.kubernetes.io/part-of"
_COMPONENT: Final = "app.kubernetes.io/component"
_PREFIX: Final = "redisfailovers"
_COMPONENTS: Final = {"redis": "server", "sentinel": "sentinel"}
_TERMS: Final = (
    ("requiredDuringSchedulingIgnoredDuringExecution", ""),
    ("preferredDuringSchedulingIgnoredDuringExecution", "podAffinityTerm"),
)


class Selector(Struct, frozen=True):
    """A selector of the older labels: its path, its object, and its replacement."""

    path: str
    holder: dict[str, Any]
    ours: dict[str, str]


def older_selectors(pods: dict[str, Any], path: str, name: str) -> Iterator[Selector]:
    """Yield the selectors of the older labels in the settings of servers or of sentinels."""
    usual = "sentinel" if path.endswith("sentinel") else "server"
    for place, holder in _holders(pods, path):
        labels = _labels(holder.get("labelSelector"))
        if not _is_older(labels, name):
            continue
        ours = {COMPONENT_LABEL: _COMPONENTS.get(labels.get(_COMPONENT, ""), usual)}
        if name in labels.values():
            ours[DATABASE_LABEL] = name
        yield Selector(f"{place}.labelSelector", holder, dict(sorted(ours.items())))


def selector_problems(pods: dict[str, Any], path: str, name: str) -> Iterator[Problem]:
    """Refuse them: the pods have other labels here."""
    for found in older_selectors(pods, path, name):
        ours = ", ".join(f"{label}={value}" for label, value in found.ours.items())
        text = f"picks pods by labels that those of this operator do not have; use {ours}"
        yield Problem(found.path, text)


def _holders(pods: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield all objects with a selector of pods, and their paths."""
    affinity = pods.get("affinity")
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind) if isinstance(affinity, dict) else None
        for when, inner in _TERMS:
            place = f"{path}.affinity.{kind}.{when}"
            for index, term in _each(rules.get(when) if isinstance(rules, dict) else None):
                held = term.get(inner) if inner else term
                if isinstance(held, dict):
                    yield f"{place}[{index}]{f'.{inner}' if inner else ''}", held
    for index, constraint in _each(pods.get("topologySpreadConstraints")):
        yield f"{path}.topologySpreadConstraints[{index}]", constraint


def _each(found: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    if isinstance(found, list | tuple):
        yield from ((index, item) for index, item in enumerate(found) if isinstance(item, dict))


def _labels(selector: Any) -> dict[str, str]:
    """Return the labels of a selector: compared with one value, or with several."""
    if not isinstance(selector, dict):
        return {}
    plain = selector.get("matchLabels")
    found = {str(n): str(v) for n, v in plain.items()} if isinstance(plain, dict) else {}
    for _, expression in _each(selector.get("matchExpressions")):
        values = expression.get("values")
        first = values[0] if isinstance(values, list) and values else ""
        found.setdefault(str(expression.get("key", "")), str(first))
    return found


def _is_older(labels: dict[str, str], name: str) -> bool:
    """Whether labels are those of the older operator's pods."""
    if labels.get(_PART) == "redis-failover" or any(n.startswith(_PREFIX) for n in labels):
        return True
    component = labels.get(_COMPONENT) in _COMPONENTS
    return labels.get(_NAME) == name or (component and set(labels) == {_COMPONENT})
