"""Admission as a replica serves it: over TLS, from its caches, to a real API server's questions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from kubecontroller.client.api import Client
from kubecontroller.client.errors import KubeError
from kubecontroller.client.objects import CUSTOM_RESOURCE_DEFINITIONS, SECRETS, SERVICES
from kubecontroller.runtime.manager import Manager
from kubecontroller.runtime.webhook import AdmissionRequest, Allowed, Denied
from kubelocal.apiserver.inprocess import InProcessTransport
from kubelocal.apiserver.server import ApiServer
from kubelocal.apiserver.storage.store import Store
from redis_operator.api.crd import crds
from redis_operator.api.webhooks import SECRET, WEBHOOKS
from redis_operator.operator.admission.webhooks import NotSynced, Reviews, add_admission
from redis_operator.operator.settings import Settings
from redis_operator.operator.world import REDIS_FAILOVERS, REDIS_VERSIONS, REDISES, World

SPEC = {"mode": "Standalone", "resources": {"limits": {"memory": "256Mi"}}, "replicas": 0}
KEPT = {"storage": {"size": "1Gi"}, "durability": {"persistence": "aof"}}


def review(operation: str, raw: dict[str, Any], old: dict[str, Any] | None = None) -> Any:
    meta = raw["metadata"]
    return AdmissionRequest(
        uid="1",
        operation=operation,
        name=meta["name"],
        namespace=meta.get("namespace", ""),
        object=None if operation == "DELETE" else raw,
        old_object=raw if operation == "DELETE" else old,
    )


def redis(name: str = "cache", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {**SPEC, **KEPT, **spec}}


class Room:
    def __init__(self) -> None:
        self.server = ApiServer(Store(), clock=lambda: datetime.now(UTC))
        self.client = Client(InProcessTransport(self.server), field_manager="person")
        self.manager = Manager(Client(InProcessTransport(self.server), field_manager="operator"))
        self.world = World(self.manager, ())
        self.reviews = Reviews(self.world, self.manager.unfenced_client)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0.05)


@asynccontextmanager
async def room() -> AsyncIterator[Room]:
    made = Room()
    for definition in crds().values():
        await made.client.apply(CUSTOM_RESOURCE_DEFINITIONS.plain(), definition)
    task = asyncio.create_task(made.manager.run())
    await until(lambda: made.manager.limitation() is None)
    try:
        yield made
    finally:
        made.manager.request_stop()
        await task


async def test_a_database_is_refused_with_every_bad_field_for_people_and_programs() -> None:
    async with room() as here:
        asked = redis(
            version="9.1", config={"no-such-thing": "1"}, resources={"limits": {"memory": "1Mi"}}
        )
        answer = await here.reviews.redis(review("CREATE", asked))
        assert isinstance(answer, Denied)
        assert [cause.field for cause in answer.causes] == [
            "spec.config.no-such-thing",
            "spec.resources.limits.memory",
        ]
        assert answer.code == 422
        assert "spec.config.no-such-thing: is not a directive of valkey" in answer.reason
        assert await here.reviews.redis(review("CREATE", redis())) == Allowed()


async def test_a_database_whose_objects_would_be_others_is_refused_and_names_whose() -> None:
    async with room() as here:
        theirs = {"metadata": {"name": "cache", "namespace": "default"}}
        ports = {"spec": {"ports": [{"port": 80}]}}
        await here.client.create(SERVICES, {**theirs, **ports})
        answer = await here.reviews.redis(review("CREATE", redis()))
        assert isinstance(answer, Denied)
        assert {cause.field for cause in answer.causes} == {"metadata.name"}
        assert "Service cache already exists and does not belong to this database" in answer.reason
        stored = await here.client.create(REDISES, redis())
        changed = {**stored, "spec": {**stored["spec"], "paused": True}}
        assert await here.reviews.redis(review("UPDATE", changed, stored)) == Allowed()


def left_by(kind: str, name: str) -> list[dict[str, Any]]:
    owner = {"apiVersion": "redisoperator.dev/v1", "kind": kind, "name": name, "uid": "gone"}
    return [{**owner, "controller": True}]


async def test_a_database_that_is_created_again_at_once_is_let_in() -> None:
    """What is left of the one before goes soon; the operator waits for it."""
    async with room() as here:
        meta = {"name": "cache", "namespace": "default"}
        ports = {"spec": {"ports": [{"port": 80}]}}
        owned = {**meta, "ownerReferences": left_by("Redis", "cache")}
        await here.client.create(SERVICES, {"metadata": owned, **ports})
        answer = await here.reviews.redis(review("CREATE", redis()))
        assert isinstance(answer, Allowed)
        assert any("Service cache" in text for text in answer.warnings)
        assert isinstance(await here.reviews.redis(review("CREATE", redis("other"))), Allowed)


async def test_a_redisfailover_that_is_created_again_at_once_is_let_in() -> None:
    async with room() as here:
        raw = redis("queue")
        raw["metadata"]["ownerReferences"] = left_by("RedisFailover", "queue")
        await here.client.create(REDISES, raw)
        await asyncio.sleep(0.5)
        again = {
            "metadata": {"name": "queue", "namespace": "default", "uid": "new"},
            "spec": {"redis": {"image": "valkey/valkey:8.1.1"}},
        }
        answer = await here.reviews.redis_failover(review("CREATE", again))
        assert isinstance(answer, Allowed), answer
        assert any("waits until it is gone" in text for text in answer.warnings)


async def test_names_that_cannot_be_looked_up_are_no_reason_to_refuse() -> None:
    async with room() as here:

        class Hanging:
            async def request(self, request: Any, *, timeout: float) -> Any:
                await asyncio.sleep(3600)

        here.reviews._client = Client(Hanging())  # type: ignore[arg-type]
        begun = asyncio.get_running_loop().time()
        assert await here.reviews.redis(review("CREATE", redis())) == Allowed()
        assert asyncio.get_running_loop().time() - begun < WEBHOOKS[0].timeout_seconds


async def test_a_version_in_use_is_kept_and_one_that_is_not_may_go() -> None:
    async with room() as here:
        spec = {"engine": "valkey", "version": "9.7", "image": "mine:9.7"}
        entry = await here.client.create(
            REDIS_VERSIONS, {"metadata": {"name": "mine"}, "spec": spec}
        )
        assert await here.reviews.redis_version(review("DELETE", entry)) == Allowed()
        await here.client.create(REDISES, redis(version="9.7"))
        await asyncio.sleep(0.5)
        answer = await here.reviews.redis_version(review("DELETE", entry))
        assert isinstance(answer, Denied)
        assert "RedisVersion mine: is in use by default/cache" in answer.reason


async def test_a_redisfailover_with_the_name_of_somebody_elses_database_is_refused() -> None:
    async with room() as here:
        await here.client.create(REDISES, redis("queue"))
        await asyncio.sleep(0.5)
        raw = {
            "apiVersion": REDIS_FAILOVERS.api_version,
            "kind": "RedisFailover",
            "metadata": {"name": "queue", "namespace": "default"},
            "spec": {"redis": {"image": "valkey/valkey:8.1.1"}},
        }
        answer = await here.reviews.redis_failover(review("CREATE", raw))
        assert isinstance(answer, Denied)
        assert "metadata.name: Redis queue already exists and does not belong" in answer.reason


async def test_who_has_not_filled_its_caches_does_not_guess() -> None:
    here = Room()
    by_themselves = {"redisbackupschedules"}  # judged by what they say alone
    for hook in WEBHOOKS:
        if hook.resource in by_themselves:
            continue
        with pytest.raises(NotSynced):
            await here.reviews.of(hook.resource)(review("UPDATE", redis()))


@pytest.mark.slow
@pytest.mark.parametrize("trouble", ["no rights", "API server away for Secrets"])
async def test_an_operator_without_a_certificate_does_all_else(trouble: str) -> None:
    """Databases are looked after though admission cannot be served."""
    server = ApiServer(Store(), clock=lambda: datetime.now(UTC))
    whole = InProcessTransport(server)
    client = Client(whole, field_manager="person")
    for definition in crds().values():
        await client.apply(CUSTOM_RESOURCE_DEFINITIONS.plain(), definition)

    class NoSecrets:
        refused = True

        async def request(self, request: Any, *, timeout: float) -> Any:
            if self.refused and f"/secrets/{SECRET}" in request.path:
                raise KubeError(trouble)
            return await whole.request(request, timeout=timeout)

        def stream(self, request: Any, *, idle: float) -> Any:
            return whole.stream(request, idle=idle)

        async def close(self) -> None: ...

    transport = NoSecrets()
    manager = Manager(Client(transport, field_manager="operator"))
    settings = Settings(namespace="default", webhook_host="127.0.0.1")
    keeper, _ = add_admission(manager, settings, World(manager, ()))
    led = asyncio.Event()

    async def leads() -> None:
        led.set()
        await asyncio.Event().wait()

    manager.add_task("leads", leads, needs_leader=True)
    task = asyncio.create_task(manager.run())
    async with asyncio.timeout(30):
        await led.wait()
    assert keeper.limitation() == "no certificate is loaded yet"
    transport.refused = False
    await until(lambda: keeper.limitation() is None)
    assert (await client.get(SECRETS, ("default", SECRET))).data
    manager.request_stop()
    await task
