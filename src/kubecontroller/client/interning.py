"""One copy of the parts that many cached objects repeat: namespaces, labels, owners, containers.

Useful where objects are kept (an informer's transform), not where they are read once.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr

from kubecontroller.client.meta import ObjectMeta, Projected

__all__ = ["Interner"]

T = TypeVar("T")

# Different in each object: looking them up would cost time and keep them alive for nothing.
_OWN_IN_META: Final = frozenset({"name", "uid", "resource_version"})
_OWN: Final = frozenset({"pod_ip", "message", "resource_version"})
_SHARED_WHOLE: Final = (tuple, dict)


class Interner:
    """Replaces equal parts inside objects by one of them.

    An object, its metadata, spec and status stay its own; the parts below them (labels, owners,
    containers, conditions) are looked up whole, and looked into only when they are seen for the
    first time.

    Guarantees: the returned object equals the original; at most `largest` strings and `largest`
    parts are held, so that those of deleted objects do not accumulate. Give each cache its own.
    """

    def __init__(self, *, largest: int = 50_000) -> None:
        self._strings: dict[str, str] = {}
        self._parts: dict[Hashable, Any] = {}
        self._largest = largest

    def __len__(self) -> int:
        return max(len(self._strings), len(self._parts))

    def shrink(self, obj: T) -> T:
        """Return the same object with its repeated parts shared.

        Only for objects that have no other reader yet, as a decoder returns them: parts are
        exchanged in place. Plain values are returned as they are.
        """
        if len(self) >= self._largest:
            self._strings.clear()
            self._parts.clear()
        if isinstance(obj, Struct):
            self._visit(obj, own_parts=isinstance(obj, Projected))
        return obj

    def _visit(self, part: Struct, *, own_parts: bool = False) -> None:
        own = _OWN_IN_META if type(part) is ObjectMeta else _OWN
        strings = self._strings
        for name in part.__struct_fields__:
            value = getattr(part, name)
            if not value or name in own:
                continue
            if type(value) is str:
                force_setattr(part, name, strings.setdefault(value, value))
            elif type(value) in _SHARED_WHOLE:
                force_setattr(part, name, self._shared(value))
            elif isinstance(value, Struct):
                if own_parts:
                    self._visit(value)
                else:
                    force_setattr(part, name, self._shared(value))

    def _shared(self, value: Any) -> Any:
        """Return the equal part that was stored first."""
        key: Hashable = value
        try:
            found = self._parts.get(value)
        except TypeError:  # it holds a mapping: its representation is the key
            key = (type(value), msgspec.json.encode(value))
            found = self._parts.get(key)
        if found is None:
            found = self._parts[key] = self._taken_apart(value)
        return found

    def _taken_apart(self, value: Any) -> Any:
        if type(value) is dict:
            return self._mapping(value)
        if type(value) is tuple:
            return tuple(self._item(item) for item in value)
        self._visit(value)
        return value

    def _item(self, item: Any) -> Any:
        if type(item) is str:
            return self._strings.setdefault(item, item)
        if isinstance(item, Struct):
            self._visit(item)
        return item

    def _mapping(self, mapping: dict[str, Any]) -> dict[str, Any]:
        share = self._strings.setdefault
        return {
            share(name, name): share(value, value) if type(value) is str else value
            for name, value in mapping.items()
        }
