"""The commands on a cluster that has an operator: options that are not given keep their values."""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable

import click
import pytest

from install.managed.test_managed import KEY, managed
from kubecontroller import Client
from kubecontroller.client.meta import Manifest
from kubecontroller.client.objects import CONFIG_MAPS, NAMESPACES
from kubecontroller.client.patches import MergePatch
from redis_operator import __version__
from redis_operator.cli.install import install, upgrade
from redis_operator.install.installer import InstallError
from redis_operator.install.inventory import InstallPhase, Inventory, written
from redis_operator.install.managed.reconcile import REDIS_OPERATORS
from redis_operator.install.options import MonitoringOptions, Options
from support.small_cluster import SmallCluster, small_cluster

RECORD = ("redis-operator", "redis-operator-installation")
CHOSEN = Options(
    image="host/redis-operator:mine",
    watch_namespaces=("team",),
    replicas=3,
    arguments=("--verbose",),
    pull_secrets=("pull",),
    webhooks=False,
    placement={"priorityClassName": "high"},
    monitoring=MonitoringOptions(labels={"release": "x"}, secured=True),
)
Run = Callable[..., Awaitable[list[str]]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command as a person would, in a cluster in this process; return what it says."""

    async def run(cluster: SmallCluster, command: click.Command, *words: str) -> list[str]:
        works: list[Callable[[Client], Awaitable[None]]] = []
        said: list[str] = []
        module = importlib.import_module("redis_operator.cli.install")
        monkeypatch.setattr(module, "_run", lambda _, __, work: works.append(work))
        monkeypatch.setattr(click, "echo", lambda text="", **_: said.append(str(text)))
        command.main(list(words), standalone_mode=False)
        for work in works:
            await work(Client(cluster.transport, field_manager="redis-operator-install"))
        return said

    return run


async def has_chosen(cluster: SmallCluster) -> None:
    await cluster.client.create(NAMESPACES.plain(), {"metadata": {"name": "team"}})
    await cluster.installer().install(CHOSEN)


async def options_now(cluster: SmallCluster) -> Options:
    found = await cluster.installer().find("redis-operator")
    assert found is not None
    return found.options


@pytest.mark.parametrize("command", [install, upgrade])
async def test_what_is_not_given_stays(run: Run, command: click.Command) -> None:
    async with small_cluster() as cluster:
        await has_chosen(cluster)
        said = await run(cluster, command)
        assert await options_now(cluster) == CHOSEN
        kept = [line for line in said if "watchNamespaces" in line]
        assert len(kept) == (command is install)
        await run(cluster, command, "--replicas", "1", "--watch-namespaces", "all")
        found = await options_now(cluster)
        assert (found.replicas, found.watch_namespaces) == (1, ())
        assert (found.image, found.monitoring) == (CHOSEN.image, CHOSEN.monitoring)


async def test_what_is_empty_is_removed(run: Run) -> None:
    async with small_cluster() as cluster:
        await has_chosen(cluster)
        words = ("--argument", "", "--pull-secret", "", "--monitoring-label", "")
        await run(cluster, upgrade, *words)
        found = await options_now(cluster)
        assert (found.arguments, found.pull_secrets, found.monitoring.labels) == ((), (), {})


async def test_a_dry_run_shows_what_the_command_would_do(run: Run) -> None:
    async with small_cluster() as cluster:
        await has_chosen(cluster)
        said = await run(cluster, install, "--dry-run")
        assert "Deployment redis-operator in namespace redis-operator: unchanged" in said
        assert not [line for line in said if "would be changed" in line or "deleted" in line]


async def record(cluster: SmallCluster, image: str, version: str) -> None:
    """Write what a version records that was installed from an image."""
    options = Options(image=image)
    kept = Inventory(options, phase=InstallPhase.INSTALLED, version=version)
    await cluster.client.apply(CONFIG_MAPS, written(kept))


@pytest.mark.parametrize("command", [install, upgrade])
async def test_the_image_of_another_version_is_not_guessed(
    run: Run, command: click.Command
) -> None:
    async with small_cluster() as cluster:
        await cluster.installer().install(Options(image="host/redis-operator:0.0.1"))
        await record(cluster, "host/redis-operator:0.0.1", "0.0.1")
        before = await cluster.state()
        with pytest.raises(InstallError, match=f"--image: .*version {__version__}.*host/"):
            await run(cluster, command)
        assert await cluster.state() == before
        await run(cluster, command, "--image", "host/redis-operator:new")
        assert (await options_now(cluster)).image == "host/redis-operator:new"
        await record(cluster, "redis-operator:0.0.1", "0.0.1")
        await run(cluster, command)
        assert (await options_now(cluster)).image == f"redis-operator:{__version__}"


@pytest.mark.parametrize("command", [install, upgrade])
async def test_options_that_cannot_be_read_are_not_replaced(
    run: Run, command: click.Command
) -> None:
    async with small_cluster() as cluster:
        await has_chosen(cluster)
        change = MergePatch({"data": {"options": "{"}})
        await cluster.client.patch(CONFIG_MAPS, RECORD, change)
        before = await cluster.state()
        with pytest.raises(InstallError, match=r"redis-operator-installation .* cannot be read"):
            await run(cluster, command)
        assert await cluster.state() == before


async def spec_now(cluster: SmallCluster) -> Manifest:
    found: Manifest = (await cluster.client.get(REDIS_OPERATORS, KEY))["spec"]
    return found


async def test_a_redisoperator_keeps_what_people_changed(run: Run) -> None:
    async with managed() as one:
        cluster = one.cluster
        await cluster.client.create(
            NAMESPACES.plain(), {"metadata": {"name": "team", "labels": {"redis": "managed"}}}
        )
        one.start()
        words = ("--with-installer", "--image", "redis-operator:1")
        await run(cluster, install, *words, "--scrape-namespaces", "all")
        change = {"replicas": 3, "updateApproval": "Manual", "verbose": True}
        change |= {"namespaces": {"matchLabels": {"redis": "managed"}}}
        await cluster.client.patch(REDIS_OPERATORS, KEY, MergePatch({"spec": change}))
        await one.until("Deployed")
        before = await spec_now(cluster)
        await run(cluster, install, *words)
        assert await spec_now(cluster) == before
        await run(cluster, install, *words, "--replicas", "1")
        assert await spec_now(cluster) == {**before, "replicas": 1}


async def test_an_installer_goes_on_with_what_the_command_was_given(run: Run) -> None:
    async with managed() as one:
        await has_chosen(one.cluster)
        one.start()
        await run(one.cluster, install, "--with-installer")
        assert await options_now(one.cluster) == CHOSEN


async def test_a_redisoperator_that_cannot_be_read_is_not_replaced(run: Run) -> None:
    async with managed() as one:
        await one.say(image="redis-operator:1", namespaces={"names": []})
        before = await one.cluster.state()
        with pytest.raises(InstallError, match=r"RedisOperator redis-operator: spec\.namespaces"):
            await run(one.cluster, install, "--with-installer", "--image", "redis-operator:2")
        assert await one.cluster.state() == before
