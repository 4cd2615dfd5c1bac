"""An operator in one file: a SharedSecret has copies of a Secret in every namespace it selects.

The kind is installed at the start, from its type. Sources say by a label that they may be shared;
copies follow their source and the labels of namespaces, and go with the SharedSecret. A Secret that
belongs to others is never changed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Any

from msgspec import Meta, field

import kubecontroller as kc
from kubecontroller.client.objects import NAMESPACES, SECRETS, Secret

SHARED, COPY = "example.dev/shared=true", "example.dev/copy=true"
Name = Annotated[str, Meta(min_length=1, max_length=253)]


class Source(kc.Part, frozen=True):
    """Which Secret is shared."""

    namespace: Name
    name: Name


class Spec(kc.Part, frozen=True):
    """What is shared, and with which namespaces."""

    source: Source
    namespaces: Annotated[dict[str, str], Meta(description="Labels that namespaces must have.")] = (
        field(default_factory=dict)
    )


class Status(kc.Part, frozen=True):
    """How many copies there are, and what is wrong."""

    copies: int = 0
    conditions: tuple[kc.Condition, ...] = ()


class SharedSecret(kc.Projected, frozen=True):
    """A Secret that is copied into other namespaces."""

    spec: Spec
    status: Status = Status()


SHARED_SECRETS = kc.Kind("example.dev", "v1", "SharedSecret", "sharedsecrets", False, SharedSecret)
DEFINITION = SHARED_SECRETS.definition(
    short_names=["shs"],
    columns=[
        kc.Column("Source", ".spec.source.name"),
        kc.Column("Copies", ".status.copies", "integer"),
        kc.Column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
        kc.Column("Message", '.status.conditions[?(@.type=="Ready")].message', wide="Why"),
    ],
)


class Sharing:
    """The controller: reads from caches, writes what differs."""

    def __init__(self, manager: kc.Manager) -> None:
        self.client, self.recorder = manager.client, manager.recorder
        self.shared = manager.caches(SHARED_SECRETS)
        self.sources = manager.caches(SECRETS, labels=SHARED)
        self.copies = manager.caches(SECRETS, labels=COPY)
        self.namespaces = manager.caches(NAMESPACES)
        builder = kc.ControllerBuilder(manager, "sharedsecret", self.shared).owns(self.copies)
        builder.watches(self.sources, kc.mapped(self.sharing))
        builder.watches(self.namespaces, kc.mapped(lambda _: [s.metadata.key for s in self.shared]))
        self.applier = builder.applier()
        builder.add(self.reconcile, workers=4)

    def sharing(self, secret: Secret) -> Iterable[kc.Key]:
        """Return the SharedSecrets that share a Secret."""
        key = secret.metadata.key
        return [s.metadata.key for s in self.shared if key == _source(s)]

    async def reconcile(self, key: kc.Key) -> kc.Outcome:
        """Bring the copies of one SharedSecret to where they should be, and report."""
        shared = self.shared.get(key)
        if shared is None or shared.metadata.is_deleting:
            return kc.Done()  # its copies are collected with it
        source = self.sources.get(_source(shared))
        if source is None:  # it may come back: copies stay
            text = f"Secret {'/'.join(_source(shared))} does not exist or has no label {SHARED}"
            await self.report(shared, "SourceMissing", text)
            return kc.Done()
        wanted = self.selected(shared)
        taken = []
        for namespace in wanted:
            try:
                await self.copy(shared, source, namespace)
            except kc.NotOwned as error:
                taken.append(str(error))
        for copy in self.copies.find("owner", shared.metadata.uid):
            if copy.metadata.namespace not in wanted and not copy.metadata.is_deleting:
                await self.client.delete(SECRETS, copy.metadata.key, uid=copy.metadata.uid)
        await self.report(
            shared, "NameTaken" if taken else "Copied", "; ".join(taken), len(wanted) - len(taken)
        )
        return kc.Done()

    def selected(self, shared: SharedSecret) -> list[str]:
        """Return the namespaces that get a copy."""
        labels = shared.spec.namespaces.items()
        return sorted(
            found.metadata.name
            for found in self.namespaces
            if labels <= (found.metadata.labels or {}).items()
            and found.metadata.name != shared.spec.source.namespace
            and not found.metadata.is_deleting
        )

    async def copy(self, shared: SharedSecret, source: Secret, namespace: str) -> None:
        """Make one copy what the source is; nothing is sent when it is so already."""
        name, _, value = COPY.partition("=")
        key = (namespace, source.metadata.name)
        child = {
            "metadata": {"namespace": namespace, "name": key[1], "labels": {name: value}},
            "type": source.type,
            "data": dict(source.data or {}),
        }
        await self.applier.apply_owned(
            SECRETS,
            child,
            owner_kind=SHARED_SECRETS,
            owner=shared,
            observed=self.copies.get(key),
        )

    async def report(
        self, shared: SharedSecret, reason: str, text: str, copies: int | None = None
    ) -> None:
        """Write the status if it changed, and an event when it begins to be wrong."""
        is_ready = reason == "Copied"
        before = shared.status.conditions
        ready = kc.Condition(
            type="Ready",
            status="True" if is_ready else "False",
            reason=reason,
            message=text or "every namespace has its copy",
            observed_generation=shared.metadata.generation,
        )
        conditions = kc.with_condition(before, ready, datetime.now(UTC).replace(microsecond=0))
        status = Status(
            copies=shared.status.copies if copies is None else copies, conditions=tuple(conditions)
        )
        written = await self.applier.apply_status(
            SHARED_SECRETS, shared.metadata.key, status, observed=shared.status
        )
        if written is not None and not is_ready and [c.reason for c in before] != [reason]:
            self.recorder.warning(kc.Regarding.of(SHARED_SECRETS, shared), reason, text)


def _source(shared: SharedSecret) -> kc.Key:
    return (shared.spec.source.namespace, shared.spec.source.name)


async def main(**options: Any) -> None:
    """Install the kind, then share until stopped."""
    manager = kc.Manager.connected(kc.load(), name="shared-secrets", **options)
    await kc.install_definitions(manager.unfenced_client, DEFINITION)
    Sharing(manager)
    await manager.run()


if __name__ == "__main__":
    kc.set_up()
    sys.exit(kc.run_process(main))
