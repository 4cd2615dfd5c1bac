"""Admission with a certificate that an issuer makes: what cert-manager does is done by the test."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import pytest

from e2e.harness import Cluster, until
from e2e.install.conftest import Person
from e2e.install.test_admission import asking, bundles, is_judged
from kubecontroller.client.api import Client
from kubecontroller.client.errors import ApiError, NotFound
from kubecontroller.client.objects import CUSTOM_RESOURCE_DEFINITIONS, PODS, SECRETS
from kubecontroller.client.patches import MergePatch
from kubecontroller.runtime.certificates import Material, renewed
from redis_operator.api.webhooks import CONFIGURATION, ISSUED_SECRET, SECRET
from redis_operator.install.waiting import CERTIFICATES, WEBHOOK_CONFIGURATIONS
from support.small_cluster import certificate_definition

pytestmark = pytest.mark.e2e
HOME = "redis-operator"


class Issuer:
    """Does what cert-manager and its injector do for every Certificate."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._material: Material | None = None
        self.bundle = b""

    async def run(self) -> None:
        while True:
            with suppress(ApiError):
                for made in (await self._client.list(CERTIFICATES)).items:
                    await self._serve(made)
            await asyncio.sleep(0.2)

    def renew(self) -> bytes:
        """Issue another certificate, of another authority; both authorities are trusted."""
        old, self._material = self._material, None
        self._issue(("redis-operator-webhook.redis-operator.svc",))
        assert old is not None
        assert self._material is not None
        self.bundle = self._material.authorities + old.authorities
        return self._material.certificate

    def _issue(self, names: tuple[str, ...]) -> Material:
        if self._material is None:
            made = renewed(None, names=names, now=datetime.now(UTC))
            assert made is not None
            self._material = made[0]
            self.bundle = self._material.authorities
        return self._material

    async def _serve(self, made: dict[str, Any]) -> None:
        meta, spec = made["metadata"], made["spec"]
        material = self._issue(tuple(spec["dnsNames"]))
        bundle = base64.b64encode(self.bundle).decode()
        await self._inject("{namespace}/{name}".format(**meta), bundle)
        data = {"tls.crt": material.certificate, "tls.key": material.key}
        encoded = {name: base64.b64encode(value).decode() for name, value in data.items()}
        secret = {
            "metadata": {
                "namespace": meta["namespace"],
                "name": spec["secretName"],
                "labels": spec["secretTemplate"]["labels"],
            },
            "type": "kubernetes.io/tls",
            "data": {**encoded, "ca.crt": bundle},
        }
        await self._client.apply(SECRETS.plain(), secret, manager="cert-manager")
        ready = {"type": "Ready", "status": "True", "observedGeneration": meta["generation"]}
        change = MergePatch({"status": {"conditions": [ready]}})
        key = (meta["namespace"], meta["name"])
        await self._client.patch(CERTIFICATES, key, change, subresource="status")

    async def _inject(self, source: str, bundle: str) -> None:
        for found in (await self._client.list(WEBHOOK_CONFIGURATIONS)).items:
            notes = found["metadata"].get("annotations") or {}
            if notes.get("cert-manager.io/inject-ca-from") != source:
                continue
            if {hook["clientConfig"].get("caBundle") for hook in found["webhooks"]} != {bundle}:
                for hook in found["webhooks"]:
                    hook["clientConfig"]["caBundle"] = bundle
                await self._client.replace(WEBHOOK_CONFIGURATIONS, found)


@asynccontextmanager
async def issuing(cluster: Cluster) -> AsyncIterator[Issuer]:
    client = cluster.client()
    definition = certificate_definition()
    await client.apply(CUSTOM_RESOURCE_DEFINITIONS.plain(), definition)
    issuer = Issuer(client)
    task = asyncio.create_task(issuer.run())
    try:
        yield issuer
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        key = ("", definition["metadata"]["name"])
        await client.delete(CUSTOM_RESOURCE_DEFINITIONS, key)
        await client.close()


async def test_a_certificate_of_an_issuer_is_served_and_renewed_without_a_restart_under_load(
    cluster: Cluster, person: Person, namespace: str
) -> None:
    client = cluster.client()
    async with issuing(cluster) as issuer:
        words = ("--image", person.images[0], "--certificate-issuer", "ClusterIssuer/internal")
        await person.run("install", *words, *person.scope(namespace))
        await until(lambda: is_judged(client, namespace), seconds=20, what="admission")
        with pytest.raises(NotFound):
            await client.get(SECRETS, (HOME, SECRET))
        pods = {p.metadata.uid for p in (await client.list(PODS, namespace=HOME)).items}
        async with asking(client, namespace) as answers:
            issuer.renew()
            wanted = base64.b64encode(issuer.bundle).decode()

            async def injected() -> bool:
                return await bundles(client) == {wanted}

            await until(injected, seconds=20, what="the CA of the renewed certificate")
            before = len(answers)

            async def asked() -> bool:
                return len(answers) > before + 30

            await until(asked, seconds=60, what="questions over the renewed certificate")
            assert answers.count(False) == 0, f"{answers.count(False)} of {len(answers)}"
        # The old authority goes: only who serves the renewed certificate is trusted any longer.
        issuer.bundle = issuer.bundle[: issuer.bundle.index(b"-----END") + 26]
        last = base64.b64encode(issuer.bundle).decode()

        async def narrowed() -> bool:
            return await bundles(client) == {last}

        await until(narrowed, seconds=20, what="the old authority to go")
        for _ in range(20):  # every replica is asked now and then
            assert await is_judged(client, namespace)
        assert {p.metadata.uid for p in (await client.list(PODS, namespace=HOME)).items} == pods

        await person.run("upgrade", "--image", person.images[0], "--certificate-issuer", "own")
        await until(lambda: is_judged(client, namespace), seconds=20, what="admission of our own")
        found = await client.get(WEBHOOK_CONFIGURATIONS, ("", CONFIGURATION))
        assert not found["metadata"].get("annotations")
        with pytest.raises(NotFound):
            await client.get(SECRETS, (HOME, ISSUED_SECRET))
    await client.close()
