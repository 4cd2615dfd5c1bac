"""What lies below an object's path: scale, eviction, binding, and conversations with pods."""

from __future__ import annotations

from redis_operator.kube.request import Response

from .calls import Answer, Call, Connect, Steps
from .core import Core
from .entries import Object
from .reading import Reader, key_of
from .removing import Remover
from .status import method_not_allowed, not_found
from .writing import Writer

__all__ = ["Subresources"]

_CONVERSATIONS = {"log", "exec", "attach", "portforward"}


class Subresources:
    """Answers requests below objects."""

    def __init__(self, core: Core, reader: Reader, writer: Writer, remover: Remover) -> None:
        self._core = core
        self._reader = reader
        self._writer = writer
        self._remover = remover

    def answer(self, call: Call, verb: str) -> Steps[Answer]:
        """Answer one request."""
        sub = call.resource.subresource(call.subresource)
        if sub is None:
            headers = {"content-type": "text/plain; charset=utf-8"}
            return Response(status=404, headers=headers, body=b"404 page not found\n")
        if verb not in sub.verbs:
            raise method_not_allowed()
        if call.subresource in _CONVERSATIONS:
            return self._connect(call)
        yield from ()
        raise method_not_allowed()

    def _connect(self, call: Call) -> Connect:
        return Connect(
            subresource=call.subresource,
            namespace=call.namespace,
            name=call.name,
            pod=self._live(call),
            query=call.request.query,
        )

    def _live(self, call: Call) -> Object:
        entry = self._core.store.collection(call.resource.key).entries.get(key_of(call))
        if entry is None:
            raise not_found(call.resource.group, call.resource.plural, call.name)
        return self._core.load(call.resource, entry)
