"""Install and upgrade the operator: apply, wait until it works, prune.

Guarantees: it may be interrupted at any write and run again; objects of others are neither adopted
nor deleted; databases are not changed. Errors: `InstallError`, which says what to do; those of the
client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from kubecontroller import Client, Conflict, Kind, Manifest, NotFound
from kubecontroller.client import split_api_version
from kubecontroller.client.objects import CONFIG_MAPS, DEPLOYMENTS, NAMESPACES

from .admission import CERTIFICATE_GROUP
from .inventory import (
    INVENTORY,
    InstallPhase,
    Inventory,
    Item,
    certificate_items,
    item_of,
    read,
    surplus,
    written,
)
from .objects import INSTALLATION_LABEL, Object, Stage
from .options import Options
from .persistence import PersistentTransport
from .rights import NAMESPACED, OPERATOR, RBAC
from .stored import misfits
from .strategy import Listed, Strategy, generate
from .waiting import StageTimeout, wait, wait_for_stage

__all__ = ["FIELD_MANAGER", "InstallError", "Installer", "Memory", "Tell", "kind_of", "persistent"]

FIELD_MANAGER: Final = "redis-operator-install"
Tell = Callable[[str], None]
Memory = dict[Item, tuple[Object, str]]
"""What was applied last, and the resource version that the object had after it."""
_TIMEOUT: Final = 10.0  # of one request, which is sent again
_TRIES: Final = 5
_INSTALLER: Final = f"{OPERATOR}-installer"
_CLUSTER_ROLES: Final[Kind[Manifest]] = Kind(RBAC, "v1", "ClusterRole", "clusterroles", False, dict)
_MANAGED_BY: Final = "app.kubernetes.io/managed-by"


class InstallError(Exception):
    """Why an installation cannot be created, changed or removed, and what to do."""


def kind_of(item: Item) -> Kind[Manifest]:
    """Return how objects of a listed kind are addressed, also one of an unknown version."""
    group, version = split_api_version(item.api_version)
    return Kind(group, version, item.kind, item.plural, bool(item.namespace), dict)


def persistent(client: Client, tell: Tell) -> Client:
    """Return a client that retries while the API server is unavailable for a moment."""
    return Client(
        PersistentTransport(client.transport, tell),
        field_manager=client.field_manager,
        timeout=_TIMEOUT,
    )


class Installer:
    """Writes one installation through a client; reports each step as a line."""

    def __init__(
        self, client: Client, *, tell: Tell, patience: StageTimeout, memory: Memory | None = None
    ) -> None:
        self._client = persistent(client, tell)
        self._tell = tell
        self._patience = patience
        self._memory: Memory = {} if memory is None else memory
        self.left_out: set[Item] = set()  # kinds that the cluster did not serve
        self.misfits: list[str] = []  # stored objects that are not valid for the version

    async def find(self, namespace: str) -> Inventory | None:
        """Return the installation in a namespace, if there is one whose record can be read."""
        found = await self._live(CONFIG_MAPS.plain(), (namespace, INVENTORY))
        return read(found.get("data")) if found is not None else None

    async def recorded(self, namespace: str) -> Inventory | None:
        """Return the installation in a namespace, if there is one.

        Raises `InstallError` if its record is damaged: its options are not known.
        """
        found = await self._live(CONFIG_MAPS.plain(), (namespace, INVENTORY))
        record = read(found.get("data")) if found is not None else None
        if found is not None and record is None:
            raise InstallError(
                f"ConfigMap {INVENTORY} in namespace {namespace}, which has the options of the "
                "operator, cannot be read: delete it, and run `redis-operator install` with all "
                "options"
            )
        return record

    async def install(self, options: Options) -> None:
        """Bring the cluster to the state that the options describe, from any other state."""
        await self.sync(generate(options))

    async def sync(self, strategy: Strategy) -> None:
        """Bring the cluster to the objects of a version of the operator, also of another version.

        Once that was done, only objects that were changed since are written. Until then everything
        is applied, except for objects that did not change since this process applied the same.
        """
        options, version, digest = strategy.options, strategy.version, strategy.digest
        if await self.has_foreign(options.namespace):
            strategy = _without_namespace(strategy)
        live = await self._check(strategy)
        wanted = [listed.item for listed in strategy.objects]
        whole = Inventory(options, tuple(sorted(wanted)), InstallPhase.INSTALLED, version, digest)
        old = await self.find(options.namespace)
        known = tuple(old.items) if old is not None else ()
        both = tuple(sorted({*known, *wanted}))
        for part in strategy.parts:
            for listed in part.objects:
                if not self._stands(listed, live.get(listed.item), installed=old == whole):
                    await self._apply(listed)
            if part.stage == Stage.NAMESPACE and old != whole:
                await self._stop_asking(old, options)
                begun = Inventory(options, both, InstallPhase.INSTALLING, version, digest)
                await self._begin(begun, surplus(known, wanted), recorded=old == begun)
            documents = [listed.document for listed in part.objects]
            await wait_for_stage(self._client, part.stage, documents, self._patience, self._tell)
        for item in surplus(known, wanted):
            await self.delete(item, options.namespace)
        for item in certificate_items(options.namespace, but=options):
            await self.delete(item, options.namespace)
        if old != whole:
            await self._record(whole)

    async def preview(self, options: Options) -> None:
        """Ask the API server what would happen, and change nothing."""
        strategy = generate(options)
        await self._check(strategy)
        for listed in strategy.objects:
            if listed.item.kind != NAMESPACES.kind or not await self.has_foreign(listed.item.name):
                self._tell(f"{listed.item}: {await self._would(listed)}")
        old = await self.find(options.namespace)
        wanted = [listed.item for listed in strategy.objects]
        for item in surplus(old.items if old is not None else (), wanted):
            self._tell(f"{item}: would be deleted")

    async def delete(self, item: Item, namespace: str) -> None:
        """Delete an object of this installation; an object of another one stays."""
        kind, key = kind_of(item), (item.namespace, item.name)
        for _ in range(_TRIES):
            found = await self._live(kind, key)
            metadata = (found or {}).get("metadata", {})
            if found is None or metadata.get("deletionTimestamp"):
                return
            if (metadata.get("labels") or {}).get(INSTALLATION_LABEL) != namespace:
                self._tell(f"{item}: kept, it does not have the label of this operator")
                return
            try:
                await self._client.delete(kind, key, uid=metadata["uid"])
            except (NotFound, Conflict):
                continue  # it was deleted or replaced: check again
            self._tell(f"{item}: deleted")
            return
        raise InstallError(f"{item} keeps changing; run the same command again")

    async def has_foreign(self, namespace: str) -> bool:
        """Return whether a namespace was created by another party, which sets its rules for pods.

        Waits for one that is being deleted. Raises `NotInForce`.
        """
        found: Manifest | None = None

        async def ending() -> str | None:
            nonlocal found
            found = await self._live(NAMESPACES.plain(), ("", namespace))
            ends = (found or {}).get("metadata", {}).get("deletionTimestamp")
            return f"namespace {namespace} is still being deleted" if ends else None

        await wait(ending, self._patience)
        if found is None or INSTALLATION_LABEL in (found["metadata"].get("labels") or {}):
            return False
        self._tell(f"Namespace {namespace}: left as it is, it was there before")
        return True

    async def refuse_taken(self, documents: Iterable[Object], namespace: str) -> None:
        """Raise `InstallError` where an object belongs to another installation."""
        for document in documents:
            item = item_of(document)
            live = await self._live(kind_of(item), (item.namespace, item.name))
            if problem := _taken(item, live, namespace):
                raise InstallError(problem)

    async def check_lives(self, namespace: str) -> None:
        """Raise `InstallError` if the operator is in another namespace, or was installed by Helm.

        A missing installation may have been lost: only an object with another owner's label counts.
        """
        names = (OPERATOR, NAMESPACED, _INSTALLER)
        roles = [await self._live(_CLUSTER_ROLES, ("", name)) for name in names]
        if any(_label(one, _MANAGED_BY) == "Helm" for one in roles):
            raise InstallError("the operator belongs to a Helm release: use `helm uninstall`")
        for name in (INVENTORY, _INSTALLER):
            kind: Kind[Any] = CONFIG_MAPS if name == INVENTORY else DEPLOYMENTS
            if await self._live(kind.plain(), (namespace, name)) is not None:
                return
        for found in roles:
            installed_in = _label(found, INSTALLATION_LABEL) or namespace
            if installed_in != namespace:
                raise InstallError(
                    f"no operator is installed in namespace {namespace!r}: "
                    f"use --namespace {installed_in}"
                )

    # How

    async def _apply(self, listed: Listed) -> None:
        item = listed.item
        try:
            made = await self._client.apply(kind_of(item), listed.document)
        except NotFound:
            if not listed.optional:
                raise
            self.left_out.add(item)
            self._tell(f"{item}: left out, this cluster does not serve the kind")
            return
        self.left_out.discard(item)
        self._memory[item] = (listed.document, made["metadata"]["resourceVersion"])
        self._tell(f"{item}: applied")

    def _stands(self, listed: Listed, live: Manifest | None, *, installed: bool) -> bool:
        """Return whether an object need not be applied: it has the desired content, or it is
        unchanged since this process applied the same.
        """
        if installed:
            return _contains(live, listed.document)
        if live is None or listed.item not in self._memory:
            return False
        document, version = self._memory[listed.item]
        return bool(live["metadata"]["resourceVersion"] == version and document == listed.document)

    async def _stop_asking(self, old: Inventory | None, options: Options) -> None:
        """Remove the webhooks while the issuer of their certificate changes.

        Until all replicas and the CA bundle have changed, some would not be trusted.
        """
        if old is None or (old.options.issuer is None) == (options.issuer is None):
            return
        for item in old.items:
            if item.is_asking:
                await self.delete(item, options.namespace)

    async def _begin(self, begun: Inventory, gone: Iterable[Item], *, recorded: bool) -> None:
        """Record what will be applied; remove webhooks that no operator will serve."""
        if not recorded:
            await self._record(begun)
        for item in gone:
            if item.is_asking:
                await self.delete(item, begun.options.namespace)

    async def _record(self, inventory: Inventory) -> None:
        await self._client.apply(CONFIG_MAPS, written(inventory))

    async def _would(self, listed: Listed) -> str:
        item = listed.item
        kind, key = kind_of(item), (item.namespace, item.name)
        before = await self._live(kind, key)
        try:
            after = await self._client.apply(kind, listed.document, dry_run=True)
        except NotFound:
            if listed.optional:
                return "would be left out, this cluster does not serve the kind"
            return "would be created, with its namespace"
        if before is None:
            return "would be created"
        return "unchanged" if _content(before) == _content(after) else "would be changed"

    async def _live(self, kind: Kind[Manifest], key: tuple[str, str]) -> Manifest | None:
        try:
            return await self._client.get(kind, key)
        except NotFound:
            return None

    async def _check(self, strategy: Strategy) -> dict[Item, Manifest | None]:
        """Refuse before the first write what would fail later; return what exists."""
        namespace = strategy.options.namespace
        found: dict[Item, Manifest | None] = {}
        await self._check_namespaces(strategy.options.watch_namespaces)
        await self._check_served(strategy)
        for listed in strategy.objects:
            item = listed.item
            live = await self._live(kind_of(item), (item.namespace, item.name))
            problem = _taken(item, live, namespace) or _unservable(listed.document, live)
            if problem:
                raise InstallError(problem)
            found[item] = live
        self.misfits = await misfits(self._client, strategy, found)
        for sentence in self.misfits:
            self._tell(sentence)
        return found

    async def _check_namespaces(self, names: Iterable[str]) -> None:
        """Refuse a list with a namespace in which no rights can be given."""
        for name in names:
            try:
                found = await self._client.get(NAMESPACES, ("", name))
            except NotFound:
                raise InstallError(
                    f"--watch-namespaces: there is no namespace {name!r}; create it first, since "
                    "the operator is given its rights there, or name the others only"
                ) from None
            if found.metadata.is_deleting:
                raise InstallError(
                    f"--watch-namespaces: namespace {name!r} is being deleted; name the others only"
                )

    async def _check_served(self, strategy: Strategy) -> None:
        """Refuse objects of third-party kinds that the cluster does not have."""
        for listed in strategy.objects:
            item = listed.item
            group, _ = split_api_version(item.api_version)
            if listed.optional or group != CERTIFICATE_GROUP:
                continue
            try:
                await self._client.list(kind_of(item), namespace=item.namespace)
            except NotFound:
                raise InstallError(
                    f"{item}: this cluster does not serve {item.kind} of {item.api_version}; "
                    "install cert-manager first, or name no issuer"
                ) from None


def _without_namespace(strategy: Strategy) -> Strategy:
    """Return what is applied where the namespace was created by another party; the stage stays."""
    parts = tuple(
        replace(part, objects=tuple(o for o in part.objects if o.item.kind != NAMESPACES.kind))
        for part in strategy.parts
    )
    return replace(strategy, parts=parts)


def _label(found: Manifest | None, name: str) -> str:
    return str(((found or {}).get("metadata", {}).get("labels") or {}).get(name, ""))


def _taken(item: Item, live: Manifest | None, namespace: str) -> str:
    """Return why an existing object cannot be adopted, or nothing."""
    labels = (live or {}).get("metadata", {}).get("labels") or {}
    if labels.get(_MANAGED_BY) == "Helm" and not item.is_kept:
        return (
            f"{item} belongs to a Helm release; use `helm upgrade`, or uninstall the release first"
        )
    if live is not None and not item.is_kept and not _is_ours(live):
        return (
            f"{item} exists and does not belong to this operator; another program may use it. "
            f"Delete it, or hand it over with the label {INSTALLATION_LABEL}={namespace}"
        )
    other = labels.get(INSTALLATION_LABEL, namespace)
    if other != namespace and not item.namespace and not item.is_kept:
        return (
            f"{item} belongs to the installation in namespace {other!r}, and there is one operator "
            f"in a cluster; use --namespace {other}, or `redis-operator uninstall --namespace "
            f"{other}` first: databases stay"
        )
    return ""


def _is_ours(live: Manifest) -> bool:
    """Whether an object has the label of an installation, or had it when it was applied."""
    writers = {one.get("manager") for one in live["metadata"].get("managedFields") or ()}
    return bool(_label(live, INSTALLATION_LABEL)) or FIELD_MANAGER in writers


def _unservable(document: Object, live: Manifest | None) -> str:
    """Return why stored objects could not be read by a definition, or nothing."""
    stored = ((live or {}).get("status") or {}).get("storedVersions") or ()
    if document["kind"] != "CustomResourceDefinition" or not stored:
        return ""
    served = {version["name"] for version in document["spec"]["versions"]}
    lost = sorted(set(stored) - served)
    if not lost:
        return ""
    return (
        f"objects of {document['metadata']['name']} are stored as {', '.join(lost)}, which this "
        "version does not know: install the version that wrote them, or a newer one"
    )


_CHANGING: Final = ("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp")


def _content(document: Manifest) -> Any:
    """Return the content of an object, without the fields that the server sets."""
    metadata = {k: v for k, v in document["metadata"].items() if k not in _CHANGING}
    rest = {k: v for k, v in document.items() if k != "status"}
    return msgspec.json.encode({**rest, "metadata": metadata}, order="deterministic")


def _contains(live: Any, document: Any) -> bool:
    """Return whether an object still has the content of a document; a server adds to it."""
    if isinstance(document, dict):
        return isinstance(live, dict) and all(
            _contains(live.get(name), value) for name, value in document.items()
        )
    if isinstance(document, list | tuple):
        return (
            isinstance(live, list)
            and len(live) == len(document)
            and all(map(_contains, live, document))
        )
    return bool(live == document) or (live is None and document in ("", False, 0))
