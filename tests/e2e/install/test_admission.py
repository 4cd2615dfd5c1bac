"""The API server asks the operator before it stores our kinds: refused by field, or warned of."""

from __future__ import annotations

import asyncio
import base64
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml

from e2e.harness import Cluster, until
from e2e.install.conftest import Person
from kubecontroller.client.errors import ApiError, Invalid, NotFound
from kubecontroller.client.objects import LEASES, PODS, SECRETS
from kubecontroller.client.patches import MergePatch
from kubecontroller.runtime.certificates import Material, renewed
from redis_operator.api.webhooks import CONFIGURATION, SECRET, service_names
from redis_operator.install.waiting import WEBHOOK_CONFIGURATIONS
from redis_operator.operator.world import REDIS_VERSIONS, REDISES

pytestmark = pytest.mark.e2e
HOME = "redis-operator"
KEY = (HOME, SECRET)
SAFE = {"limits": {"memory": "128Mi"}}


def redis(namespace: str, name: str = "cache", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "redisoperator.dev/v1",
        "kind": "Redis",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"mode": "Standalone", "version": "9.1", "resources": SAFE, **spec},
    }


async def bundles(client: Any) -> set[str]:
    found = await client.get(WEBHOOK_CONFIGURATIONS, ("", CONFIGURATION))
    return {hook["clientConfig"].get("caBundle", "") for hook in found["webhooks"]}


async def is_judged(client: Any, namespace: str) -> bool:
    """Tell whether a bad database is refused by the operator; nothing is stored either way."""
    wrong = redis(namespace, "wrong", config={"no-such-thing": "1"})
    try:
        await client.create(REDISES, wrong, dry_run=True)
    except Invalid as error:
        return "spec.config.no-such-thing" in str(error)
    return False


@asynccontextmanager
async def asking(client: Any, namespace: str) -> AsyncIterator[list[bool]]:
    """Ask for something that must be refused, all the time; every answer that was a wrong one."""
    answers: list[bool] = []

    async def ask() -> None:
        while True:
            answers.append(await is_judged(client, namespace))

    tasks = [asyncio.create_task(ask()) for _ in range(3)]
    try:
        yield answers
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        failures = [r for r in results if isinstance(r, Exception)]
        assert failures == []


async def test_kubectl_is_refused_with_the_path_of_the_field_or_warned(
    cluster: Cluster, person: Person, namespace: str, tmp_path: Any
) -> None:
    await person.run("install", "--image", person.images[0], *person.scope(namespace))
    client = cluster.client()

    def apply(document: dict[str, Any], *words: str, check: bool = True) -> str:
        file = tmp_path / "object.yaml"
        file.write_text(yaml.safe_dump(document))
        return cluster.kubectl("apply", "-f", str(file), *words, check=check)

    for words in ((), ("--dry-run=server",)):
        said = apply(redis(namespace, config={"no-such-thing": "1"}), *words, check=False)
        assert 'The Redis "cache" is invalid: spec.config.no-such-thing: is not a' in said
    said = apply(redis(namespace, version="9.77"))
    assert "Warning: spec.version: no RedisVersion describes valkey 9.77" in said
    assert re.search(r"redis.redisoperator.dev/cache (configured|created)", said)

    entry = {"engine": "valkey", "version": "9.77", "image": "valkey:9.77"}
    await client.create(REDIS_VERSIONS, {"metadata": {"name": "ours"}, "spec": entry})

    async def held() -> bool:
        try:
            await client.delete(REDIS_VERSIONS, ("", "ours"), dry_run=True)
        except Invalid as error:
            return f"RedisVersion ours: is in use by {namespace}/cache" in str(error)
        return False

    await until(held, seconds=20, what="the version in use is not deleted")
    await client.delete(REDISES, (namespace, "cache"))

    async def free() -> bool:
        try:
            await client.delete(REDIS_VERSIONS, ("", "ours"))
        except (NotFound, Invalid) as error:
            return isinstance(error, NotFound)
        return False

    await until(free, seconds=60, what="the version that is not in use is deleted")
    await client.close()


async def test_certificates_change_under_load_and_no_question_goes_unanswered(
    cluster: Cluster, person: Person, namespace: str
) -> None:
    await person.run("install", "--image", person.images[0], *person.scope(namespace))
    client = cluster.client()
    await until(lambda: is_judged(client, namespace), seconds=20, what="admission")
    async with asking(client, namespace) as answers:
        # Another certificate of the same authority: the one that is there is near its end.
        found = (await client.get(SECRETS.plain(), KEY))["data"]
        before = Material.from_secret({k: base64.b64decode(v) for k, v in found.items()})
        assert before is not None
        names = service_names(HOME)
        early = datetime.now(UTC) - timedelta(days=300)
        [aged, _] = renewed(before, names=("other",), now=early) or (None, "")
        [aged, _] = renewed(aged, names=names, now=early) or (None, "")
        assert aged is not None
        data = {k: base64.b64encode(v).decode() for k, v in aged.to_secret().items()}
        await client.patch(SECRETS, KEY, MergePatch({"data": data}))

        async def reissued() -> bool:
            live = (await client.get(SECRETS.plain(), KEY))["data"]["tls.crt"]
            return live not in {data["tls.crt"], found["tls.crt"]}

        await until(reissued, seconds=20, what="a new certificate")
        await asyncio.sleep(2)

        # Another authority: the Secret is lost.
        old = await bundles(client)
        await client.delete(SECRETS, KEY)

        async def remade() -> bool:
            return len(await bundles(client)) == 1 and await bundles(client) != old

        await until(remade, seconds=20, what="a new authority in the bundle")
        await asyncio.sleep(2)
        count = len(answers)
        assert count > 20
        assert answers.count(False) == 0, f"{answers.count(False)} of {count} were not judged"
    whole = (await bundles(client)).pop()
    live = await client.get(WEBHOOK_CONFIGURATIONS, ("", CONFIGURATION))
    for hook in live["webhooks"]:
        del hook["clientConfig"]["caBundle"]
    await client.replace(WEBHOOK_CONFIGURATIONS, live)

    async def back() -> bool:
        return await bundles(client) == {whole}

    await until(back, seconds=20, what="the bundle to be put back")
    assert await is_judged(client, namespace)
    events = cluster.kubectl("get", "events", "-n", HOME)
    assert "CertificateRenewed" in events
    await client.close()


async def test_a_replica_that_goes_hands_over_in_a_second_and_admission_is_served_all_the_time(
    cluster: Cluster, person: Person, namespace: str
) -> None:
    await person.run("install", "--image", person.images[0], *person.scope(namespace))
    client = cluster.client()
    await until(lambda: is_judged(client, namespace), seconds=20, what="admission")

    async def holder() -> str:
        lease = await client.get(LEASES, (HOME, "redis-operator"))
        return lease.spec.holder_identity or ""

    async with asking(client, namespace) as answers:
        before = await holder()
        pod = before.rpartition("_")[0]
        begun = time.monotonic()
        await client.delete(PODS, (HOME, pod))

        async def another() -> bool:
            return await holder() not in {"", before}

        await until(another, seconds=30, what="another leader", every=0.02)
        took = time.monotonic() - begun
        await asyncio.sleep(8)
        assert answers.count(False) == 0, f"{answers.count(False)} of {len(answers)}"
    print(f"another replica leads {took:.2f} s after the deletion of the leader's pod")
    assert took < 5, "a machine of the tests is busy; the aim is 1 s: make bench PART=handover"
    await client.close()


async def test_databases_are_made_repaired_and_fail_over_while_admission_is_down(
    cluster: Cluster, person: Person, namespace: str, database: Any
) -> None:
    await person.run("install", "--image", person.images[0], *person.scope(namespace))
    client = cluster.client()
    await until(lambda: is_judged(client, namespace), seconds=20, what="admission")
    live = await client.get(WEBHOOK_CONFIGURATIONS, ("", CONFIGURATION))
    for hook in live["webhooks"]:
        hook["clientConfig"]["service"]["port"] = 1  # where nobody listens
    await client.replace(WEBHOOK_CONFIGURATIONS, live)
    assert not await is_judged(client, namespace), "it is down"
    cache = await database("cache")
    await cache.wait_ready(seconds=120)
    async with cache.under_load(writes_per_second=50) as application:
        await client.delete(PODS, (namespace, "cache-0-0"), grace_seconds=0)
        await asyncio.sleep(2)
        await cache.patch(config={"maxmemory-policy": "allkeys-lru"})
        await cache.wait_ready(seconds=120)
    assert await cache.check(application) == []
    spec = {"engine": "valkey", "version": "9.78", "image": "valkey:9.78"}
    await client.create(REDIS_VERSIONS, {"metadata": {"name": "ours"}, "spec": spec})
    with pytest.raises(ApiError, match="failed calling webhook"):
        await client.delete(REDIS_VERSIONS, ("", "ours"))
    said = await person.run("uninstall")
    assert "ValidatingWebhookConfiguration redis-operator: deleted" in said
    await client.delete(REDIS_VERSIONS, ("", "ours"))
    with pytest.raises(NotFound):
        await client.get(SECRETS, KEY)
    await client.close()
