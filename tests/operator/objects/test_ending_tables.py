"""The end of a database: which claims go with it and which stay, on an API server in this process.

The same under the whole operator is in `test_ending.py`. K-21, K-22, K-31
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.operator.cached import Cached, labelled

from kubecontroller.client.api import Client
from kubecontroller.client.objects import (
    CUSTOM_RESOURCE_DEFINITIONS,
    PERSISTENT_VOLUME_CLAIMS,
    STATEFUL_SETS,
)
from kubecontroller.client.patches import MergePatch
from kubecontroller.client.request import Request, Response
from kubecontroller.runtime.outcomes import Done, Outcome
from kubelocal.apiserver.inprocess import InProcessTransport
from redis_operator.api.crd import redis_crd
from redis_operator.manifests.names import IDENTITY_ANNOTATION
from redis_operator.operator.objects.ending import FINALIZER, Ending, is_protected
from redis_operator.operator.world import REDISES

KEY = ("default", "db")
FORMER = "identity-of-retained-volumes"


class Room(Cached):
    """A database that is being deleted, with a workload and claims."""

    async def create(self, *, finalizers: tuple[str, ...] = (), **spec: Any) -> str:
        await self.client.apply(CUSTOM_RESOURCE_DEFINITIONS.plain(), redis_crd())
        held = [FINALIZER, *finalizers]
        made = await self.client.create(
            REDISES,
            {
                "metadata": {"name": "db", "namespace": "default", "finalizers": held},
                "spec": {"mode": "Cluster", "version": "9.1", "shards": 3, **spec},
            },
        )
        return str(made["metadata"]["uid"])

    async def workload(self, owner: str, *, name: str = "db-0", marked: str = "") -> None:
        reference = {"apiVersion": "redisoperator.dev/v1", "kind": "Redis", "name": "db"}
        meta = labelled(name, ownerReferences=[{**reference, "uid": owner}] if owner else [])
        template = {"metadata": {"name": "data", "annotations": {IDENTITY_ANNOTATION: marked}}}
        pod = {"containers": [{"name": "a", "image": "b"}]}
        spec = {
            "serviceName": "x",
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod},
            "volumeClaimTemplates": [{**template, "spec": _claim()}] if marked else [],
        }
        await self.client.create(STATEFUL_SETS.plain(), {"metadata": meta, "spec": spec})

    async def claim(self, name: str, marked: str, database: str = "db", **meta: Any) -> None:
        found = labelled(name, database, annotations={IDENTITY_ANNOTATION: marked}, **meta)
        await self.client.create(
            PERSISTENT_VOLUME_CLAIMS.plain(), {"metadata": found, "spec": _claim()}
        )

    async def end(self, *, backed_up: bool = False) -> Outcome:
        """Delete the database, and do what the operator does then."""
        await self.client.delete(REDISES, KEY)
        raw = await self.client.get(REDISES, KEY)
        ending = Ending(self.client, lambda _: backed_up)
        return await ending.around(raw, _not_followed)

    async def left(self) -> tuple[set[str], set[str]]:
        """Names of the claims and workloads that stay."""
        claims = await self.client.list(PERSISTENT_VOLUME_CLAIMS, namespace="default")
        sets = await self.client.list(STATEFUL_SETS, namespace="default")
        stay = {claim.metadata.name for claim in claims.items if not claim.metadata.is_deleting}
        return stay, {found.metadata.name for found in sets.items}

    async def is_held(self) -> bool:
        page = await self.client.list(REDISES, namespace="default")
        return bool(page.items)


def _claim() -> dict[str, Any]:
    return {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


async def _not_followed() -> Outcome:
    raise AssertionError("a database that goes is not followed")


@pytest.fixture
def room() -> Room:
    return Room()


async def test_claims_of_this_very_database_go_with_it_and_no_others(room: Room) -> None:
    uid = await room.create()
    await room.workload(uid, marked=FORMER)
    await room.claim("own", uid)
    await room.claim("retained-before", FORMER)
    await room.claim("of-another-time", "another")
    await room.claim("unmarked", "")
    await room.claim("of-another-database", uid, database="other")
    assert await room.end() == Done()
    kept = {"of-another-time", "unmarked", "of-another-database"}
    assert await room.left() == (kept, set())
    assert not await room.is_held()


@pytest.mark.parametrize(
    ("spec", "backed_up", "kept"),
    [
        ({}, False, False),
        ({"deletion": {"policy": "Delete"}}, False, False),
        ({"deletion": {"policy": "Retain"}}, False, True),
        ({"deletion": {"policy": "Retain"}}, True, True),
        ({"deletion": {"policy": "Backup"}}, False, True),
        ({"deletion": {"policy": "Backup"}}, True, False),
        ({"storage": {"size": "1Gi", "retain": True}}, False, True),
        ({"storage": {"size": "1Gi", "retain": False}}, False, False),
        ({"storage": {"size": "1Gi"}}, False, False),
        (
            {"deletion": {"policy": "Backup"}, "storage": {"size": "1Gi", "retain": True}},
            True,
            True,
        ),
    ],
)
async def test_what_the_spec_says_of_volumes(
    room: Room, spec: Any, *, backed_up: bool, kept: bool
) -> None:
    uid = await room.create(**spec)
    await room.workload(uid)
    await room.claim("own", uid)
    await room.end(backed_up=backed_up)
    assert await room.left() == (({"own"}, {"db-0"}) if kept else (set(), set()))
    assert not await room.is_held()


@pytest.mark.parametrize("orphans", ["finalizer", "a workload without its owner"])
async def test_a_deletion_that_orphans_objects_keeps_their_claims(room: Room, orphans: str) -> None:
    uid = await room.create(finalizers=("orphan",) if orphans == "finalizer" else ())
    await room.workload(uid)
    if orphans != "finalizer":
        await room.workload("", name="db-1")
    await room.claim("own", uid)
    await room.end()
    claims, workloads = await room.left()
    assert claims == {"own"}
    assert "db-0" in workloads


async def test_a_protected_database_stays_with_all_it_has(room: Room) -> None:
    uid = await room.create(deletion={"protected": True})
    await room.claim("own", uid)
    assert await room.end() == Done()
    assert await room.left() == ({"own"}, set())
    assert await room.is_held()
    change = MergePatch({"spec": {"deletion": {"protected": False}}})
    raw = await room.client.patch(REDISES, KEY, change)
    await Ending(room.client).around(raw, _not_followed)
    assert await room.left() == (set(), set())
    assert not await room.is_held()


async def test_a_claim_that_goes_already_is_left_alone(room: Room) -> None:
    uid = await room.create()
    await room.claim("own", uid, finalizers=["example.com/held"])
    await room.client.delete(PERSISTENT_VOLUME_CLAIMS, ("default", "own"))
    before = await room.client.get(PERSISTENT_VOLUME_CLAIMS, ("default", "own"))
    await room.end()
    after = await room.client.get(PERSISTENT_VOLUME_CLAIMS, ("default", "own"))
    assert before.metadata.resource_version == after.metadata.resource_version


@pytest.mark.parametrize(
    ("raw", "protected"),
    [
        ({}, False),
        ({"spec": None}, False),
        ({"spec": {"deletion": None}}, False),
        ({"spec": {"deletion": {"protected": True}}}, True),
        ({"spec": {"deletion": {"protected": "true"}}}, False),
    ],
)
def test_what_forbids_a_deletion(raw: Any, *, protected: bool) -> None:
    assert is_protected(raw) == protected


async def test_a_database_that_stays_is_held_first_and_followed_then(room: Room) -> None:
    await room.create()
    raw = await room.client.get(REDISES, KEY)
    followed = []

    async def follow() -> Outcome:
        followed.append(True)
        return Done()

    await Ending(room.client).around(raw, follow)
    assert followed == [True]
    bare = await room.client.patch(REDISES, KEY, MergePatch({"metadata": {"finalizers": None}}))
    await Ending(room.client).around(bare, _not_followed)
    assert (await room.client.get(REDISES, KEY))["metadata"]["finalizers"] == [FINALIZER]


class Meanwhile(InProcessTransport):
    """Something happens right before a StatefulSet is deleted."""

    happens: Callable[[], Awaitable[None]]

    async def request(self, request: Request, *, timeout: float) -> Response:
        if request.method == "DELETE" and "statefulsets" in request.path:
            await self.happens()
        return await super().request(request, timeout=timeout)


async def test_claims_go_before_their_workload_and_those_that_it_makes_meanwhile_too(
    room: Room,
) -> None:
    uid = await room.create()
    await room.workload(uid)
    await room.claim("own", uid)

    async def makes_another() -> None:
        assert (await room.left())[0] == set()
        await room.claim("made-meanwhile", uid)

    transport = Meanwhile(room.server)
    transport.happens = makes_another
    room.client = Client(transport)
    await room.end()
    assert await room.left() == (set(), set())


async def test_nothing_is_known_to_be_backed_up_by_itself(room: Room) -> None:
    uid = await room.create(deletion={"policy": "Backup"})
    await room.claim("own", uid)
    await room.client.delete(REDISES, KEY)
    raw = await room.client.get(REDISES, KEY)
    await Ending(room.client).around(raw, _not_followed)
    assert await room.left() == ({"own"}, set())
