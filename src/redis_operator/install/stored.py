"""Stored objects of the operator's kinds, checked against the definitions of the next version.

The API server does not check stored objects when a definition changes. One that is no longer valid
stays; where a server does not accept unchanged faults (before Kubernetes 1.30), even its status
cannot be written until a person corrects it. So each is named before the first write. It does not
block an upgrade: one user's mistake must not keep all others from it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from kubecontroller import Client, Kind, Manifest, NotFound
from kubecontroller.client.objects import CUSTOM_RESOURCE_DEFINITIONS
from redis_operator import __version__
from redis_operator.api.redis import Redis
from redis_operator.api.shape import Problem
from redis_operator.api.validation import load, shape

from .inventory import Item
from .strategy import Strategy

__all__ = ["misfits"]

_GROUP: Final = "redisoperator.dev"
_MOST: Final = 10  # of one kind that are named


async def misfits(
    client: Client, strategy: Strategy, live: Mapping[Item, Manifest | None]
) -> list[str]:
    """Return a sentence for each stored object that is not valid in a version."""
    found = []
    for listed in strategy.objects:
        document = listed.document
        is_definition = document["kind"] == CUSTOM_RESOURCE_DEFINITIONS.kind
        if not is_definition or live.get(listed.item) is None:
            continue
        own = [sentence async for sentence in _of_kind(client, document, strategy.version)]
        more = [f"and {len(own) - _MOST} more of this kind"] if len(own) > _MOST else []
        found += [*own[:_MOST], *more]
    return found


async def _of_kind(client: Client, definition: Manifest, version: str) -> AsyncIterator[str]:
    spec = definition["spec"]
    served = next((one for one in spec["versions"] if one.get("storage")), None)
    if served is None or spec["group"] != _GROUP:
        return
    kind: Kind[Manifest] = Kind(
        spec["group"],
        served["name"],
        spec["names"]["kind"],
        spec["names"]["plural"],
        spec["scope"] == "Namespaced",
        dict,
    )
    try:
        stored = (await client.list(kind)).items
    except NotFound:
        return
    for raw in stored:
        problems = _problems(raw, kind.kind, served["schema"]["openAPIV3Schema"], version)
        if problems:
            meta = raw["metadata"]
            name = "/".join(part for part in (meta.get("namespace"), meta["name"]) if part)
            yield (
                f"{kind.kind} {name}: version {version} does not accept its spec, and uses the "
                f"last one that was good: {'; '.join(map(str, problems))}"
            )


def _problems(raw: Manifest, kind: str, schema: Any, version: str) -> list[Problem]:
    """Return what the schema says; of a database, also what rules say where they are known."""
    found = sorted(set(shape(raw, schema)))
    if not found and kind == "Redis" and version == __version__:
        read = load(raw)
        return [] if isinstance(read, Redis) else list(read)
    return found
