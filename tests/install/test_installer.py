"""Installing, upgrading and removing the operator, as whoever does it notices."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from kubecontroller.client.api import Client
from kubecontroller.client.errors import ConnectionFailed, Forbidden, NotFound
from kubecontroller.client.meta import Manifest
from kubecontroller.client.objects import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
)
from kubecontroller.client.patches import MergePatch
from kubecontroller.client.scheme import Kind
from kubecontroller.testing.faults import Fault, FaultyTransport, Seeded
from kubelocal.apiserver.calls import User
from kubelocal.apiserver.inprocess import InProcessTransport
from redis_operator.api.webhooks import CONFIGURATION, SECRET
from redis_operator.install.installer import InstallError
from redis_operator.install.managed.lifecycle import InstallerLife
from redis_operator.install.options import Issuer, MonitoringOptions, Options
from redis_operator.install.waiting import WEBHOOK_CONFIGURATIONS, NotInForce, StageTimeout
from redis_operator.operator.world import REDIS_FAILOVERS, REDISES
from support.small_cluster import small_cluster

CLUSTER_ROLES: Kind[Manifest] = Kind(
    "rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", False, dict
)


async def test_installed_means_that_every_pod_runs_and_one_leads() -> None:
    async with small_cluster() as cluster:
        await cluster.installer().install(Options())
        found = await cluster.client.get(DEPLOYMENTS, ("redis-operator", "redis-operator"))
        assert found.status.available_replicas == 2
        inventory = await cluster.installer().find("redis-operator")
        assert inventory is not None
        assert inventory.phase == "Installed"


async def test_a_second_installation_is_refused_and_nothing_is_written() -> None:
    async with small_cluster() as cluster:
        await cluster.installer().install(Options())
        before = await cluster.state()
        with pytest.raises(InstallError, match="use --namespace redis-operator, or"):
            await cluster.installer().install(Options(namespace="elsewhere"))
        assert await cluster.state() == before


async def test_a_server_that_stays_away_is_told_soon() -> None:
    async with small_cluster() as cluster:
        away = FaultyTransport(cluster.transport, Seeded(1, {Fault.RESET_BEFORE: 1.0}))
        with pytest.raises(ConnectionFailed, match="connection reset"):
            await cluster.installer(away).install(Options())
        assert asyncio.get_running_loop().time() < 120
        assert len([line for line in cluster.told if "retrying" in line]) == 1


async def test_kinds_that_a_helm_release_left_behind_are_taken_over() -> None:
    async with small_cluster() as cluster:
        await cluster.installer().install(Options())
        await cluster.remover().uninstall("redis-operator")
        change = MergePatch({"metadata": {"labels": {"app.kubernetes.io/managed-by": "Helm"}}})
        key = ("", "redis.redisoperator.dev")
        await cluster.client.patch(CUSTOM_RESOURCE_DEFINITIONS, key, change)
        await cluster.installer().install(Options())
        found = await cluster.installer().find("redis-operator")
        assert found is not None
        assert "redis.redisoperator.dev" in {item.name for item in found.items}


async def test_a_helm_release_is_not_taken_over() -> None:
    async with small_cluster() as cluster:
        await cluster.installer().install(Options())
        key = ("redis-operator", "redis-operator")
        change = MergePatch({"metadata": {"labels": {"app.kubernetes.io/managed-by": "Helm"}}})
        await cluster.client.patch(DEPLOYMENTS, key, change)
        with pytest.raises(InstallError, match=r"Deployment redis-operator .*`helm upgrade`"):
            await cluster.installer().install(Options())


OTHERS = {
    "metadata": {"name": "redis-operator", "labels": {"app.kubernetes.io/name": "redis-operator"}},
    "rules": [
        {"apiGroups": ["databases.spotahome.com"], "resources": ["*"], "verbs": ["*"]},
    ],
}


async def test_the_objects_of_another_operator_of_that_name_are_not_taken_over() -> None:
    async with small_cluster() as cluster:
        await cluster.client.create(CLUSTER_ROLES, OTHERS)
        before = await cluster.state()
        told = r"ClusterRole redis-operator .*does not belong .*redisoperator.dev/installation="
        with pytest.raises(InstallError, match=told):
            await cluster.installer().install(Options())
        life = InstallerLife(cluster.client, tell=cluster.told.append, patience=StageTimeout(60.0))
        with pytest.raises(InstallError, match=told):
            await life.install(Options())
        assert await cluster.state() == before
        label = {"redisoperator.dev/installation": "redis-operator"}
        change = MergePatch({"metadata": {"labels": label}})
        await cluster.client.patch(CLUSTER_ROLES, ("", "redis-operator"), change)
        await cluster.installer().install(Options())


async def test_an_object_whose_label_was_removed_by_hand_gets_it_again() -> None:
    async with small_cluster() as cluster:
        await cluster.installer().install(Options())
        label = "redisoperator.dev/installation"
        change = MergePatch({"metadata": {"labels": {label: None}}})
        await cluster.client.patch(CLUSTER_ROLES, ("", "redis-operator"), change)
        await cluster.installer().install(Options())
        found = await cluster.client.get(CLUSTER_ROLES, ("", "redis-operator"))
        assert found["metadata"]["labels"][label] == "redis-operator"


async def test_rights_are_given_only_where_databases_are_looked_after() -> None:
    async with small_cluster() as cluster:
        for name in ("team", "other"):
            await cluster.client.create(NAMESPACES.plain(), {"metadata": {"name": name}})
        await cluster.installer().install(Options(watch_namespaces=("team",)))
        await cluster.client.get(ROLES, ("team", "redis-operator"))
        with pytest.raises(NotFound):
            await cluster.client.get(ROLES, ("other", "redis-operator"))
        with pytest.raises(NotFound):
            await cluster.client.get(CLUSTER_ROLES, ("", "redis-operator"))
        everywhere = await cluster.client.get(CLUSTER_ROLES, ("", "redis-operator-namespaced"))
        verbs = {name: rule["verbs"] for rule in everywhere["rules"] for name in rule["resources"]}
        follow, write = ["list", "watch"], ["get", "list", "watch", "patch"]
        assert verbs == {
            **dict.fromkeys(("nodes", "storageclasses", "redisversions"), follow),
            **dict.fromkeys(("redis", "redisbackups", "redisrestores"), write),
            "namespaces": ["get"],
        }


async def test_rights_are_taken_back_when_no_pod_needs_them_any_more() -> None:
    """A new version that does not start leaves the old one with the rights it works with."""
    account = "system:serviceaccount:redis-operator:redis-operator"
    async with small_cluster() as cluster:
        operator = Client(
            InProcessTransport(
                cluster.server,
                user=User(name=account, groups=("system:serviceaccounts", "system:authenticated")),
            )
        )
        await cluster.client.create(NAMESPACES.plain(), {"metadata": {"name": "team"}})
        await cluster.installer().install(Options())
        missing = Options(image="redis-operator:missing", watch_namespaces=("team",))
        with pytest.raises(NotInForce):
            await cluster.installer(seconds=5.0).install(missing)
        await operator.list(SECRETS)
        await operator.list(REDISES)
        await cluster.installer().install(Options(watch_namespaces=("team",)))
        await operator.list(SECRETS, namespace="team")
        with pytest.raises(Forbidden):
            await operator.list(SECRETS)


async def test_rights_in_a_namespace_that_is_no_longer_looked_after_are_taken_back() -> None:
    async with small_cluster() as cluster:
        for name in ("team", "other"):
            await cluster.client.create(NAMESPACES.plain(), {"metadata": {"name": name}})
        await cluster.installer().install(Options(watch_namespaces=("team", "other")))
        await cluster.installer().install(Options(watch_namespaces=("other",)))
        for kind in (ROLES, ROLE_BINDINGS):
            await cluster.client.get(kind, ("other", "redis-operator"))
            with pytest.raises(NotFound):
                await cluster.client.get(kind, ("team", "redis-operator"))


async def test_a_namespace_that_is_not_there_is_named_before_anything_is_written() -> None:
    async with small_cluster() as cluster:
        before = await cluster.state()
        with pytest.raises(InstallError, match="there is no namespace 'team'; create it first"):
            await cluster.installer().install(Options(watch_namespaces=("team",)))
        assert await cluster.state() == before


async def test_a_namespace_that_is_being_deleted_is_named_before_anything_is_written() -> None:
    async with small_cluster() as cluster:
        await cluster.client.create(NAMESPACES.plain(), {"metadata": {"name": "team"}})
        held = {"name": "held", "namespace": "team", "finalizers": ["example.com/held"]}
        await cluster.client.create(CONFIG_MAPS.plain(), {"metadata": held})
        await cluster.client.delete(NAMESPACES, ("", "team"))
        before = await cluster.state()
        told = "namespace 'team' is being deleted; name the others only"
        with pytest.raises(InstallError, match=told):
            await cluster.installer().install(Options(watch_namespaces=("team",)))
        assert await cluster.state() == before


async def test_an_image_that_does_not_exist_is_named_and_the_old_operator_goes_on() -> None:
    async with small_cluster() as cluster:
        await cluster.installer().install(Options())
        with pytest.raises(NotInForce, match=r"ImagePullBackOff.*there is no missing:2"):
            await cluster.installer(seconds=20).install(Options(image="missing:2"))
        found = await cluster.client.get(DEPLOYMENTS, ("redis-operator", "redis-operator"))
        assert found.status.available_replicas == 2
        await cluster.installer().install(Options())


async def test_what_was_edited_by_hand_is_put_right_by_the_same_command() -> None:
    async with small_cluster() as cluster:
        await cluster.installer().install(Options())
        before = await cluster.state()
        key = ("", "redis-operator")
        await cluster.client.patch(CLUSTER_ROLES, key, MergePatch({"rules": []}))
        await cluster.client.delete(ROLES, ("redis-operator", "redis-operator-election"))
        await cluster.client.scale(DEPLOYMENTS, ("redis-operator", "redis-operator"), 1)
        await cluster.installer().install(Options())
        assert await cluster.state() == before


async def test_somebody_who_may_not_install_is_told_so_and_nothing_is_written() -> None:
    async with small_cluster() as cluster:
        before = await cluster.state()
        somebody = User("somebody", ("system:authenticated",))
        transport = InProcessTransport(cluster.server, user=somebody)
        with pytest.raises(Forbidden, match='User "somebody" cannot get resource "namespaces"'):
            await cluster.installer(transport).install(Options())
        assert await cluster.state() == before


async def test_what_somebody_else_put_in_place_of_ours_is_not_deleted() -> None:
    async with small_cluster() as cluster:
        await cluster.client.create(NAMESPACES.plain(), {"metadata": {"name": "team"}})
        await cluster.installer().install(Options(watch_namespaces=("team",)))
        await cluster.client.delete(ROLES, ("team", "redis-operator"))
        role = {"metadata": {"namespace": "team", "name": "redis-operator"}, "rules": []}
        await cluster.client.create(ROLES.plain(), role)
        await cluster.installer().install(Options())
        await cluster.client.get(ROLES, ("team", "redis-operator"))
        assert "Role redis-operator in namespace team: kept" in "\n".join(cluster.told)


async def test_objects_that_only_a_newer_version_can_read_are_not_cut_off() -> None:
    async with small_cluster() as cluster:
        await cluster.installer().install(Options())
        change = MergePatch({"status": {"storedVersions": ["v1", "v2"]}})
        key = ("", "redis.redisoperator.dev")
        await cluster.client.patch(CUSTOM_RESOURCE_DEFINITIONS, key, change, subresource="status")
        with pytest.raises(InstallError, match=r"redis.redisoperator.dev are stored as v2, which"):
            await cluster.installer().install(Options())


async def test_a_database_that_this_version_does_not_take_is_named_and_keeps_nobody_else() -> None:
    async with small_cluster() as cluster:
        await cluster.installer().install(Options())
        await cluster.create_database("cache", config={"maxmemory": "much"})
        await cluster.installer().install(Options(replicas=3))
        [told] = [line for line in cluster.told if line.startswith("Redis default/cache")]
        assert "spec.config.maxmemory: must be a size" in told


async def test_databases_stay_and_can_be_deleted_without_an_operator() -> None:
    async with small_cluster() as cluster:
        await cluster.installer().install(Options())
        await cluster.create_database("cache")
        await cluster.remover().uninstall("redis-operator")
        [found] = await cluster.databases()
        assert not found["metadata"].get("finalizers")
        with pytest.raises(NotFound):
            await cluster.client.get(NAMESPACES, ("", "redis-operator"))
        await cluster.client.delete(REDISES, ("default", "cache"))
        assert await cluster.databases() == []


@pytest.mark.parametrize("lost", ["record", "namespace"])
async def test_nothing_is_left_of_an_installation_whose_record_is_lost(lost: str) -> None:
    async with small_cluster() as cluster:
        await cluster.serve_cert_manager()
        await cluster.client.create(NAMESPACES.plain(), {"metadata": {"name": "team"}})
        secured = MonitoringOptions(secured=True)
        given = Options(watch_namespaces=("team",), issuer=Issuer("x"), monitoring=secured)
        await cluster.installer().install(given)
        await cluster.create_database("cache", "team")
        if lost == "namespace":
            await cluster.client.delete(NAMESPACES, ("", "redis-operator"))
            await asyncio.sleep(60.0)
        else:
            record = ("redis-operator", "redis-operator-installation")
            await cluster.client.delete(CONFIG_MAPS, record)
        await cluster.remover().uninstall("redis-operator")
        left = [
            name
            for name, raw in (await cluster.state()).items()
            if "redisoperator.dev/installation" in (raw["metadata"].get("labels") or {})
        ]
        kept = ("customresourcedefinitions", "validatingadmissionpolic")
        assert [name for name in left if not name.startswith(kept)] == []
        [database] = await cluster.databases()
        assert not database["metadata"].get("finalizers")


async def test_a_namespace_with_something_of_somebody_else_stays() -> None:
    async with small_cluster() as cluster:
        await cluster.installer().install(Options())
        secret = {"metadata": {"namespace": "redis-operator", "name": "mine"}}
        await cluster.client.create(SECRETS.plain(), secret)
        await cluster.remover().uninstall("redis-operator")
        await cluster.client.get(SECRETS, ("redis-operator", "mine"))
        assert "left, since Secret mine is in it" in "\n".join(cluster.told)


async def test_a_protected_database_keeps_everything() -> None:
    async with small_cluster() as cluster:
        await cluster.installer().install(Options())
        await cluster.create_database("cache", deletion={"protected": True})
        before = await cluster.state()
        with pytest.raises(InstallError, match=r"protected is true for default/cache"):
            await cluster.remover().uninstall("redis-operator", everything=True)
        assert await cluster.state() == before


async def test_everything_goes_while_the_operator_can_still_deal_with_volumes() -> None:
    async with small_cluster() as cluster:
        await cluster.installer().install(Options())
        await cluster.create_database("cache")
        await cluster.remover().uninstall("redis-operator", everything=True)
        assert await cluster.databases() == []
        told = cluster.told.index
        assert told("Redis default/cache: deleted") < told(
            "Deployment redis-operator in namespace redis-operator: deleted"
        )
        assert not [name for name in await cluster.state() if "redis" in name]


async def test_whoever_would_have_a_database_recreated_goes_first() -> None:
    async with small_cluster() as cluster:
        await cluster.installer().install(Options())
        await cluster.create_database("cache")
        owner = {"metadata": {"namespace": "default", "name": "cache"}, "spec": {}}
        await cluster.client.create(REDIS_FAILOVERS, owner)
        await cluster.remover().uninstall("redis-operator", everything=True)
        told = [line for line in cluster.told if "default/cache" in line]
        assert told == ["RedisFailover default/cache: deleted", "Redis default/cache: deleted"]


async def test_claims_that_stay_are_named_and_those_that_go_are_not() -> None:
    async with small_cluster() as cluster:
        for name in ("stays", "goes"):
            labels = {"redisoperator.dev/database": "cache"}
            metadata = {"namespace": "default", "name": name, "labels": labels}
            if name == "goes":
                metadata["finalizers"] = ["example.com/used"]
            claim = {"resources": {"requests": {"storage": "1Gi"}}}
            spec = {"accessModes": ["ReadWriteOnce"], **claim}
            document = {"metadata": metadata, "spec": spec}
            await cluster.client.create(PERSISTENT_VOLUME_CLAIMS.plain(), document)
        await cluster.client.delete(PERSISTENT_VOLUME_CLAIMS, ("default", "goes"))
        assert await cluster.remover().leftovers() == ["default/stays"]


async def test_an_operator_that_does_not_let_go_is_named() -> None:
    async with small_cluster() as cluster:
        await cluster.installer().install(Options())
        await cluster.create_database("cache")
        cluster.lets_go = False
        with pytest.raises(NotInForce, match="does not remove its finalizer from default/cache"):
            await cluster.remover(seconds=10).uninstall("redis-operator", everything=True)


async def test_a_database_in_a_namespace_that_is_not_managed_is_not_waited_for() -> None:
    async with small_cluster() as cluster:
        await cluster.client.create(NAMESPACES.plain(), {"metadata": {"name": "team"}})
        await cluster.installer().install(Options(watch_namespaces=("team",)))
        await cluster.create_database("cache")
        cluster.lets_go = False
        await cluster.remover(seconds=10).uninstall("redis-operator", everything=True)
        assert not await cluster.databases()
        assert "claims of databases stay" in "\n".join(cluster.told)


async def test_finalizers_that_a_helm_release_left_behind_are_removed() -> None:
    async with small_cluster() as cluster:
        await cluster.create_database("cache")
        await cluster.remover().uninstall("redis-operator")
        [found] = await cluster.databases()
        assert not found["metadata"].get("finalizers")


async def test_without_an_operator_everything_goes_all_the_same() -> None:
    async with small_cluster() as cluster:
        await cluster.installer().install(Options())
        await cluster.create_database("cache")
        cluster.lets_go = False
        await cluster.client.delete(DEPLOYMENTS, ("redis-operator", "redis-operator"))
        await cluster.remover().uninstall("redis-operator", everything=True)
        assert await cluster.databases() == []
        assert "claims of databases stay" in "\n".join(cluster.told)


async def test_a_dry_run_writes_nothing() -> None:
    async with small_cluster() as cluster:
        before = await cluster.state()
        await cluster.installer().preview(Options())
        assert await cluster.state() == before
        assert "ClusterRole redis-operator: would be created" in cluster.told
        await cluster.installer().install(Options())
        cluster.told.clear()
        await cluster.installer().preview(Options(replicas=3))
        changed = [line for line in cluster.told if line.endswith("would be changed")]
        assert [line.split()[0] for line in changed] == ["Deployment"]


async def test_admission_is_in_force_when_the_operator_has_put_its_bundle_in() -> None:
    async with small_cluster() as cluster:
        cluster.certifies = False
        with pytest.raises(NotInForce, match=r"has not put its CA bundle into webhook redis\."):
            await cluster.installer(seconds=5).install(Options())
        cluster.certifies = True
        await cluster.installer().install(Options())
        found = await cluster.client.get(WEBHOOK_CONFIGURATIONS, ("", CONFIGURATION))
        assert all(hook["clientConfig"]["caBundle"] for hook in found["webhooks"])
        await cluster.installer().install(Options(image="redis-operator:2"))
        again = await cluster.client.get(WEBHOOK_CONFIGURATIONS, ("", CONFIGURATION))
        assert again["webhooks"] == found["webhooks"], "an upgrade does not take the bundle away"


def place(told: list[str], *words: str) -> int:
    """Return where the first line is that has these words."""
    return next(n for n, line in enumerate(told) if all(word in line for word in words))


async def test_admission_comes_after_the_operator_and_goes_before_it() -> None:
    async with small_cluster() as cluster:
        told = cluster.told
        await cluster.installer().install(Options())
        configuration = "ValidatingWebhookConfiguration"
        assert place(told, "Deployment", "applied") < place(told, configuration, "applied")
        told.clear()
        await cluster.remover().uninstall("redis-operator")
        assert place(told, configuration, "deleted") < place(told, "Deployment", "deleted")
        assert place(told, "Deployment", "deleted") < place(told, "Secret", "deleted")


async def test_webhooks_can_be_left_out_and_are_then_not_asked_while_the_operator_changes() -> None:
    async with small_cluster() as cluster:
        told = cluster.told
        await cluster.installer().install(Options())
        told.clear()
        await cluster.installer().install(Options(image="redis-operator:2", webhooks=False))
        configuration = "ValidatingWebhookConfiguration"
        assert place(told, configuration, "deleted") < place(told, "Deployment", "applied")
        with pytest.raises(NotFound):
            await cluster.client.get(WEBHOOK_CONFIGURATIONS, ("", CONFIGURATION))
        kept = await cluster.installer().find("redis-operator")
        assert kept is not None
        assert kept.options.webhooks is False, "the next upgrade leaves them out too"


async def test_a_secret_of_that_name_that_is_not_ours_stays() -> None:
    async with small_cluster() as cluster:
        await cluster.installer().install(Options())
        await cluster.client.delete(SECRETS, ("redis-operator", SECRET))
        cluster.certifies = False
        body = {"metadata": {"namespace": "redis-operator", "name": SECRET}}
        await cluster.client.create(SECRETS, body)
        await cluster.remover().uninstall("redis-operator")
        assert any(
            "Secret" in line and "kept, it does not have the label" in line for line in cluster.told
        )


async def test_every_example_is_stored_by_the_definitions_that_are_installed() -> None:
    examples = Path(__file__).parents[2] / "examples"
    documents = [
        document
        for file in sorted(examples.glob("*.yaml"))
        for document in yaml.safe_load_all(file.read_text())
        if document["apiVersion"].startswith("redisoperator.dev/")
    ]
    assert {document["kind"] for document in documents} >= {"Redis", "RedisVersion"}
    async with small_cluster() as cluster:
        await cluster.installer().install(Options())
        for document in documents:
            plural = {"Redis": "redis"}.get(document["kind"], f"{document['kind'].lower()}s")
            namespaced = document["kind"] != "RedisVersion"
            kind: Kind[Manifest] = Kind(
                "redisoperator.dev", "v1", document["kind"], plural, namespaced, dict
            )
            place = {"namespace": "default"} if namespaced else {}
            made = {**document, "metadata": {**document["metadata"], **place}}
            await cluster.client.apply(kind, made, dry_run=True)


@pytest.mark.parametrize("with_installer", [False, True])
async def test_a_namespace_that_was_there_before_keeps_its_rules_and_stays(
    *, with_installer: bool
) -> None:
    async with small_cluster() as cluster:
        mine = {"team": "blue", "pod-security.kubernetes.io/enforce": "privileged"}
        await cluster.client.create(
            NAMESPACES.plain(), {"metadata": {"name": "tools", "labels": mine}}
        )
        sleeping = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}}
        container = {"name": "one", "image": "program"}
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}}
        other = {"namespace": "tools", "name": "sleeping"}
        await cluster.client.create(
            DEPLOYMENTS.plain(), {"metadata": other, "spec": {**sleeping, "template": template}}
        )
        options = Options(namespace="tools")
        if with_installer:
            life = InstallerLife(
                Client(cluster.transport, field_manager="redis-operator-install"),
                tell=cluster.told.append,
                patience=StageTimeout(5.0),
            )
            with suppress(NotInForce):  # no program follows the RedisOperator here
                await life.install(options)
            await life.remove("tools")
        await cluster.installer().install(options)
        found = await cluster.client.get(NAMESPACES, ("", "tools"))
        assert dict(found.metadata.labels or {}) == {**mine, "kubernetes.io/metadata.name": "tools"}
        assert any("was there before" in line for line in cluster.told)
        await cluster.installer().preview(options)
        assert "Namespace tools: left as it is, it was there before" in cluster.told
        await cluster.remover().uninstall("tools")
        assert not (await cluster.client.get(NAMESPACES, ("", "tools"))).metadata.is_deleting
        await cluster.client.get(DEPLOYMENTS, ("tools", "sleeping"))


async def test_a_namespace_that_still_ends_is_waited_for() -> None:
    async with small_cluster() as cluster:
        await cluster.installer().install(Options())
        held = {
            "metadata": {
                "namespace": "redis-operator",
                "name": "slow",
                "finalizers": ["example.com/slow"],
            }
        }
        await cluster.client.create(CONFIG_MAPS.plain(), held)
        await cluster.client.delete(NAMESPACES, ("", "redis-operator"))

        async def let_go() -> None:
            await asyncio.sleep(20.0)
            change = MergePatch({"metadata": {"finalizers": None}})
            await cluster.client.patch(CONFIG_MAPS, ("redis-operator", "slow"), change)

        letting = asyncio.create_task(let_go())
        await cluster.installer().install(Options())
        await letting
        found = await cluster.client.get(DEPLOYMENTS, ("redis-operator", "redis-operator"))
        assert found.status.available_replicas == 2


@pytest.mark.parametrize("watched", [(), ("default",)])
async def test_a_helm_release_is_not_taken_apart(watched: tuple[str, ...]) -> None:
    async with small_cluster() as cluster:
        await cluster.installer().install(Options(watch_namespaces=watched))
        change = MergePatch({"metadata": {"labels": {"app.kubernetes.io/managed-by": "Helm"}}})
        name = "redis-operator-namespaced" if watched else "redis-operator"
        await cluster.client.patch(CLUSTER_ROLES, ("", name), change)
        before = await cluster.state()
        with pytest.raises(InstallError, match="helm uninstall"):
            await cluster.remover().uninstall("redis-operator")
        assert await cluster.state() == before


async def test_a_database_that_nobody_was_asked_about_is_not_deleted() -> None:
    async with small_cluster() as cluster:
        await cluster.installer().install(Options())
        await cluster.create_database("cache")
        remover = cluster.remover()
        listed = await remover.check("redis-operator", everything=True)
        await cluster.create_database("late")
        before = await cluster.state()
        with pytest.raises(InstallError, match="default/late was created meanwhile"):
            await remover.uninstall("redis-operator", everything=True, listed=listed)
        assert await cluster.state() == before
        await cluster.client.delete(REDISES, ("default", "late"))
        await asyncio.sleep(5.0)

        async def race() -> None:
            for _ in range(600):
                await asyncio.sleep(0.1)
                if not await cluster.databases():
                    break
            spec = {"mode": "Standalone"}
            await cluster.client.create(
                REDISES, {"metadata": {"name": "late", "namespace": "default"}, "spec": spec}
            )

        racing = asyncio.create_task(race())
        with pytest.raises(InstallError, match="default/late was created meanwhile"):
            await remover.uninstall("redis-operator", everything=True, listed=listed)
        await racing
        assert [raw["metadata"]["name"] for raw in await cluster.databases()] == ["late"]
