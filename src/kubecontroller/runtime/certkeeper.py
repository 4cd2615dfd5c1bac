"""Manages the webhook certificate: in a Secret that all replicas share, in the live TLS context,
and in the configurations through which the API server trusts it.

Guarantees: replicas that start together agree on one Secret (created or changed under an
optimistic lock; the loser reads again), and each learns of another's change by a watch. A new
certificate is served without closing a connection or restarting. The process is not ready before
its certificate is loaded and every target that exists has the CA bundle; a target that is created
later, or replaced without it, gets it. A Secret that is deleted or damaged is restored without a
moment in which the served certificate is not trusted.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from kubecontroller.client.api import Client
from kubecontroller.client.errors import AlreadyExists, Conflict, KubeError, NotFound
from kubecontroller.client.meta import Key, Manifest
from kubecontroller.client.scheme import Kind
from kubecontroller.runtime.certificates import Material, next_check, renewed
from kubecontroller.runtime.changes import Change, Deleted, Updated
from kubecontroller.runtime.informer import Informer
from kubecontroller.runtime.logs import fields
from kubecontroller.runtime.tlscontext import decoded, load_pair

__all__ = ["CertificateKeeper", "Target", "conversion_target", "webhook_target"]

_log = logging.getLogger(__name__)

SECRETS: Kind[Manifest] = Kind("", "v1", "Secret", "secrets", True, dict)
_TRIES = 5
_CHECK_SECONDS = 600.0  # at the latest: clocks jump, machines sleep, watches may be forbidden
_UNWATCHED_SECONDS = 60.0  # while the Secret cannot be watched
_RETRY_SECONDS = 5.0
_SPREAD = 0.1


class Target(Struct, frozen=True):
    """A configuration that carries the CA bundle, and the apply that puts it there."""

    kind: Kind[Any]
    name: str
    intent: Callable[[str], Manifest]


def webhook_target(kind: Kind[Any], name: str, webhooks: Sequence[str]) -> Target:
    """Return the target for a Validating- or MutatingWebhookConfiguration and its webhooks."""

    def intent(bundle: str) -> Manifest:
        entries = [{"name": one, "clientConfig": {"caBundle": bundle}} for one in webhooks]
        return {"metadata": {"name": name}, "webhooks": entries}

    return Target(kind, name, intent)


def conversion_target(kind: Kind[Any], name: str) -> Target:
    """Return the target for the conversion webhook of a CustomResourceDefinition."""

    def intent(bundle: str) -> Manifest:
        client = {"webhook": {"clientConfig": {"caBundle": bundle}}}
        return {"metadata": {"name": name}, "spec": {"conversion": client}}

    return Target(kind, name, intent)


class _Watched:
    """An informer, and whether it worked all the time since the last question."""

    def __init__(self, informer: Informer[Any]) -> None:
        self.informer = informer
        self._failures = 0

    def is_up_to_date(self) -> bool:
        failures, self._failures = self._failures, self.informer.failures
        return self.informer.has_synced and self.informer.failures == failures


class CertificateKeeper:
    """Keeps a certificate current. `context` is the TLS context to serve with; changed in place."""

    def __init__(
        self,
        client: Client,
        *,
        secret: Key,
        names: Sequence[str],
        labels: Mapping[str, str] | None = None,
        targets: Sequence[Target] = (),
        random: Callable[[], float],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        on_renewed: Callable[[str], object] = lambda _: None,
    ) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._client = client
        self._secret = secret
        self._names = tuple(names)
        self._labels = dict(labels or {})
        self._targets = tuple(targets)
        self._random = random
        self._now = now
        self._on_renewed = on_renewed
        self._was_ready = False
        self._loaded: Material | None = None
        self._wanted: bytes = b""  # the bundle that was written last, or is being written
        self._injected: bytes = b""  # the same once every target has it
        self._removals = 0

    def limitation(self) -> str | None:
        """Return why webhooks cannot be served yet, or nothing.

        A process that was ready stays ready: the loaded certificate is served until it is renewed.
        """
        if self._loaded is None:
            return "no certificate is loaded yet"
        if not self._was_ready and self._targets and self._injected != self._loaded.authorities:
            return "the CA bundle is not in every configuration yet"
        return None

    async def begin(self) -> None:
        """Refresh once if possible; if not, `run` retries and the start continues."""
        try:
            await self.refresh()
        except (KubeError, OSError) as error:
            _log.warning("no certificate yet", extra=fields(error=error))

    async def refresh(self) -> Material:
        """Read, renew if due, load and inject; return the material that is served now."""
        material = await self._agree()
        if material != self._loaded:
            # in the loop, where handshakes read the same context
            load_pair(self.context, material.certificate, material.key)
            self._loaded = material
            _log.info("certificate loaded", extra=fields(secret="/".join(self._secret)))
        if self._injected != material.authorities:
            removals, self._wanted = self._removals, material.authorities
            await self._inject(material.authorities)
            if removals == self._removals:  # else again: a target lost it in the meantime
                self._injected = material.authorities
        self._was_ready = self._was_ready or self._injected == material.authorities
        return material

    async def run(self) -> None:
        """Refresh for ever: when the Secret or a target changes, and when a renewal is due."""
        namespace, name = self._secret
        changed = asyncio.Event()
        secret = Informer(
            self._client, SECRETS, namespace=namespace, fields=f"metadata.name={name}"
        )
        secret.subscribe(lambda _: changed.set())
        watches = [_Watched(secret), *(self._watch(one, changed) for one in self._targets)]
        tasks = [asyncio.create_task(one.informer.run()) for one in watches]
        try:
            while not any(task.done() for task in tasks):
                changed.clear()
                blind = [not one.is_up_to_date() for one in watches]
                if any(blind[1:]):
                    self._injected = b""  # no watch shows whether it is there: write it
                wait = await self._refresh_and_wait(
                    _UNWATCHED_SECONDS if any(blind) else _CHECK_SECONDS
                )
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait * (1.0 + _SPREAD * self._random())):
                        await changed.wait()
            # None of the tasks ends by itself: errors are raised here.
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _watch(self, target: Target, changed: asyncio.Event) -> _Watched:
        """Detect when a configuration no longer has the CA bundle."""

        def on_change(change: Change[Any]) -> None:
            if not self._wanted:
                return
            bundle = b64encode(self._wanted).decode()
            live = None if isinstance(change, Deleted) else _newest(change)
            if live is None or not _has(live, target.intent(bundle)):
                self._injected = b""
                self._removals += 1
                changed.set()

        informer = Informer(
            self._client, target.kind.plain(), fields=f"metadata.name={target.name}"
        )
        informer.subscribe(on_change)
        return _Watched(informer)

    async def _refresh_and_wait(self, longest: float) -> float:
        """Refresh, and return after how many seconds to check again without a change."""
        try:
            material = await self.refresh()
        except (KubeError, OSError) as error:
            _log.warning("certificate not refreshed", extra=fields(error=error))
            return _RETRY_SECONDS
        due = next_check(material, now=self._now()).total_seconds()
        return max(min(due, longest), 1.0)

    async def _agree(self) -> Material:
        for _ in range(_TRIES):
            try:
                live: Manifest | None = await self._client.get(SECRETS, self._secret)
            except NotFound:
                live = None
            material = Material.from_secret(decoded(live)) if live is not None else None
            change = renewed(material, names=self._names, now=self._now(), served=self._loaded)
            if change is None:
                assert material is not None
                return material
            wanted, reason = change
            try:
                await self._write(live, wanted)
            except (AlreadyExists, Conflict):
                continue  # another replica was first: use its material
            _log.info("certificate renewed", extra=fields(reason=reason))
            self._on_renewed(reason)
            return wanted
        raise Conflict(
            "the certificate could not be written: other clients keep changing it",
            status=409,
            reason="Conflict",
            ref=f"Secret {'/'.join(self._secret)}",
        )

    async def _write(self, live: Manifest | None, material: Material) -> None:
        data = {name: b64encode(value).decode() for name, value in material.to_secret().items()}
        if live is None:
            metadata: Manifest = {"namespace": self._secret[0], "name": self._secret[1]}
            metadata |= {"labels": self._labels} if self._labels else {}
            body = {"metadata": metadata, "type": "kubernetes.io/tls", "data": data}
            await self._client.create(SECRETS, body)
            return
        await self._client.replace(SECRETS, {**live, "data": {**(live.get("data") or {}), **data}})

    async def _inject(self, authorities: bytes) -> None:
        bundle = b64encode(authorities).decode()
        manager = f"{self._client.field_manager}-ca"
        for target in self._targets:
            try:
                live = await self._client.get(target.kind.plain(), ("", target.name))
            except NotFound:
                continue  # it gets the bundle when it is created: the watch reports it
            if not _has(live, target.intent(bundle)):
                await self._client.apply(target.kind, target.intent(bundle), manager=manager)


def _newest(change: Change[Any]) -> Manifest:
    found: Manifest = change.new if isinstance(change, Updated) else change.obj
    return found


def _has(live: Any, wanted: Any) -> bool:
    """Return whether an object has all fields of an apply; entries of lists have names."""
    if isinstance(wanted, dict):
        return isinstance(live, dict) and all(_has(live.get(k), v) for k, v in wanted.items())
    if isinstance(wanted, list):
        named = {one.get("name"): one for one in live or () if isinstance(one, dict)}
        return all(_has(named.get(one["name"]), one) for one in wanted)
    return bool(live == wanted)
