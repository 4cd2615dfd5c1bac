"""The objects of a database on a simulated API server: whose they are, and how they are repaired.

IN-19, K-18, K-28, K-29
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest

from kubecontroller.client.meta import Manifest
from kubecontroller.client.objects import PERSISTENT_VOLUME_CLAIMS
from kubecontroller.client.patches import JsonPatch, MergePatch
from redis_operator.operator.world import CHILD_KINDS, REDIS_VERSIONS, REDISES
from redis_testing.simulation.scenarios import formed
from redis_testing.simulation.system import (
    DATABASE,
    NAMESPACE,
    Simulation,
    database,
    simulate,
)

SERVICE = CHILD_KINDS["v1", "Service"].plain()
SECRET = CHILD_KINDS["v1", "Secret"].plain()
CONFIG_MAP = CHILD_KINDS["v1", "ConfigMap"].plain()
ROLE = CHILD_KINDS["rbac.authorization.k8s.io/v1", "Role"].plain()
CLAIM = PERSISTENT_VOLUME_CLAIMS.plain()
BUDGET = CHILD_KINDS["policy/v1", "PodDisruptionBudget"].plain()
STATEFUL_SET = CHILD_KINDS["apps/v1", "StatefulSet"].plain()
OURS = (NAMESPACE, DATABASE)


def named(kind: Any, name: str, **body: Any) -> Manifest:
    metadata = {"name": name, "namespace": NAMESPACE, "labels": {"app": "postgres"}}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **body}


FOREIGN = {
    "Service": (
        SERVICE,
        named(
            SERVICE,
            "db",
            spec={"selector": {"app": "postgres"}, "ports": [{"name": "sql", "port": 5432}]},
        ),
    ),
    "Role": (
        ROLE,
        named(ROLE, "db", rules=[{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]),
    ),
    "Secret": (SECRET, named(SECRET, "db-auth", data={"password": "cG9zdGdyZXM="})),
    "StatefulSet": (
        STATEFUL_SET,
        named(
            STATEFUL_SET,
            "db-0",
            spec={
                "serviceName": "x",
                "replicas": 0,
                "selector": {"matchLabels": {"app": "postgres"}},
                "template": {
                    "metadata": {"labels": {"app": "postgres"}},
                    "spec": {"containers": [{"name": "a", "image": "b"}]},
                },
            },
        ),
    ),
}


def condition(found: Manifest, kind: str) -> Manifest:
    return next(c for c in found["status"]["conditions"] if c["type"] == kind)


def told(found: Manifest) -> str:
    status = found.get("status") or {}
    return str([status.get("message"), status.get("conditions")])


def as_written(found: Manifest) -> Manifest:
    meta = {
        k: v for k, v in found["metadata"].items() if k not in ("resourceVersion", "managedFields")
    }
    return {**found, "metadata": meta, "status": None}


@pytest.mark.parametrize("kind", FOREIGN)
def test_an_object_of_somebody_else_is_refused_by_name_and_never_touched(kind: str) -> None:
    """K-28"""
    resource, manifest = FOREIGN[kind]
    name = manifest["metadata"]["name"]

    async def scenario(sim: Simulation) -> None:
        made = await sim.client.create(resource, manifest)
        sim.start_operator()
        await sim.apply(database())
        await sim.until(lambda found: "ChildRefused" in told(found), within=30, what="refused")
        found = await sim.redis()
        assert f"{kind} {name}" in told(found)
        assert not sim.is_ready(found)
        await asyncio.sleep(30.0)
        await sim.client.delete(REDISES, OURS)

        async def gone() -> bool:
            return not await sim.found()

        await sim.until_all(gone, within=30, what="gone")
        await asyncio.sleep(10.0)
        kept = await sim.client.get(resource, (NAMESPACE, name))
        assert as_written(kept) == as_written(made)

    simulate(scenario)


def test_a_database_goes_on_once_the_name_is_free() -> None:
    """K-28: the refusal is no dead end."""

    async def scenario(sim: Simulation) -> None:
        await sim.client.create(*FOREIGN["Service"])
        sim.start_operator()
        await sim.apply(database())
        await sim.until(lambda found: "ChildRefused" in told(found), within=30, what="refused")
        await sim.client.delete(SERVICE, OURS)
        await sim.until_ready()

    simulate(scenario)


def test_an_object_marked_with_our_label_is_adopted() -> None:
    """A person hands an object over by its label; so do objects orphaned by an earlier database."""

    async def scenario(sim: Simulation) -> None:
        resource, manifest = FOREIGN["Service"]
        labels = {"redisoperator.dev/database": DATABASE}
        marked = {**manifest, "metadata": {**manifest["metadata"], "labels": labels}}
        await sim.client.create(resource, marked)
        sim.start_operator()
        await sim.apply(database())
        await sim.until_ready()
        found = await sim.client.get(SERVICE, OURS)
        assert found["spec"]["selector"]["redisoperator.dev/database"] == DATABASE
        assert found["metadata"]["ownerReferences"][0]["kind"] == "Redis"

    simulate(scenario)


Edit = Callable[[Simulation], Coroutine[Any, Any, None]]


def patched(kind: Any, name: str, change: Manifest) -> Edit:
    async def edit(sim: Simulation) -> None:
        await sim.client.patch(kind, (NAMESPACE, name), MergePatch(change))

    return edit


async def _disown(sim: Simulation) -> None:
    """Remove every label of ours, or the owner, of objects with and without a generation."""
    for kind, name in ((BUDGET, "db-1"), (STATEFUL_SET, "db-1"), (CONFIG_MAP, "db-config")):
        change = [{"op": "remove", "path": "/metadata/ownerReferences"}]
        await sim.client.patch(kind, (NAMESPACE, name), JsonPatch(change))
    labels = {"redisoperator.dev/database": None}
    for kind, name in ((BUDGET, "db-2"), (STATEFUL_SET, "db-2"), (SECRET, "db-users")):
        change_labels = MergePatch({"metadata": {"labels": labels}})
        await sim.client.patch(kind, (NAMESPACE, name), change_labels)


async def _delete(sim: Simulation) -> None:
    for kind, name in ((SERVICE, "db"), (BUDGET, "db-0"), (CONFIG_MAP, "db-config")):
        await sim.client.delete(kind, (NAMESPACE, name))


EDITS: dict[str, Edit] = {
    "a selector": patched(SERVICE, "db", {"spec": {"selector": {"app": "other"}}}),
    "a budget": patched(BUDGET, "db-0", {"spec": {"maxUnavailable": 0}}),
    "a file": patched(CONFIG_MAP, "db-config", {"data": {"boot.sh": "exit 1"}}),
    "an annotation": patched(
        STATEFUL_SET, "db-0", {"metadata": {"annotations": {"redisoperator.dev/shape": "x"}}}
    ),
    "labels and owners": _disown,
    "deleted": _delete,
}


async def children(sim: Simulation) -> dict[tuple[str, str], Manifest]:
    found = {}
    for kind in CHILD_KINDS.values():
        page = await sim.client.list(kind.plain(), namespace=NAMESPACE)
        for item in page.items:
            meta = item["metadata"]
            found[kind.kind, meta["name"]] = {
                "labels": meta.get("labels"),
                "annotations": meta.get("annotations"),
                "owners": meta.get("ownerReferences"),
                "data": item.get("data"),
                "spec": {k: v for k, v in (item.get("spec") or {}).items() if "IP" not in k},
            }
    return found


@pytest.mark.parametrize("away", [True, False], ids=["while away", "while it runs"])
@pytest.mark.parametrize("edit", EDITS)
def test_what_somebody_edits_is_put_right(edit: str, away: bool) -> None:
    """K-18, K-29"""

    async def scenario(sim: Simulation) -> None:
        if not away:
            sim.start_operator()
            await asyncio.sleep(5.0)
        before = await children(sim)
        await EDITS[edit](sim)
        await asyncio.sleep(1.0)
        if away:
            sim.start_operator()

        async def repaired() -> bool:
            return await children(sim) == before

        await sim.until_all(repaired, within=40, what="repaired")
        await sim.until_ready()

    simulate(scenario, snapshot=formed(database()))


def test_rules_that_a_person_adds_to_the_role_stay() -> None:
    async def scenario(sim: Simulation) -> None:
        sim.start_operator()
        await asyncio.sleep(3.0)
        rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]
        await sim.client.patch(ROLE, OURS, MergePatch({"rules": rules}))
        await asyncio.sleep(15.0)
        for process in sim.processes:
            process.die()
        await asyncio.sleep(30.0)
        assert (await sim.client.get(ROLE, OURS))["rules"] == rules

    simulate(scenario, snapshot=formed(database()))


@pytest.mark.parametrize(("start", "end"), [(1, 2), (2, 1)], ids=["up", "down"])
def test_the_number_of_pods_goes_one_way_when_settings_change_with_it(start: int, end: int) -> None:
    """What was true at the beginning of a pass is not applied at its end."""

    async def scenario(sim: Simulation) -> None:
        counts: list[int] = []

        async def sample() -> None:
            while True:
                found = await sim.client.get(STATEFUL_SET, (NAMESPACE, "db-0"))
                counts.append(found["spec"]["replicas"])
                await asyncio.sleep(0.002)

        sim.start_operator()
        await asyncio.sleep(3.0)
        sim.spawn(sample())
        await sim.change(replicas=end, config={"maxmemory-policy": "allkeys-lru"})
        await sim.until_ready()
        steps = [b - a for a, b in itertools.pairwise(counts) if b != a]
        assert steps == [end - start]

    simulate(scenario, snapshot=formed(database(replicas=start)))


def test_a_database_without_a_version_keeps_the_one_it_was_made_with() -> None:
    """IN-29: neither a new RedisVersion nor another operator changes what runs."""

    async def scenario(sim: Simulation) -> None:
        sim.start_operator()
        await asyncio.sleep(3.0)
        image = (await sim.client.get(STATEFUL_SET, (NAMESPACE, "db-0")))["spec"]["template"]
        for version in ("8.0", "9.9"):
            body = {"engine": "valkey", "version": version, "image": f"valkey/valkey:{version}"}
            entry = {
                "apiVersion": "redisoperator.dev/v1",
                "kind": "RedisVersion",
                "metadata": {"name": f"valkey-{version[0]}"},
                "spec": body,
            }
            await sim.client.create(REDIS_VERSIONS, entry)
        await asyncio.sleep(20.0)
        for process in sim.processes:
            process.die()
        await asyncio.sleep(30.0)
        found = await sim.client.get(STATEFUL_SET, (NAMESPACE, "db-0"))
        assert found["spec"]["template"] == image
        await sim.until_ready()

    manifest = database()
    del manifest["spec"]["version"]
    simulate(scenario, snapshot=formed(manifest))


def test_only_the_operators_own_pods_in_its_namespace_are_let_in() -> None:
    """X-06"""

    async def scenario(sim: Simulation) -> None:
        policy = CHILD_KINDS["networking.k8s.io/v1", "NetworkPolicy"].plain()
        found = await sim.client.get(policy, OURS)
        selectors = [
            peer["namespaceSelector"]
            for rule in found["spec"]["ingress"]
            for peer in rule.get("from") or ()
            if "namespaceSelector" in peer
        ]
        assert selectors == [{"matchLabels": {"kubernetes.io/metadata.name": "default"}}]

    simulate(scenario, snapshot=formed(database()))


def test_objects_are_kept_while_a_version_is_refused() -> None:
    """A Service that is deleted meanwhile comes back; no template says the refused version."""

    async def scenario(sim: Simulation) -> None:
        sim.start_operator()
        await asyncio.sleep(3.0)
        before = await sim.client.get(STATEFUL_SET, (NAMESPACE, "db-0"))
        await sim.change(version="7.2")
        await sim.until(lambda found: "7.2" in told(found), within=30, what="refused")
        await sim.client.delete(SERVICE, OURS)

        async def back() -> bool:
            page = await sim.client.list(SERVICE, namespace=NAMESPACE)
            return any(item["metadata"]["name"] == DATABASE for item in page.items)

        await sim.until_all(back, within=30, what="back")
        found = await sim.client.get(STATEFUL_SET, (NAMESPACE, "db-0"))
        assert found["spec"]["template"] == before["spec"]["template"]

    simulate(scenario, snapshot=formed(database()))


def test_an_engine_that_cannot_read_the_data_is_refused_though_its_version_is_the_same() -> None:
    """I12: a pod that ends meanwhile comes back as what it was."""

    async def scenario(sim: Simulation) -> None:
        sim.start_operator()
        await asyncio.sleep(3.0)
        template = (await sim.client.get(STATEFUL_SET, (NAMESPACE, "db-0")))["spec"]["template"]
        await sim.change(engine="valkey")
        await sim.until(lambda found: "key by key" in told(found), within=30, what="refused")
        await asyncio.sleep(10.0)
        found = await sim.client.get(STATEFUL_SET, (NAMESPACE, "db-0"))
        assert found["spec"]["template"] == template

    simulate(scenario, snapshot=formed(database(engine="redis", version="8.0")))


@pytest.mark.slow
def test_files_of_the_engine_that_still_runs_are_kept() -> None:
    """A pod of the old engine that restarts during the change finds its files."""

    async def scenario(sim: Simulation) -> None:
        sim.start_operator()
        await asyncio.sleep(3.0)
        await sim.change(engine="valkey", version="8.1", update={"paused": True})
        await asyncio.sleep(10.0)
        files = (await sim.client.get(CONFIG_MAP, (NAMESPACE, "db-config")))["data"]
        assert {"redis-7.2.conf", "valkey-8.1.conf"} <= files.keys()
        await sim.change(update={"paused": False})
        await sim.until_ready(within=600)

    simulate(scenario, snapshot=formed(database(engine="redis", version="7.2")))


def test_the_generated_secret_stays_when_the_spec_names_it() -> None:
    """A person writes down what is there; pods of applications mount the Secret."""

    async def scenario(sim: Simulation) -> None:
        sim.start_operator()
        await asyncio.sleep(3.0)
        before = await sim.client.get(SECRET, (NAMESPACE, "db-auth"))
        await sim.change(auth={"secretName": "db-auth"})
        await asyncio.sleep(30.0)
        await sim.until_ready(within=30)
        found = await sim.client.get(SECRET, (NAMESPACE, "db-auth"))
        assert found["data"]["password"] == before["data"]["password"]

    simulate(scenario, snapshot=formed(database()))


def test_labels_of_the_spec_reach_claims_that_exist() -> None:
    """And come back when somebody removes them; labels of others stay."""

    async def labelled(sim: Simulation, count: int = 6, **labels: str) -> bool:
        page = await sim.client.list(CLAIM, namespace=NAMESPACE)
        found = [dict(claim["metadata"]["labels"]) for claim in page.items]
        return len(found) == count and all(labels.items() <= have.items() for have in found)

    async def scenario(sim: Simulation) -> None:
        sim.start_operator()
        await asyncio.sleep(3.0)
        first = (NAMESPACE, "data-db-0-0")
        await sim.client.patch(CLAIM, first, MergePatch({"metadata": {"labels": {"theirs": "1"}}}))
        storage = (await sim.redis())["spec"]["storage"]
        await sim.change(storage={**storage, "labels": {"team": "blue"}})
        team = partial(labelled, sim, team="blue")
        await sim.until_all(team, within=30, what="labelled")
        await sim.until_ready(within=60)
        await sim.client.patch(CLAIM, first, MergePatch({"metadata": {"labels": {"team": None}}}))
        await sim.until_all(team, within=30, what="labelled again")
        kept = await sim.client.get(CLAIM, first)
        assert kept["metadata"]["labels"]["theirs"] == "1"
        await sim.until_ready(within=60)
        before = len(sim.journal.effects)
        await asyncio.sleep(60.0)
        assert not [e for e in sim.journal.effects[before:] if "PATCH persist" in e.kind]

    simulate(scenario, snapshot=formed(database()))
