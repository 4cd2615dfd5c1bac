"""The deletion of a database: its finalizer, and what happens to its volumes.

Servers are not asked anything: an unreachable Redis never blocks a deletion. Children are deleted
by their owner references; claims are deleted only when the policy says so. K-21, K-22
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from kubecontroller import Client, Done, Finalizer, Manifest, NotFound, Outcome, Propagation
from kubecontroller.client.objects import PERSISTENT_VOLUME_CLAIMS, STATEFUL_SETS
from redis_operator.manifests.names import DATABASE_LABEL, IDENTITY_ANNOTATION
from redis_operator.operator.world import REDISES

__all__ = ["FINALIZER", "Ending", "is_protected"]

FINALIZER: Final = "redisoperator.dev/database"
_ORPHAN: Final = "orphan"  # the finalizer of a deletion that orphans, for the garbage collector


class Ending:
    """Holds databases until their volumes were dealt with."""

    def __init__(
        self, client: Client, is_backed_up: Callable[[Manifest], bool] = lambda _: False
    ) -> None:
        self._client = client
        self._is_backed_up = is_backed_up
        self._finalizer = Finalizer(client, REDISES, FINALIZER)

    async def around(self, raw: Manifest, follow: Callable[[], Awaitable[Outcome]]) -> Outcome:
        """Reconcile a database that has the finalizer; or, at its deletion, deal with the volumes.

        The database is read again then: a cache may show an object that is long gone, and a new one
        with the same name may exist. K-07, K-31
        """
        return await self._finalizer.around(raw, follow=follow, clean_up=self._clean_up)

    async def _clean_up(self, live: Manifest) -> Outcome | None:
        if is_protected(live):
            return Done()  # for a moment; the change comes as an event
        if not _keeps_volumes(live, backed_up=self._is_backed_up(live)):
            await self._delete_volumes(live["metadata"])
        return None

    async def _delete_volumes(self, meta: Manifest) -> None:
        """Delete the claims of this same database, and its workloads, which would create new ones.

        A deletion that orphans the objects keeps the servers, and they need their claims.
        """
        page = await self._client.list(
            STATEFUL_SETS.plain(), namespace=meta["namespace"], labels=_label(meta)
        )
        owned = [found for found in page.items if _is_owned(found, meta["uid"])]
        if _ORPHAN in (meta.get("finalizers") or ()) or len(owned) < len(page.items):
            return
        identities = {meta["uid"], *filter(None, map(_identity, owned))}
        await self._delete_claims(meta, identities)
        for found in owned:
            with suppress(NotFound):
                await self._client.delete(
                    STATEFUL_SETS,
                    (meta["namespace"], found["metadata"]["name"]),
                    uid=found["metadata"]["uid"],
                    propagation=Propagation.BACKGROUND,
                )
        await self._delete_claims(meta, identities)

    async def _delete_claims(self, meta: Manifest, identities: set[str]) -> None:
        page = await self._client.list(
            PERSISTENT_VOLUME_CLAIMS, namespace=meta["namespace"], labels=_label(meta)
        )
        for claim in page.items:
            marked = claim.metadata.annotation(IDENTITY_ANNOTATION)
            if claim.metadata.is_deleting or marked not in identities:
                continue
            with suppress(NotFound):
                await self._client.delete(
                    PERSISTENT_VOLUME_CLAIMS, claim.metadata.key, uid=claim.metadata.uid
                )


def is_protected(raw: Manifest) -> bool:
    """Whether the spec forbids the deletion."""
    deletion = (raw.get("spec") or {}).get("deletion") or {}
    return deletion.get("protected") is True


def _label(meta: Manifest) -> str:
    return f"{DATABASE_LABEL}={meta['name']}"


def _is_owned(workload: Manifest, uid: str) -> bool:
    owners = workload["metadata"].get("ownerReferences") or ()
    return any(owner.get("uid") == uid for owner in owners)


def _identity(workload: Manifest) -> str:
    """Return the identity that the volumes of a workload are marked with."""
    for template in workload["spec"].get("volumeClaimTemplates") or ():
        marks = template["metadata"].get("annotations") or {}
        return str(marks.get(IDENTITY_ANNOTATION, ""))
    return ""


def _keeps_volumes(raw: Manifest, *, backed_up: bool) -> bool:
    """Whether the spec keeps data after the deletion; a spec that cannot be read keeps it.

    So does a spec that wants a backup while there is none.
    """
    spec = raw.get("spec") or {}
    policy = (spec.get("deletion") or {}).get("policy", "Delete")
    retain = bool((spec.get("storage") or {}).get("retain", False))
    given_up = policy == "Delete" or (policy == "Backup" and backed_up)
    return not given_up or retain
