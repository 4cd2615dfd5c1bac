"""A `RedisOperator` beside others: a second one, and what other programs put at it."""

from __future__ import annotations

import asyncio

from install.managed.test_managed import KEY, PLACE, managed
from kubecontroller.client.objects import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    ROLE_BINDINGS,
    ROLES,
)
from kubecontroller.client.patches import MergePatch
from redis_operator.install.managed.lifecycle import InstallerLife
from redis_operator.install.managed.reconcile import REDIS_OPERATORS
from redis_operator.install.waiting import StageTimeout


async def test_a_second_one_is_not_followed_though_somebody_edited_the_definition() -> None:
    async with managed() as one:
        client = one.cluster.client
        one.start()
        await one.say(image="redis-operator:1")
        await one.until("Deployed")
        key = ("", "redisoperators.redisoperator.dev")
        found = await client.get(CUSTOM_RESOURCE_DEFINITIONS.plain(), key)
        del found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-validations"]
        await client.replace(CUSTOM_RESOURCE_DEFINITIONS.plain(), found)
        await asyncio.sleep(5.0)
        another = {"metadata": {"name": "another"}, "spec": {"image": "redis-operator:2"}}
        await client.create(REDIS_OPERATORS, another)
        await asyncio.sleep(120.0)
        found = await client.get(REDIS_OPERATORS, ("", "another"))
        assert found["status"]["phase"] == "Failed"
        assert "a cluster has one RedisOperator" in found["status"]["message"]
        before = await client.get(DEPLOYMENTS.plain(), PLACE)
        [container] = before["spec"]["template"]["spec"]["containers"]
        assert container["image"] == "redis-operator:1"
        await client.delete(REDIS_OPERATORS, ("", "another"))
        await asyncio.sleep(120.0)
        assert [raw["metadata"]["name"] for raw in (await client.list(REDIS_OPERATORS)).items] == [
            "redis-operator"
        ]
        after = await client.get(DEPLOYMENTS.plain(), PLACE)
        assert after["metadata"]["uid"] == before["metadata"]["uid"]


async def test_what_others_put_at_the_redisoperator_stays_when_the_command_removes_it() -> None:
    """A finalizer of another program, and a Deployment of that name that is not ours."""
    async with managed() as one:
        client = one.cluster.client
        theirs = "example.com/theirs"
        await one.say(image="redis-operator:1")
        finalizers = ["redisoperator.dev/installation", theirs]
        change = MergePatch({"metadata": {"finalizers": finalizers}})
        await client.patch(REDIS_OPERATORS, KEY, change)
        template = {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "one", "image": "program"}]},
        }
        spec = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}
        place = {"namespace": "redis-operator", "name": "redis-operator-installer"}
        await client.create(DEPLOYMENTS.plain(), {"metadata": place, "spec": spec})
        life = InstallerLife(client, tell=lambda _: None, patience=StageTimeout(60.0))
        await life.remove("redis-operator")
        await client.get(DEPLOYMENTS, ("redis-operator", "redis-operator-installer"))
        found = await client.get(REDIS_OPERATORS, KEY)
        assert found["metadata"]["finalizers"] == [theirs]
        assert found["metadata"]["deletionTimestamp"]


async def test_an_installer_keeps_its_own_rights_when_the_record_is_lost() -> None:
    async with managed() as one:
        client = one.cluster.client
        one.start()
        await one.say(image="redis-operator:1")
        await one.until("Deployed")
        await client.delete(CONFIG_MAPS, ("redis-operator", "redis-operator-installation"))
        await client.delete(REDIS_OPERATORS, KEY)
        await asyncio.sleep(60.0)
        assert (await client.list(REDIS_OPERATORS)).items == ()
        for kind in (ROLES, ROLE_BINDINGS):
            await client.get(kind, ("redis-operator", "redis-operator-installer"))
