"""Add the installer to a cluster with a `RedisOperator` for it, and remove it again.

Guarantees: each may be interrupted at any write and run again.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from kubecontroller import Client, Manifest, NotFound, Propagation
from kubecontroller.client.objects import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    JOBS,
    PODS,
)
from kubecontroller.runtime import remove_finalizer
from redis_operator import __version__
from redis_operator.api.redisoperator import RedisOperator, WatchedNamespaces
from redis_operator.install.installer import Installer, InstallError, Tell, kind_of, persistent
from redis_operator.install.inventory import Inventory, item_of
from redis_operator.install.objects import objects
from redis_operator.install.options import DEFAULT_NAMESPACE, Options
from redis_operator.install.strategy import STRATEGY_LABEL
from redis_operator.install.waiting import (
    StageTimeout,
    definition_limitation,
    rollout_limitation,
    wait,
)

from .choices import Named, load_redisoperator, load_status, options_of
from .objects import INSTALLER, INSTALLER_LABELS, installer_objects
from .reconcile import FINALIZER, REDIS_OPERATORS

__all__ = ["InstallerLife", "redisoperator"]

_KEY = ("", DEFAULT_NAMESPACE)


def redisoperator(options: Options) -> Manifest:
    """Return the `RedisOperator` for these options."""
    spec: dict[str, Any] = {
        "image": options.image,
        "imagePullPolicy": options.pull_policy,
        "replicas": options.replicas,
        "resources": msgspec.to_builtins(options.resources),
    }
    if options.pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in options.pull_secrets]
    if options.watch_namespaces:
        spec["namespaces"] = {"names": list(options.watch_namespaces)}
    if options.arguments:
        spec["arguments"] = list(options.arguments)
    if options.issuer is not None:
        spec["certificates"] = {"issuerRef": msgspec.to_builtins(options.issuer)}
    if options.placement:
        spec["placement"] = dict(options.placement)
    if components := _components(options):
        spec["components"] = components
    return {
        "apiVersion": REDIS_OPERATORS.api_version,
        "kind": REDIS_OPERATORS.kind,
        "metadata": {"name": DEFAULT_NAMESPACE},
        "spec": spec,
    }


def _components(options: Options) -> dict[str, Any]:
    """Return the options that differ from the defaults of the kind."""
    found: dict[str, Any] = {}
    if not options.webhooks:
        found["admission"] = {"enabled": False}
    chosen = msgspec.to_builtins(options.monitoring)
    if not chosen.pop("install", True):
        chosen["enabled"] = False
    if chosen:
        found["monitoring"] = chosen
    return found


class InstallerLife:
    """The installer of a cluster: how it is added and removed."""

    def __init__(self, client: Client, *, tell: Tell, patience: StageTimeout) -> None:
        self._client = persistent(client, tell)
        self._tell = tell
        self._patience = patience
        self._installer = Installer(client, tell=tell, patience=patience)

    async def exists(self) -> bool:
        """Return whether a `RedisOperator` describes the installation of this cluster."""
        try:
            await self._client.get(REDIS_OPERATORS, _KEY)
        except NotFound:
            return False
        return True

    async def described(self, namespace: str) -> Inventory | None:
        """Return the installation that the `RedisOperator` describes, if there is one.

        What `redisoperator` cannot say, such as labels of namespaces, is left out. Raises
        `InstallError` if it cannot be followed.
        """
        try:
            raw = await self._client.get(REDIS_OPERATORS, _KEY)
        except NotFound:
            return None
        found = load_redisoperator(raw)
        if not isinstance(found, RedisOperator):
            text = "; ".join(map(str, found))
            raise InstallError(f"RedisOperator {DEFAULT_NAMESPACE}: {text}; correct it first")
        named = WatchedNamespaces(names=found.spec.namespaces.names)
        spec = replace(found.spec, verbose=False, namespaces=named)
        known: list[Named] = [(name, {}) for name in named.names]
        options = options_of(spec, namespace=namespace, namespaces=known)
        assert isinstance(options, Options)  # every name is known
        return Inventory(options, version=load_status(raw).observed_version or __version__)

    async def install(self, options: Options) -> None:
        """Add the installer, create the `RedisOperator`, and wait until it is installed."""
        documents = installer_objects(options)
        await self._installer.refuse_taken([*documents, *objects(options)], options.namespace)
        foreign = await self._installer.has_foreign(options.namespace)
        for document in documents:
            item = item_of(document)
            if foreign and item.kind == "Namespace":
                continue
            await self._client.apply(kind_of(item), document)
            self._tell(f"{item}: applied")
            if item.kind == CUSTOM_RESOURCE_DEFINITIONS.kind:
                await wait(partial(self._definition, item.name), self._patience)
        await self._client.apply(REDIS_OPERATORS, redisoperator(options))
        self._tell(f"RedisOperator {DEFAULT_NAMESPACE}: applied")
        await wait(partial(self._deployed, options.namespace), self._patience)

    async def remove(self, namespace: str) -> None:
        """Remove the installer and the `RedisOperator`; what it installed stays."""
        await self._installer.check_lives(namespace)
        documents = installer_objects(Options(namespace=namespace))
        for document in documents:
            if document["kind"] == DEPLOYMENTS.kind:
                await self._installer.delete(item_of(document), namespace)
        await wait(partial(self._running, namespace), self._patience)
        with suppress(NotFound):
            raw = await self._client.get(REDIS_OPERATORS, _KEY)
            await remove_finalizer(self._client, REDIS_OPERATORS, raw, FINALIZER)
            await self._delete(REDIS_OPERATORS, _KEY)
        for kind in (JOBS, CONFIG_MAPS):
            page = await self._client.list(kind.plain(), namespace=namespace, labels=STRATEGY_LABEL)
            for raw in page.items:
                await self._delete(kind.plain(), (namespace, raw["metadata"]["name"]))
        await wait(partial(self._asking, namespace), self._patience)
        for document in reversed(documents):
            if document["kind"] != "Namespace":
                await self._installer.delete(item_of(document), namespace)

    async def _delete(self, kind: Any, key: tuple[str, str]) -> None:
        try:
            await self._client.delete(kind, key, propagation=Propagation.BACKGROUND)
        except NotFound:
            return
        self._tell(f"{kind.kind} {key[1]}: deleted")

    async def _definition(self, name: str) -> str | None:
        found = await self._client.get(CUSTOM_RESOURCE_DEFINITIONS, ("", name))
        return definition_limitation(found)

    async def _running(self, namespace: str) -> str | None:
        labels = ",".join(f"{key}={value}" for key, value in INSTALLER_LABELS.items())
        page = await self._client.list(PODS, namespace=namespace, labels=labels)
        names = [pod.metadata.name for pod in page.items]
        return f"the installer's pods do not end: {', '.join(names)}" if names else None

    async def _asking(self, namespace: str) -> str | None:
        page = await self._client.list(PODS, namespace=namespace, labels=STRATEGY_LABEL)
        names = [pod.metadata.name for pod in page.items]
        return f"pods of Jobs do not end: {', '.join(names)}" if names else None

    async def _deployed(self, namespace: str) -> str | None:
        found = await self._client.get(REDIS_OPERATORS, _KEY)
        status = found.get("status") or {}
        current = status.get("observedGeneration") == found["metadata"].get("generation")
        if not current:
            with suppress(NotFound):
                deployment = await self._client.get(DEPLOYMENTS, (namespace, INSTALLER))
                if reason := rollout_limitation(deployment):
                    return reason
            return "the installer has not reconciled the RedisOperator yet"
        if status.get("phase") == "Failed":
            raise InstallError(str(status.get("message", "")))
        return None if status.get("phase") == "Deployed" else str(status.get("message", ""))
