"""The three ways to change part of an object, as values that carry their own media type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, TypeAlias

import msgspec
from msgspec import Struct

from kubecontroller.client.meta import Manifest
from kubecontroller.client.request import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH

__all__ = ["JsonPatch", "MergePatch", "Patch", "StrategicPatch"]


class MergePatch(Struct, frozen=True):
    """Fields to set, `None` to remove one; lists are replaced whole. Works on every kind."""

    media_type: ClassVar[str] = MERGE_PATCH
    change: Manifest

    def body(self) -> bytes:
        """Return the patch as it is sent."""
        return msgspec.json.encode(self.change)


class StrategicPatch(Struct, frozen=True):
    """Like a merge patch, with lists merged by key; built-in kinds only."""

    media_type: ClassVar[str] = STRATEGIC_PATCH
    change: Manifest

    def body(self) -> bytes:
        """Return the patch as it is sent."""
        return msgspec.json.encode(self.change)


class JsonPatch(Struct, frozen=True):
    """Operations done in order, all or none; `test` operations are its preconditions."""

    media_type: ClassVar[str] = JSON_PATCH
    operations: Sequence[dict[str, Any]]

    def body(self) -> bytes:
        """Return the patch as it is sent."""
        return msgspec.json.encode(list(self.operations))


Patch: TypeAlias = MergePatch | StrategicPatch | JsonPatch
