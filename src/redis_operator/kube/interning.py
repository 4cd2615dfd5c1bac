"""One copy of each string that many cached objects repeat: namespaces, labels, phases, nodes.

Worth its time where objects are kept (an informer's transform), not where they are read once.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

from msgspec import Struct
from msgspec.structs import force_setattr

from redis_operator.kube.meta import ObjectMeta

__all__ = ["Interner"]

T = TypeVar("T")

# Different in each object: looking them up would cost time and keep them alive for nothing.
_OWN_IN_META: Final = frozenset({"name", "uid", "resource_version"})
_OWN: Final = frozenset({"pod_ip", "message", "resource_version"})


class Interner:
    """Replaces equal strings inside objects by one of them.

    Guarantees: the object stays equal to itself; at most `largest` strings are held, so that
    strings of objects long gone do not pile up. Give each cache its own.
    """

    def __init__(self, *, largest: int = 50_000) -> None:
        self._strings: dict[str, str] = {}
        self._largest = largest

    def __len__(self) -> int:
        return len(self._strings)

    def shrink(self, obj: T) -> T:
        """Return the same object with its repeated strings shared.

        Only for objects nobody else has seen yet, as a decoder returns them: the strings are
        exchanged in place. Plain values are returned as they are.
        """
        if len(self._strings) >= self._largest:
            self._strings.clear()
        if isinstance(obj, Struct):
            self._visit(obj)
        return obj

    def _visit(self, part: Struct) -> None:
        own = _OWN_IN_META if isinstance(part, ObjectMeta) else _OWN
        for name in part.__struct_fields__:
            value = getattr(part, name)
            if not value or name in own:
                continue
            if type(value) is str:
                force_setattr(part, name, self._strings.setdefault(value, value))
            elif type(value) is dict:
                force_setattr(part, name, self._mapping(value))
            elif type(value) is tuple:
                for item in value:
                    if isinstance(item, Struct):
                        self._visit(item)
            elif isinstance(value, Struct):
                self._visit(value)

    def _mapping(self, mapping: dict[str, Any]) -> dict[str, Any]:
        share = self._strings.setdefault
        return {
            share(name, name): share(value, value) if type(value) is str else value
            for name, value in mapping.items()
        }
