"""What Go code checks in objects of the built-in kinds beyond their schema."""

from __future__ import annotations

from typing import Any

from redis_operator.local.apiserver.causes import Cause

__all__ = ["problems"]


def problems(
    group: str, kind: str, document: dict[str, Any], old: dict[str, Any] | None
) -> list[Cause]:
    """Find what is wrong with an object, or with its change."""
    return []
