"""The end of a database takes its own volumes along, never those of another. K-21, K-22, K-31"""

from __future__ import annotations

import asyncio

from kubecontroller.client.api import Propagation
from kubecontroller.client.meta import Manifest
from kubecontroller.client.objects import PERSISTENT_VOLUME_CLAIMS, PODS, SERVICES
from kubecontroller.runtime.outcomes import Outcome
from redis_operator.manifests.names import IDENTITY_ANNOTATION
from redis_operator.operator.objects.ending import Ending
from redis_operator.operator.world import REDISES
from redis_testing.simulation.scenarios import formed
from redis_testing.simulation.system import (
    DATABASE,
    NAMESPACE,
    Simulation,
    database,
    simulate,
)

KEY = (NAMESPACE, DATABASE)


async def claims(sim: Simulation) -> dict[str, tuple[str, bool]]:
    page = await sim.client.list(PERSISTENT_VOLUME_CLAIMS, namespace=NAMESPACE)
    return {
        c.metadata.name: (c.metadata.annotation(IDENTITY_ANNOTATION), c.metadata.is_deleting)
        for c in page.items
    }


async def until_gone(sim: Simulation) -> None:
    async def gone() -> bool:
        return not await sim.found()

    await sim.until_all(gone, within=30, what="gone")


async def deleted_and_made_again(sim: Simulation) -> Manifest:
    """Return the database that went, with the mark of its end, after a new one has come."""
    sim.start_operator()
    await asyncio.sleep(3.0)
    old = await sim.redis()
    sim.ledger.promised.clear()
    await sim.client.delete(REDISES, KEY)
    await until_gone(sim)
    await sim.apply(database())
    await sim.until_ready(within=300)
    when = sim.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    return {**old, "metadata": {**old["metadata"], "deletionTimestamp": when}}


def test_a_database_recreated_at_once_has_volumes_and_an_identity_of_its_own() -> None:
    async def scenario(sim: Simulation) -> None:
        old = await deleted_and_made_again(sim)
        new = await sim.redis()
        assert old["metadata"]["uid"] != new["metadata"]["uid"]
        assert set((await claims(sim)).values()) == {(new["metadata"]["uid"], False)}

    simulate(scenario, snapshot=formed(database()))


async def not_followed() -> Outcome:
    raise AssertionError("a database that goes is not followed")


def test_a_cache_that_shows_a_database_of_long_ago_costs_the_new_one_nothing() -> None:
    async def scenario(sim: Simulation) -> None:
        old = await deleted_and_made_again(sim)
        before = await claims(sim)
        await Ending(sim.client).around(old, follow=not_followed)
        assert await claims(sim) == before
        assert not any(deleting for _, deleting in before.values())
        await asyncio.sleep(15.0)
        await sim.until_ready()

    simulate(scenario, snapshot=formed(database()))


def test_servers_that_are_orphaned_keep_their_volumes() -> None:
    async def scenario(sim: Simulation) -> None:
        sim.start_operator()
        await asyncio.sleep(3.0)
        await sim.client.delete(REDISES, KEY, propagation=Propagation.ORPHAN)
        await until_gone(sim)
        await asyncio.sleep(10.0)
        found = await claims(sim)
        assert len(found) == 6
        assert not any(deleting for _, deleting in found.values())
        page = await sim.client.list(PODS, namespace=NAMESPACE)
        assert len(page.items) == 6

    simulate(scenario, snapshot=formed(database()))


def test_claims_that_belong_to_others_stay() -> None:
    """A claim with the database's label and another identity is somebody else's data."""

    async def scenario(sim: Simulation) -> None:
        sim.start_operator()
        await asyncio.sleep(3.0)
        claim = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": "precious",
                "namespace": NAMESPACE,
                "labels": {"redisoperator.dev/database": DATABASE},
                "annotations": {IDENTITY_ANNOTATION: "another"},
            },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
        sim.ledger.promised.clear()
        await sim.client.delete(REDISES, KEY)
        await sim.client.create(PERSISTENT_VOLUME_CLAIMS.plain(), claim)
        await until_gone(sim)
        await asyncio.sleep(60.0)
        assert await claims(sim) == {"precious": ("another", False)}

    simulate(scenario, snapshot=formed(database()))


def test_a_protected_database_goes_on_until_its_owner_lets_it_go() -> None:
    """K-21: `kubectl delete` by mistake costs nothing."""

    async def scenario(sim: Simulation) -> None:
        sim.start_operator()
        await asyncio.sleep(3.0)
        await sim.client.delete(REDISES, KEY)
        await sim.until(
            lambda found: "DeletionProtected" in str(found.get("status")), within=30, what="held"
        )
        await asyncio.sleep(60.0)
        page = await sim.client.list(PODS, namespace=NAMESPACE)
        assert len(page.items) == 6
        assert not any(pod.metadata.is_deleting for pod in page.items)
        assert not any(deleting for _, deleting in (await claims(sim)).values())
        await sim.delete_pod("db-0-1")
        await asyncio.sleep(5.0)
        await sim.until_ready()  # it is healed as ever
        sim.ledger.promised.clear()
        await sim.change(deletion={"protected": False})
        await until_gone(sim)

    simulate(scenario, snapshot=formed(database(deletion={"protected": True})))


def test_a_protected_database_that_is_orphaned_leaves_its_servers_when_it_is_let_go() -> None:
    """K-31: what the deletion asked for is not forgotten while the database is held."""

    async def scenario(sim: Simulation) -> None:
        sim.start_operator()
        await asyncio.sleep(3.0)
        before = await servers(sim)
        await sim.client.delete(REDISES, KEY, propagation=Propagation.ORPHAN)
        await asyncio.sleep(60.0)
        assert await servers(sim) == before
        await sim.delete_pod("db-0-1")
        await asyncio.sleep(5.0)
        await sim.until_ready()  # it is healed while it is held
        before = await servers(sim)
        await sim.change(deletion={"protected": False})
        await until_gone(sim)
        await asyncio.sleep(60.0)
        assert await servers(sim) == before
        found = await claims(sim)
        assert len(found) == 6
        assert not any(deleting for _, deleting in found.values())
        page = await sim.client.list(SERVICES, namespace=NAMESPACE)
        assert DATABASE in [service.metadata.name for service in page.items]

    simulate(scenario, snapshot=formed(database(deletion={"protected": True})))


async def servers(sim: Simulation) -> set[str]:
    page = await sim.client.list(PODS, namespace=NAMESPACE)
    return {pod.metadata.uid for pod in page.items if not pod.metadata.is_deleting}
