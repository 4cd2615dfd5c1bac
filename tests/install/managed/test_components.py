"""Parts of an installation switched off and on by its `RedisOperator`: pruned, made, told of."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from install.managed.test_managed import PLACE, Managed, managed
from install.monitoring.test_monitoring import ALL, monitored, serve_monitoring
from install.test_installer import CLUSTER_ROLES
from kubecontroller.client.errors import NotFound
from kubecontroller.client.meta import Manifest
from kubecontroller.client.objects import DEPLOYMENTS, NETWORK_POLICIES, ROLES, SECRETS, SERVICES
from redis_operator.api.webhooks import SECRET, SERVICE
from redis_operator.install.waiting import WEBHOOK_CONFIGURATIONS

OFF = {"admission": {"enabled": False}, "monitoring": {"enabled": False}}
OF_ADMISSION: tuple[tuple[Any, tuple[str, str]], ...] = (
    (WEBHOOK_CONFIGURATIONS, ("", "redis-operator")),
    (SERVICES.plain(), ("redis-operator", SERVICE)),
    (ROLES.plain(), ("redis-operator", "redis-operator-certificate")),
    (SECRETS.plain(), ("redis-operator", SECRET)),
)


def parts(status: Manifest) -> dict[str, Manifest]:
    return {one["name"]: one for one in status["components"]}


async def admission(one: Managed) -> list[str]:
    """Return what there is of admission."""
    found = []
    for kind, key in OF_ADMISSION:
        try:
            await one.cluster.client.get(kind, key)
        except NotFound:
            continue
        found.append(kind.kind)
    return found


async def container(one: Managed) -> Manifest:
    found = await one.cluster.client.get(DEPLOYMENTS.plain(), PLACE)
    return dict(found["spec"]["template"]["spec"]["containers"][0])


async def test_switched_off_and_on_again_while_a_database_is_left_alone() -> None:
    async with managed() as one:
        await serve_monitoring(one.cluster)
        one.start()
        await one.say(image="redis-operator:1")
        status = await one.until("Deployed")
        await one.cluster.create_database("cache")
        before = await one.cluster.databases()
        assert len(await admission(one)) == len(OF_ADMISSION)
        assert await monitored(one.cluster) == ALL
        assert parts(status)["admission"]["ready"] == "6/6"
        assert parts(status)["monitoring"]["ready"] == "4/4"
        for part in parts(status).values():
            assert part["targetVersion"] == part["observedVersion"] == "1"
        await one.say(image="redis-operator:1", components=OFF)
        status = await one.until("Deployed")
        assert await admission(one) == []
        assert await monitored(one.cluster) == []
        assert "--webhook-port" not in (await container(one))["args"]
        for name in ("admission", "monitoring"):
            assert parts(status)[name] == {
                "name": name,
                "enabled": False,
                "message": f"switched off by spec.components.{name}.enabled",
            }
        await one.say(image="redis-operator:1")
        status = await one.until("Deployed")
        assert len(await admission(one)) == len(OF_ADMISSION)
        assert await monitored(one.cluster) == ALL
        assert "--webhook-port" in (await container(one))["args"]
        assert await one.cluster.databases() == before


async def test_kinds_that_the_cluster_does_not_serve_are_told_and_taken_up_when_it_does() -> None:
    async with managed() as one:
        one.start()
        await one.say(image="redis-operator:1")
        status = await one.until("Deployed")
        part = parts(status)["monitoring"]
        assert part["ready"] == "1/1"
        assert part["message"] == "this cluster does not serve PrometheusRule, ServiceMonitor"
        await serve_monitoring(one.cluster)
        await asyncio.sleep(130.0)
        assert await monitored(one.cluster) == ALL
        assert parts(await one.status())["monitoring"]["ready"] == "4/4"


async def test_an_object_that_somebody_deleted_comes_back() -> None:
    async with managed() as one:
        one.start()
        await one.say(image="redis-operator:1")
        await one.until("Deployed")
        await one.cluster.client.delete(*OF_ADMISSION[1])
        await asyncio.sleep(130.0)
        assert len(await admission(one)) == len(OF_ADMISSION)


async def test_an_update_tells_of_each_part() -> None:
    async with managed() as one:
        one.start()
        await one.say(image="redis-operator:1")
        await one.until("Deployed")
        await one.say(image="redis-operator:missing")
        status = await one.until("Updating", says="ImagePullBackOff")
        assert parts(status)["admission"]["observedVersion"] == "1"
        await one.say(image="redis-operator:2")
        status = await one.until("Deployed")
        for part in parts(status).values():
            assert part["targetVersion"] == part["observedVersion"] == "2"


async def test_metrics_are_secured_and_open_again_as_the_spec_says() -> None:
    reviews = ("", "redis-operator-metrics-reviews")
    async with managed() as one:
        one.start()
        chosen = {"monitoring": {"secured": True}}
        await one.say(image="redis-operator:1", components=chosen)
        await one.until("Deployed")
        made = await one.cluster.client.get(DEPLOYMENTS.plain(), PLACE)
        [container] = made["spec"]["template"]["spec"]["containers"]
        assert "--secured-metrics-port" in container["args"]
        assert await one.cluster.client.get(CLUSTER_ROLES, reviews)
        await one.say(image="redis-operator:1", components={})
        await one.until("Deployed")
        made = await one.cluster.client.get(DEPLOYMENTS.plain(), PLACE)
        [container] = made["spec"]["template"]["spec"]["containers"]
        assert "--secured-metrics-port" not in container["args"]
        with pytest.raises(NotFound):
            await one.cluster.client.get(CLUSTER_ROLES, reviews)


async def test_who_may_scrape_is_as_the_spec_says() -> None:
    async with managed() as one:
        one.start()
        chosen = {"monitoring": {"scrapeNamespaces": ["prom"], "labels": {"release": "x"}}}
        await one.say(image="redis-operator:1", components=chosen)
        await one.until("Deployed")
        policy = await one.cluster.client.get(NETWORK_POLICIES.plain(), PLACE)
        [figures, _] = policy["spec"]["ingress"]
        named = [
            rule["values"]
            for peer in figures["from"]
            for rule in peer.get("namespaceSelector", {}).get("matchExpressions", ())
        ]
        assert named == [["prom"]]
        assert len(await admission(one)) == len(OF_ADMISSION), "what is not named stays on"
