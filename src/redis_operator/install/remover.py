"""Remove the operator; databases keep serving without it, unless they are to be removed too.

Guarantees: it may be interrupted at any write and run again. The webhooks are removed before the
operator stops, and its rights after that. Databases that stay lose the operator's finalizer, so
that they and their namespaces can be deleted while no operator runs; the next one adds it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from msgspec.structs import replace

from kubecontroller import Client, Conflict, Kind, Manifest, NotFound
from kubecontroller.client.objects import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
)
from kubecontroller.runtime import remove_finalizer
from redis_operator.api.webhooks import ISSUED_SECRET, SECRET
from redis_operator.manifests.names import DATABASE_LABEL
from redis_operator.operator.backups.ending import BACKUP_FINALIZER
from redis_operator.operator.backups.redis_restores import RESTORE_FINALIZER
from redis_operator.operator.objects.ending import FINALIZER, is_protected
from redis_operator.operator.world import (
    REDIS_BACKUPS,
    REDIS_FAILOVERS,
    REDIS_RESTORES,
    REDISES,
)

from .installer import Installer, InstallError, Tell, persistent
from .inventory import INVENTORY, InstallPhase, Inventory, Item, certificate_items, item_of, written
from .objects import INSTALLATION_LABEL, Stage, objects, stages
from .options import Issuer, MonitoringOptions, Options
from .rights import OPERATOR
from .waiting import StageTimeout, operator_pods, rollout_limitation, wait

__all__ = ["Remover"]

_TRIES = 5  # of a deletion that conflicts with changes


class Remover:
    """Removes one installation."""

    def __init__(self, client: Client, *, tell: Tell, patience: StageTimeout) -> None:
        self._client = persistent(client, tell)
        self._tell = tell
        self._patience = patience
        self._installer = Installer(client, tell=tell, patience=patience)

    async def databases(self) -> list[Manifest]:
        """Return every database of the cluster."""
        return await self._all(REDISES)

    async def _all(self, kind: Kind[Manifest]) -> list[Manifest]:
        try:
            return list((await self._client.list(kind)).items)
        except NotFound:
            return []  # the kind itself is gone already

    async def check(self, namespace: str, *, everything: bool) -> list[Manifest]:
        """Return the databases there are.

        Raises `InstallError` where some are protected, or the operator is in another namespace.
        """
        await self._installer.check_lives(namespace)
        found = await self.databases()
        protected = [_name(raw) for raw in found if is_protected(raw)]
        if everything and protected:
            raise InstallError(
                f"spec.deletion.protected is true for {', '.join(protected)}: nothing was deleted; "
                "set it to false for each that is to go"
            )
        return found

    async def uninstall(
        self,
        namespace: str,
        *,
        everything: bool = False,
        listed: Sequence[Manifest] | None = None,
    ) -> None:
        """Remove the operator in a namespace; with everything, databases before it.

        Where databases were `listed` for a person to confirm, no other one is deleted.
        """
        found = await self.check(namespace, everything=everything)
        if everything and listed is not None:
            uids = {raw["metadata"]["uid"] for raw in listed}
            _refuse_late([raw for raw in found if raw["metadata"]["uid"] not in uids])
        installed = await self._installer.find(namespace)
        options = installed.options if installed is not None else Options(namespace=namespace)
        items = {item_of(made) for made in objects(options)}
        items |= set(installed.items) if installed is not None else await self._unrecorded(options)
        if installed is not None:
            record = Inventory(options, tuple(sorted(items)), InstallPhase.REMOVING)
            await self._client.apply(CONFIG_MAPS, written(record))
        for item in sorted(items):
            if item.is_asking:
                await self._installer.delete(item, namespace)
        if everything:
            await self._delete_databases(found, options)
        await self._stop_operator(namespace)
        await self._let_go()
        order = [item_of(made) for stage in reversed(stages(options).values()) for made in stage]
        order += [*sorted(items - set(order)), *certificate_items(namespace)]
        for item in order:
            if not item.is_kept:
                await self._installer.delete(item, namespace)
        if everything:
            _refuse_late([r for r in await self.databases() if not _is_ending(r)])
            await self._delete_kept(order, namespace)
        await self._installer.delete(item_of(written(Inventory(options))), namespace)
        await self._delete_namespace(options)

    async def _unrecorded(self, options: Options) -> set[Item]:
        """Return what may have been applied where its record is lost, as with its namespace."""
        namespace = options.namespace
        widest = replace(
            options,
            watch_namespaces=(namespace,),
            issuer=Issuer("any"),
            monitoring=MonitoringOptions(secured=True),
        )
        found = {item_of(made) for made in objects(widest)}
        for kind in (ROLES, ROLE_BINDINGS):
            page = await self._client.list(kind.plain(), labels=f"{INSTALLATION_LABEL}={namespace}")
            named = {"apiVersion": kind.api_version, "kind": kind.kind}
            own = [raw for raw in page.items if raw["metadata"]["name"] == OPERATOR]
            found |= {item_of({**raw, **named}) for raw in own}  # the installer has others
        return found

    async def _delete_databases(self, found: list[Manifest], options: Options) -> None:
        """Delete all databases, and let a running operator delete their volumes.

        Objects that would recreate them are deleted first. Databases that the operator does not
        manage are not waited for: nothing acts on them.
        """
        managed = options.watch_namespaces
        owners = [(REDIS_FAILOVERS, raw) for raw in await self._all(REDIS_FAILOVERS)]
        for kind, raw in [*owners, *((REDISES, raw) for raw in found)]:
            await self._delete_database(kind, raw)

        async def held() -> str | None:
            left = [
                _name(raw)
                for raw in await self.databases()
                if _is_ending(raw) and (not managed or raw["metadata"]["namespace"] in managed)
            ]
            if not left or not await self._runs(options.namespace):
                return None
            return f"the operator does not remove its finalizer from {', '.join(left)}"

        await wait(held, self._patience)
        if any(map(_is_ending, await self.databases())):
            self._tell("no operator deletes the other volumes: claims of databases stay")

    async def _delete_database(self, kind: Kind[Manifest], raw: Manifest) -> None:
        """Delete exactly this object: a newer one of the same name stays."""
        meta = raw["metadata"]
        key = (meta["namespace"], meta["name"])
        for _ in range(_TRIES):
            try:
                await self._client.delete(kind, key, uid=meta["uid"])
            except NotFound:
                return
            except Conflict:
                with suppress(NotFound):
                    found = await self._client.get(kind, key)
                    if found["metadata"]["uid"] == meta["uid"]:
                        continue  # it changed at the same time
                return
            self._tell(f"{kind.kind} {_name(raw)}: deleted")
            return
        raise InstallError(f"{kind.kind} {_name(raw)} keeps changing; run the same command again")

    async def _runs(self, namespace: str) -> bool:
        try:
            found = await self._client.get(DEPLOYMENTS, (namespace, OPERATOR))
        except NotFound:
            return False
        return found.status.available_replicas > 0 or rollout_limitation(found) is None

    async def _stop_operator(self, namespace: str) -> None:
        """Delete the Deployment, and wait until none of its pods runs any more."""
        options = Options(namespace=namespace)
        for made in stages(options)[Stage.CONTROLLER]:
            await self._installer.delete(item_of(made), namespace)

        async def running() -> str | None:
            names = [pod.metadata.name for pod in await operator_pods(self._client, namespace)]
            return f"the operator's pods do not end: {', '.join(names)}" if names else None

        await wait(running, self._patience)

    async def _let_go(self) -> None:
        """Remove the operator's finalizers; backups in stores stay."""
        for raw in await self.databases():
            await remove_finalizer(self._client, REDISES, raw, FINALIZER)
        for raw in await self._all(REDIS_BACKUPS):
            await remove_finalizer(self._client, REDIS_BACKUPS, raw, BACKUP_FINALIZER)
        for raw in await self._all(REDIS_RESTORES):
            await remove_finalizer(self._client, REDIS_RESTORES, raw, RESTORE_FINALIZER)

    async def _delete_kept(self, order: list[Item], namespace: str) -> None:
        """Delete definitions and policies too: all objects of these kinds are deleted with them."""
        for item in order:
            if item.is_kept and item.kind != "Namespace":
                await self._installer.delete(item, namespace)

    async def _delete_namespace(self, options: Options) -> None:
        """Delete the operator's namespace if the installer created it and nothing else is in it."""
        [made] = stages(options)[Stage.NAMESPACE]
        other = await self._inhabitant(options.namespace)
        if other:
            self._tell(f"{item_of(made)}: left, since {other} is in it")
            return
        await self._installer.delete(item_of(made), options.namespace)

    async def _inhabitant(self, namespace: str) -> str:
        """Return an object of another party in a namespace, or nothing."""
        for raw in await self.databases():
            if raw["metadata"]["namespace"] == namespace:
                return f"Redis {raw['metadata']['name']}"
        for kind in (PODS, PERSISTENT_VOLUME_CLAIMS, SECRETS, CONFIG_MAPS):
            page = await self._client.list(kind.plain(), namespace=namespace)
            for raw in page.items:
                name = raw["metadata"]["name"]
                if name not in {"kube-root-ca.crt", INVENTORY, SECRET, ISSUED_SECRET}:
                    return f"{kind.kind} {name}"
        return ""

    async def leftovers(self) -> list[str]:
        """Return the volume claims that databases leave behind, by namespace and name."""
        page = await self._client.list(PERSISTENT_VOLUME_CLAIMS, labels=DATABASE_LABEL)
        return sorted("/".join(c.metadata.key) for c in page.items if not c.metadata.is_deleting)


def _refuse_late(found: Sequence[Manifest]) -> None:
    """Refuse to delete databases that a person has not confirmed."""
    if found:
        raise InstallError(
            f"Redis {', '.join(map(_name, found))} was created meanwhile, and stays with its kind: "
            "run the same command again"
        )


def _is_ending(raw: Manifest) -> bool:
    return bool(raw["metadata"].get("deletionTimestamp"))


def _name(raw: Manifest) -> str:
    return f"{raw['metadata']['namespace']}/{raw['metadata']['name']}"
