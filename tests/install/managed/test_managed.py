"""What a `RedisOperator` says is carried out: installed, updated, put right, refused, removed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from install.test_installer import CLUSTER_ROLES
from kubecontroller.client.api import Client
from kubecontroller.client.errors import Invalid, NotFound
from kubecontroller.client.meta import Manifest
from kubecontroller.client.objects import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    PODS,
)
from kubecontroller.client.patches import MergePatch
from kubecontroller.client.request import Request, Response
from kubecontroller.runtime.manager import Manager
from kubecontroller.testing.faults import FaultyTransport, NoFaults, Plan
from kubelocal.apiserver.calls import User
from kubelocal.apiserver.inprocess import InProcessTransport
from redis_operator.api.redisoperator import RedisOperator
from redis_operator.cli.install import install
from redis_operator.install.installer import InstallError, kind_of
from redis_operator.install.inventory import item_of
from redis_operator.install.managed.choices import load_redisoperator, options_of
from redis_operator.install.managed.lifecycle import InstallerLife
from redis_operator.install.managed.main import add_installations
from redis_operator.install.managed.objects import installer_objects
from redis_operator.install.managed.reconcile import REDIS_OPERATORS
from redis_operator.install.options import Options
from redis_operator.install.waiting import StageTimeout
from support.small_cluster import SmallCluster, Snapshot, small_cluster

KEY = ("", "redis-operator")
PLACE = ("redis-operator", "redis-operator")
ACCOUNT = User(
    name="system:serviceaccount:redis-operator:redis-operator-installer",
    groups=("system:serviceaccounts", "system:authenticated"),
)


class _Noting:
    """Passes everything on, and notes what is written."""

    def __init__(self, below: FaultyTransport, written: list[str]) -> None:
        self._below = below
        self._written = written
        self.stream = below.stream
        self.close = below.close

    async def request(self, request: Request, *, timeout: float) -> Response:
        if request.method != "GET":
            self._written.append(request.path)
        return await self._below.request(request, timeout=timeout)


class Managed:
    """A cluster with the installer's own objects, and an installer that may be killed."""

    def __init__(self, cluster: SmallCluster) -> None:
        self.cluster = cluster
        self.written: list[str] = []
        self._task: asyncio.Task[None] | None = None

    async def prepare(self) -> None:
        for document in installer_objects(Options(image="redis-operator:1")):
            if document["kind"] != "Deployment":  # its pods are what this test plays
                await self.cluster.client.apply(kind_of(item_of(document)), document)
        await asyncio.sleep(1.0)

    def start(self, plan: Plan | None = None) -> FaultyTransport:
        own = InProcessTransport(self.cluster.server, user=ACCOUNT)
        transport = FaultyTransport(own, plan or NoFaults())
        client = Client(_Noting(transport, self.written), field_manager="redis-operator-install")
        manager = Manager(client, name="installer")
        add_installations(manager, "redis-operator", clock=lambda: self.cluster.now().timestamp())
        self._task = asyncio.create_task(manager.run())
        return transport

    async def kill(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def say(self, **spec: Any) -> None:
        document = {"metadata": {"name": "redis-operator"}, "spec": spec}
        await self.cluster.client.apply(REDIS_OPERATORS, document)

    async def status(self) -> Manifest:
        found = await self.cluster.client.get(REDIS_OPERATORS, KEY)
        return dict(found.get("status") or {})

    async def until(self, phase: str, *, says: str = "", seconds: float = 120.0) -> Manifest:
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while True:
            found = await self.cluster.client.get(REDIS_OPERATORS, KEY)
            status = found.get("status") or {}
            current = status.get("observedGeneration") == found["metadata"]["generation"]
            if current and status.get("phase") == phase and says in status.get("message", ""):
                return dict(status)
            assert loop.time() < end, status
            await asyncio.sleep(0.5)


@asynccontextmanager
async def managed(before: Snapshot | None = None) -> AsyncIterator[Managed]:
    async with small_cluster(before) as cluster:
        made = Managed(cluster)
        if before is None:
            await made.prepare()
        try:
            yield made
        finally:
            await made.kill()


async def test_installed_updated_and_back_by_what_each_version_says_of_itself() -> None:
    async with managed() as one:
        one.start()
        await one.say(image="redis-operator:1")
        status = await one.until("Deployed")
        assert status["observedVersion"] == "1"
        assert status["components"][0]["ready"] == "2/2"
        await one.say(image="redis-operator:2", replicas=3)
        status = await one.until("Deployed")
        assert status["observedVersion"] == status["targetVersion"] == "2"
        found = await one.cluster.client.get(DEPLOYMENTS.plain(), PLACE)
        assert found["spec"]["replicas"] == 3
        await one.say(image="redis-operator:1")
        assert (await one.until("Deployed"))["observedVersion"] == "1"


async def test_an_image_that_is_not_there_leaves_the_version_that_runs_alone() -> None:
    async with managed() as one:
        one.start()
        await one.say(image="redis-operator:1")
        await one.until("Deployed")
        await one.say(image="redis-operator:missing")
        status = await one.until("Updating", says="ImagePullBackOff")
        assert status["observedVersion"] == "1"
        found = await one.cluster.client.get(DEPLOYMENTS.plain(), PLACE)
        assert found["spec"]["template"]["spec"]["containers"][0]["image"] == "redis-operator:1"


async def test_an_image_of_another_version_than_expected_is_not_installed() -> None:
    async with managed() as one:
        one.start()
        await one.say(image="redis-operator:1", version="2")
        status = await one.until("Failed", says="spec.version is 2, and redis-operator:1 is 1")
        assert {c["type"]: c["reason"] for c in status["conditions"]}["Degraded"] == "OtherVersion"
        with pytest.raises(NotFound):
            await one.cluster.client.get(DEPLOYMENTS.plain(), PLACE)


@pytest.mark.parametrize("record", ["kept", "deleted"])
async def test_an_update_waits_for_its_approval(record: str) -> None:
    async with managed() as one:
        one.start()
        await one.say(image="redis-operator:1", updateApproval="Manual")
        await one.until("Deployed")
        if record == "deleted":
            key = ("redis-operator", "redis-operator-installation")
            await one.cluster.client.delete(CONFIG_MAPS, key)
        await one.say(image="redis-operator:2", updateApproval="Manual")
        await one.until("Failed", says="approve-update=2")
        note = {"metadata": {"annotations": {"redisoperator.dev/approve-update": "2"}}}
        await one.cluster.client.patch(REDIS_OPERATORS, KEY, MergePatch(note))
        status = await one.until("Deployed")
        assert status["observedVersion"] == "2"


async def test_what_somebody_changed_by_hand_is_put_right_and_nothing_is_written_at_rest() -> None:
    async with managed() as one:
        one.start()
        await one.say(image="redis-operator:1")
        await one.until("Deployed")
        await asyncio.sleep(5.0)
        one.written.clear()
        await asyncio.sleep(300.0)
        # kinds that this cluster does not serve are retried: it may be upgraded
        tried = ("validatingadmission", "monitoring.coreos.com")
        assert [path for path in one.written if not any(kind in path for kind in tried)] == []
        change = MergePatch({"spec": {"replicas": 0}})
        await one.cluster.client.patch(DEPLOYMENTS.plain(), PLACE, change)
        await asyncio.sleep(130.0)
        found = await one.cluster.client.get(DEPLOYMENTS.plain(), PLACE)
        assert found["spec"]["replicas"] == 2


async def test_while_pods_start_only_what_somebody_changed_is_applied_again() -> None:
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/redis-operator-view"
    async with managed() as one:
        one.start()
        await one.say(image="redis-operator:1")
        await one.until("Deployed")
        first = Counter(one.written)
        assert first[role] == 1
        one.written.clear()
        await one.say(image="redis-operator:broken")
        await one.until("Updating")
        await asyncio.sleep(30.0)
        found = await one.cluster.client.get(CLUSTER_ROLES, ("", "redis-operator-view"))
        assert Counter(one.written)[role] == 1
        assert len(one.written) < 2 * len(first)
        change = MergePatch({"rules": None})
        await one.cluster.client.patch(CLUSTER_ROLES, ("", "redis-operator-view"), change)
        await asyncio.sleep(30.0)
        again = await one.cluster.client.get(CLUSTER_ROLES, ("", "redis-operator-view"))
        assert again["rules"] == found["rules"]
        assert Counter(one.written)[role] == 2


async def test_namespaces_by_label_are_taken_up_when_they_get_it() -> None:
    async with managed() as one:
        client = one.cluster.client
        for name, labels in (("blue", {"redis": "yes"}), ("green", {})):
            await client.create(NAMESPACES.plain(), {"metadata": {"name": name, "labels": labels}})
        one.start()
        await one.say(image="redis-operator:1", namespaces={"matchLabels": {"redis": "yes"}})
        await one.until("Deployed")
        change = MergePatch({"metadata": {"labels": {"redis": "yes"}}})
        await client.patch(NAMESPACES.plain(), ("", "green"), change)
        await asyncio.sleep(1.0)
        await one.until("Deployed")
        found = await client.get(DEPLOYMENTS.plain(), PLACE)
        [container] = found["spec"]["template"]["spec"]["containers"]
        given = {one["name"]: one.get("value") for one in container["env"]}
        assert given["WATCH_NAMESPACES"] == "blue,green"


async def test_a_second_one_is_refused_by_its_name() -> None:
    async with managed() as one:
        document = {"metadata": {"name": "another"}, "spec": {"image": "redis-operator:1"}}
        with pytest.raises(Invalid, match="called redis-operator"):
            await one.cluster.client.create(REDIS_OPERATORS, document)


async def test_removed_it_takes_the_operator_along_and_databases_stay() -> None:
    async with managed() as one:
        one.start()
        await one.say(image="redis-operator:1")
        await one.until("Deployed")
        await one.cluster.create_database("cache")
        await one.cluster.client.delete(REDIS_OPERATORS, KEY)
        for _ in range(120):
            await asyncio.sleep(1.0)
            if not (await one.cluster.client.list(REDIS_OPERATORS)).items:
                break
        else:
            pytest.fail("the RedisOperator stays")
        with pytest.raises(NotFound):
            await one.cluster.client.get(DEPLOYMENTS.plain(), PLACE)
        assert [raw["metadata"]["name"] for raw in await one.cluster.databases()] == ["cache"]


async def test_a_strategy_that_somebody_changed_is_not_applied() -> None:
    async with managed() as one:
        one.start()
        await one.say(image="redis-operator:1")
        await one.until("Deployed")
        client = one.cluster.client
        page = await client.list(JOBS.plain(), namespace="redis-operator")
        [name] = [raw["metadata"]["name"] for raw in page.items]
        change = MergePatch({"data": {"sha256": "0" * 64}})
        await client.patch(CONFIG_MAPS.plain(), ("redis-operator", name), change)
        await one.until("Failed", says="was changed", seconds=300)
        await client.delete(CONFIG_MAPS, ("redis-operator", name))
        await one.until("Deployed", seconds=300)


async def test_the_command_waits_until_the_installer_has_done_it_and_takes_it_away_again() -> None:
    async with managed() as one:
        one.start()
        told: list[str] = []
        client = Client(one.cluster.transport, field_manager="redis-operator-install")
        life = InstallerLife(client, tell=told.append, patience=StageTimeout(120.0))
        await life.install(Options(image="redis-operator:1"))
        assert (await one.status())["phase"] == "Deployed"
        assert await life.exists()
        await one.kill()
        await life.remove("redis-operator")
        assert not await life.exists()
        found = await one.cluster.client.get(DEPLOYMENTS.plain(), PLACE)
        assert found["status"]["availableReplicas"] == 2  # what it installed goes on
        await one.cluster.remover().uninstall("redis-operator")
        left = [
            name
            for name, raw in (await one.cluster.state()).items()
            if "redisoperator.dev/installation" in (raw["metadata"].get("labels") or {})
        ]
        assert [name for name in left if not name.startswith("customresourcedefinitions")] == []


async def test_a_spec_that_cannot_be_followed_is_told_by_its_path() -> None:
    async with managed() as one:
        one.start()
        await one.say(image="redis-operator:1", namespaces={"names": ["nowhere"]})
        await one.until("Failed", says="spec.namespaces.names: there is no namespace nowhere")
        await one.cluster.client.create(NAMESPACES.plain(), {"metadata": {"name": "nowhere"}})
        await one.until("Deployed")


def test_the_installer_may_do_what_it_hands_out_and_no_more_is_in_the_definition() -> None:
    made = installer_objects(Options())
    names = [f"{one['kind']} {one['metadata']['name']}" for one in made]
    assert "Deployment redis-operator-installer" in names
    [definition] = [one for one in made if one["kind"] == CUSTOM_RESOURCE_DEFINITIONS.kind]
    assert definition["spec"]["scope"] == "Cluster"
    rules = [rule for one in made for rule in one.get("rules", ())]
    assert all("*" not in part for rule in rules for part in rule.values())
    assert not any({"escalate", "bind", "impersonate"} & set(rule["verbs"]) for rule in rules)


def told_in(status: Manifest, kind: str) -> tuple[str, str]:
    [found] = [c for c in status["conditions"] if c["type"] == kind]
    return found["status"], found["message"]


async def test_rights_that_are_taken_away_are_named_in_the_status_and_given_back_are_used() -> None:
    async with managed() as one:
        one.start()
        await one.say(image="redis-operator:1")
        await one.until("Deployed")
        client, key = one.cluster.client, ("", "redis-operator-installer")
        role = await client.get(CLUSTER_ROLES, key)
        less = [rule for rule in role["rules"] if "clusterroles" not in rule.get("resources", ())]
        await client.patch(CLUSTER_ROLES, key, MergePatch({"rules": less}))
        await one.say(image="redis-operator:2")
        status = await one.until("Failed", says="clusterroles")
        assert status["observedVersion"] == "1"
        holds, message = told_in(status, "Degraded")
        assert holds == "True"
        assert "cannot get resource" in message
        await client.patch(CLUSTER_ROLES, key, MergePatch({"rules": role["rules"]}))
        status = await one.until("Deployed", seconds=600)
        assert told_in(status, "Degraded")[0] == "False"


async def test_a_removal_that_is_kept_up_says_why() -> None:
    async with managed() as one:
        one.start()
        await one.say(image="redis-operator:1")
        await one.until("Deployed")
        client, key = one.cluster.client, ("", "redis-operator-installer")
        role = await client.get(CLUSTER_ROLES, key)
        less = [rule for rule in role["rules"] if "clusterroles" not in rule.get("resources", ())]
        await client.patch(CLUSTER_ROLES, key, MergePatch({"rules": less}))
        await client.delete(REDIS_OPERATORS, KEY)
        await one.until("Deleting", says="clusterroles")
        await client.patch(CLUSTER_ROLES, key, MergePatch({"rules": role["rules"]}))
        for _ in range(600):
            await asyncio.sleep(1.0)
            if not (await client.list(REDIS_OPERATORS)).items:
                return
        pytest.fail("the RedisOperator stays")


async def test_jobs_of_images_that_are_no_longer_asked_for_go_with_their_pods() -> None:
    async with managed() as one:
        one.start()
        await one.say(image="redis-operator:1")
        await one.until("Deployed")
        await one.say(image="redis-operator:missing")
        await one.until("Updating", says="ImagePullBackOff")
        await one.say(image="redis-operator:1")
        await one.until("Deployed")
        await asyncio.sleep(60.0)
        client = one.cluster.client
        jobs = (await client.list(JOBS.plain(), namespace="redis-operator")).items
        images = {j["spec"]["template"]["spec"]["containers"][0]["image"] for j in jobs}
        assert "redis-operator:missing" not in images
        page = await client.list(PODS.plain(), labels="redisoperator.dev/strategy=job")
        assert {p["spec"]["containers"][0]["image"] for p in page.items} <= images


async def test_a_second_installer_in_another_namespace_is_refused_before_it_writes() -> None:
    async with managed() as one:
        one.start()
        client = Client(one.cluster.transport, field_manager="redis-operator-install")
        life = InstallerLife(client, tell=one.cluster.told.append, patience=StageTimeout(120.0))
        await life.install(Options(image="redis-operator:1"))
        before = await one.cluster.state()
        other = Options(namespace="other", image="redis-operator:1")
        with pytest.raises(InstallError, match="--namespace redis-operator"):
            await life.install(other)
        assert await one.cluster.state() == before


async def test_uninstall_of_a_namespace_where_no_operator_lives_touches_nothing() -> None:
    async with managed() as one:
        one.start()
        client = Client(one.cluster.transport, field_manager="redis-operator-install")
        life = InstallerLife(client, tell=one.cluster.told.append, patience=StageTimeout(120.0))
        await life.install(Options(image="redis-operator:1"))
        await one.cluster.create_database("cache")
        before = await one.cluster.state()
        remover = one.cluster.remover()
        for everything in (False, True):
            with pytest.raises(InstallError, match="--namespace redis-operator"):
                await remover.check("typo", everything=everything)
            with pytest.raises(InstallError, match="--namespace redis-operator"):
                await remover.uninstall("typo", everything=everything)
        with pytest.raises(InstallError, match="--namespace redis-operator"):
            await life.remove("typo")
        assert await one.cluster.state() == before
        assert await life.exists()


async def test_the_end_of_an_installer_leaves_no_pod_that_keeps_its_namespace() -> None:
    async with managed() as one:
        one.start()
        client = Client(one.cluster.transport, field_manager="redis-operator-install")
        life = InstallerLife(client, tell=one.cluster.told.append, patience=StageTimeout(120.0))
        await life.install(Options(image="redis-operator:1"))
        await one.kill()
        await life.remove("redis-operator")
        await one.cluster.remover().uninstall("redis-operator")
        await asyncio.sleep(30.0)
        names = [raw.metadata.name for raw in (await client.list(NAMESPACES)).items]
        assert "redis-operator" not in names, one.cluster.told


def test_what_the_command_is_told_the_redisoperator_says() -> None:
    words = ["--with-installer", "--print", "--without-webhooks", "--scrape-namespaces", "all"]
    found = CliRunner().invoke(install, [*words, "--monitoring-label", "release=x"])
    assert found.exit_code == 0, found.output
    *_, said = yaml.safe_load_all(found.output)
    assert said["spec"]["components"] == {
        "admission": {"enabled": False},
        "monitoring": {"labels": {"release": "x"}, "scrapeNamespaces": ["*"]},
    }
    loaded = load_redisoperator(said)
    assert isinstance(loaded, RedisOperator)
    options = options_of(loaded.spec, namespace="redis-operator", namespaces=[])
    assert isinstance(options, Options)
    assert not options.webhooks
    assert options.monitoring.scrape_namespaces == ("*",)


def test_a_number_of_replicas_that_cannot_be_is_refused() -> None:
    found = CliRunner().invoke(install, ["--print", "--replicas", "0"])
    assert found.exit_code == 2, found.output
    assert "--replicas: 0 is not between 1 and 10" in found.output


@pytest.mark.parametrize("empty", ["", " , "])
def test_no_namespace_at_all_is_refused_and_not_taken_for_every_one(empty: str) -> None:
    found = CliRunner().invoke(install, ["--print", "--watch-namespaces", empty])
    assert found.exit_code == 2, found.output
    assert "--watch-namespaces: it names no namespace; use `all`" in found.output


@pytest.mark.parametrize("empty", [{}, {"names": []}, {"matchLabels": {}}])
def test_an_empty_choice_of_namespaces_is_refused_and_not_taken_for_all(empty: Any) -> None:
    said = {
        "metadata": {"name": "redis-operator"},
        "spec": {"image": "redis-operator:1", "namespaces": empty},
    }
    problems = load_redisoperator(said)
    assert isinstance(problems, tuple)
    assert [str(p) for p in problems] == [
        "spec.namespaces: it chooses no namespace: name some, or labels, or leave it out for all"
    ]


@pytest.mark.slow
async def test_an_update_that_comes_to_nothing_is_told_after_ten_minutes() -> None:
    async with managed() as one:
        one.start()
        await one.say(image="redis-operator:1")
        await one.until("Deployed")
        await one.say(image="redis-operator:broken")
        status = await one.until("Updating", says="new pods")
        assert told_in(status, "Degraded")[0] == "False"
        await asyncio.sleep(660.0)
        status = await one.status()
        holds, message = told_in(status, "Degraded")
        assert (status["phase"], holds) == ("Updating", "True")
        assert "CrashLoopBackOff" in message
        assert told_in(status, "Available")[0] == "True", "the old pods serve on"
        await one.say(image="redis-operator:1")
        status = await one.until("Deployed")
        assert told_in(status, "Degraded")[0] == "False"
