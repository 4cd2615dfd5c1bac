"""The end of a database: the finalizer that holds it, and what becomes of its volumes.

Servers are not asked anything: an unreachable Redis never keeps an object from going. Children go
by their owner references; claims go only when the policy says so. K-21, K-22
"""

from __future__ import annotations

from typing import Final

from redis_operator.kube.client import Client
from redis_operator.kube.meta import Manifest
from redis_operator.kube.objects import PERSISTENT_VOLUME_CLAIMS
from redis_operator.manifests.names import DATABASE_LABEL
from redis_operator.operator.world import REDISES
from redis_operator.runtime.finalizers import add_finalizer, remove_finalizer
from redis_operator.runtime.outcomes import Done, Outcome

__all__ = ["FINALIZER", "Ending"]

FINALIZER: Final = "redisoperator.dev/database"


class Ending:
    """Holds databases until their volumes were dealt with."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def hold(self, raw: Manifest) -> bool:
        """Add the finalizer before anything is created; whether it had to be added."""
        return await add_finalizer(self._client, REDISES, raw, FINALIZER)

    async def end(self, raw: Manifest) -> Outcome:
        """Deal with the volumes, then let the database go."""
        meta = raw["metadata"]
        if FINALIZER not in (meta.get("finalizers") or ()):
            return Done()
        if not _keeps_volumes(raw):
            await self._client.delete_collection(
                PERSISTENT_VOLUME_CLAIMS,
                namespace=meta["namespace"],
                labels=f"{DATABASE_LABEL}={meta['name']}",
            )
        await remove_finalizer(self._client, REDISES, raw, FINALIZER)
        return Done()


def _keeps_volumes(raw: Manifest) -> bool:
    """Tell whether the spec keeps data after the end; a spec that cannot be read keeps them."""
    spec = raw.get("spec") or {}
    policy = (spec.get("deletion") or {}).get("policy", "Delete")
    retain = bool((spec.get("storage") or {}).get("retain", False))
    return policy != "Delete" or retain
