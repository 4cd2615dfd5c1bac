"""Steps on Kubernetes objects: what is deleted, scaled and labelled, and what stays.

`ClusterObjects` on an API server in this process. Refusals of plans that are too old are in
`test_guards.py`. K-05, K-07, K-11
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from tests.operator.cached import Cached, labelled
from tests.operator.scripted import refusal

from kubecontroller.client.api import Client
from kubecontroller.client.objects import PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS
from kubecontroller.client.patches import MergePatch
from kubecontroller.client.request import Request, Response
from kubelocal.apiserver.inprocess import InProcessTransport
from redis_operator.manifests.cluster import CLUSTER
from redis_operator.manifests.names import DATABASE_LABEL, ROLE_LABEL
from redis_operator.operator.live import ApiPods, LivePod
from redis_operator.operator.objects.actions import ClusterObjects
from redis_operator.planning.actions import (
    DeletePod,
    DeleteWorkload,
    DiscardData,
    GrowVolume,
    LabelClaim,
    LabelPod,
    LabelRole,
    ResizePod,
    ScaleWorkload,
)
from redis_operator.planning.at import At
from redis_operator.planning.identity import NodeId, Role
from redis_operator.planning.preconditions import ServerFacts
from redis_operator.redis.errors import LostError

POD, CLAIM = "db-0-1", "data-db-0-1"
KEEPER = At("db-0-0", "uid-keeper", "10.0.0.1", NodeId("a" * 40))


class Servers:
    """The servers of the database, as far as objects are concerned."""

    def __init__(self) -> None:
        self.found: ServerFacts | None = ServerFacts(NodeId("a" * 40), Role.PRIMARY, keys=5)
        self.asked: list[str] = []

    async def facts(self, pod: str, uid: str) -> ServerFacts:
        self.asked.append(pod)
        if self.found is None:
            raise LostError("gone")
        return self.found


class Wire(InProcessTransport):
    """The API server, and who else writes to it, or makes it fail, in the middle of a step."""

    meanwhile: dict[str, Callable[[], Awaitable[None]]]

    async def request(self, request: Request, *, timeout: float) -> Response:
        what = f"{request.method} {request.path.split('/')[-2]}"
        if what in self.meanwhile:
            await self.meanwhile.pop(what)()
        return await super().request(request, timeout=timeout)


class Room(Cached):
    def __init__(self) -> None:
        super().__init__()
        self.servers, self.written = Servers(), []  # type: ignore[var-annotated]
        self.wire = Wire(self.server)
        self.wire.meanwhile = {}
        self.keep_claims = False

    async def do(self, action: Any) -> str:
        objects = ClusterObjects(
            Client(self.wire),
            "default",
            "db",
            self.servers,  # type: ignore[arg-type]
            layout=CLUSTER,
            keep_claims=self.keep_claims,
            on_written=self.written.append,
        )
        return await refusal(objects.effects(), action)

    async def pod(self, *, ready: bool = False, **meta: Any) -> str:
        spec = {"containers": [{"name": "server", "image": "x"}]}
        made = await self.client.create(
            PODS.plain(), {"metadata": labelled(POD, **meta), "spec": spec}
        )
        status = [{"name": "other", "ready": True}, {"name": "server", "ready": ready}]
        change = {"status": {"containerStatuses": status, "podIP": "10.0.0.2"}}
        await self.client.patch(PODS, ("default", POD), MergePatch(change), subresource="status")
        return str(made["metadata"]["uid"])

    async def claim(self, name: str = CLAIM, database: str = "db", **meta: Any) -> str:
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        made = await self.client.create(
            PERSISTENT_VOLUME_CLAIMS.plain(),
            {"metadata": labelled(name, database, **meta), "spec": spec},
        )
        return str(made["metadata"]["uid"])

    async def workload(self, pods: int = 3) -> str:
        template = {"containers": [{"name": "server", "image": "x"}]}
        spec = {
            "serviceName": "x",
            "replicas": pods,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": template},
        }
        made = await self.client.create(
            STATEFUL_SETS.plain(), {"metadata": labelled("db-0"), "spec": spec}
        )
        return str(made["metadata"]["uid"])

    async def stays(self, kind: Any) -> set[str]:
        """Names of those that are not on their way out."""
        page = await self.client.list(kind, namespace="default")
        return {o.metadata.name for o in page.items if not o.metadata.is_deleting}

    async def replicas(self) -> int:
        found = await self.client.get(STATEFUL_SETS, ("default", "db-0"))
        return found.spec.replicas or 0


@pytest.fixture
def room() -> Room:
    return Room()


# Pods


@pytest.mark.parametrize(
    ("expect", "server", "deleted"),
    [
        ({}, None, True),
        ({"expect_id": NodeId("a" * 40)}, NodeId("a" * 40), True),
        ({"expect_id": NodeId("b" * 40)}, NodeId("a" * 40), False),
        ({"expect_role": Role.PRIMARY}, NodeId("a" * 40), True),
        ({"expect_role": Role.REPLICA}, NodeId("a" * 40), False),
        ({"expect_id": NodeId("a" * 40)}, None, False),
    ],
    ids=["silent", "the node", "another", "the role", "another role", "silent since"],
)
async def test_a_pod_is_deleted_whose_server_is_what_the_plan_took_it_for(
    room: Room, expect: Any, server: NodeId | None, *, deleted: bool
) -> None:
    uid = await room.pod()
    room.servers.found = ServerFacts(server, Role.PRIMARY) if server else None
    why = await room.do(DeletePod(POD, uid, "why", **expect))
    assert (why == "") == deleted, why
    assert (await room.stays(PODS) == set()) == deleted
    assert room.servers.asked == ([POD] if expect else [])


async def test_a_pod_that_is_gone_is_deleted_and_another_is_not(room: Room) -> None:
    assert await room.do(DeletePod(POD, "uid", "why")) == ""
    await room.pod()
    assert await room.do(DeletePod(POD, "another", "why", expect_id=NodeId("a"))) != ""
    assert await room.stays(PODS) == {POD}
    assert room.servers.asked == []


@pytest.mark.parametrize(
    ("label", "action"),
    [
        ((ROLE_LABEL, "primary"), lambda uid: LabelRole(POD, uid, Role.PRIMARY)),
        (("a", "b"), lambda uid: LabelPod(POD, uid, (("a", "b"),))),
    ],
    ids=["role", "labels"],
)
async def test_a_pod_is_labelled_and_noted_as_written(
    room: Room, label: tuple[str, str], action: Any
) -> None:
    uid = await room.pod()
    assert await room.do(action(uid)) == ""
    found = await room.client.get(PODS, ("default", POD))
    assert (found.metadata.labels or {})[label[0]] == label[1]
    assert [pod.metadata.resource_version for pod in room.written] == [
        found.metadata.resource_version
    ]
    assert "Refused" in await room.do(action("another"))


# Broken files


def discard(uid: str, claim_uid: str = "", *, claim: str = CLAIM) -> DiscardData:
    return DiscardData(POD, uid, KEEPER, claim=claim, claim_uid=claim_uid)


async def test_broken_files_go_with_their_pod_while_another_holds_the_data(room: Room) -> None:
    uid, claim = await room.pod(), await room.claim()
    await room.claim("data-db-0-0")
    assert await room.do(discard(uid, claim)) == ""
    assert await room.stays(PODS) == set()
    assert await room.stays(PERSISTENT_VOLUME_CLAIMS) == {"data-db-0-0"}
    assert await room.do(discard(uid, claim)) == ""  # once more, nothing is left to be done


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"keeper": None}, "db-0-0 does not respond"),
        ({"ready": True}, ""),
        ({"claim_uid": "another"}, ""),
        ({"database": "other"}, ""),
    ],
    ids=["the keeper is silent", "it is ready again", "another claim", "of another database"],
)
async def test_files_stay_where_anything_is_not_as_planned(
    room: Room, change: dict[str, Any], words: str
) -> None:
    uid = await room.pod(ready=change.get("ready", False))
    claim = await room.claim(database=change.get("database", "db"))
    if "keeper" in change:
        room.servers.found = None
    why = await room.do(discard(uid, change.get("claim_uid", claim)))
    assert why != ""
    assert words in why
    assert await room.stays(PODS) == {POD}
    assert await room.stays(PERSISTENT_VOLUME_CLAIMS) == {CLAIM}


async def test_a_pod_without_a_claim_is_discarded_alone(room: Room) -> None:
    uid = await room.pod()
    await room.claim()
    assert await room.do(discard(uid, claim="")) == ""
    assert await room.stays(PERSISTENT_VOLUME_CLAIMS) == {CLAIM}
    assert await room.stays(PODS) == set()


async def test_a_pod_that_changed_since_it_was_read_stays(room: Room) -> None:
    """It may be ready by now: its files could be loaded after all."""
    uid, claim = await room.pod(), await room.claim()

    async def changes() -> None:
        change = MergePatch({"metadata": {"annotations": {"a": "b"}}})
        await room.client.patch(PODS, ("default", POD), change)

    room.wire.meanwhile["DELETE pods"] = changes
    assert "Refused: Pod db-0-1 changed meanwhile" in await room.do(discard(uid, claim))
    assert await room.stays(PODS) == {POD}


async def test_a_claim_that_changed_since_it_was_read_stays(room: Room) -> None:
    uid, claim = await room.pod(), await room.claim()

    async def changes() -> None:
        change = MergePatch({"metadata": {"labels": {DATABASE_LABEL: "other"}}})
        await room.client.patch(PERSISTENT_VOLUME_CLAIMS, ("default", CLAIM), change)

    room.wire.meanwhile["DELETE persistentvolumeclaims"] = changes
    assert "Refused" in await room.do(discard(uid, claim))
    assert await room.stays(PERSISTENT_VOLUME_CLAIMS) == {CLAIM}
    assert await room.stays(PODS) == {POD}


# Workloads


@pytest.mark.parametrize(
    ("discards", "keep", "claims"),
    [
        (True, False, {"data-db-0-0"}),
        (True, True, {"data-db-0-0", "data-db-0-1", "data-db-0-2"}),
        (False, False, {"data-db-0-0", "data-db-0-1", "data-db-0-2"}),
    ],
    ids=["discarded", "retained", "asleep"],
)
async def test_claims_of_pods_that_do_not_come_back_go_with_them(
    room: Room, claims: set[str], *, discards: bool, keep: bool
) -> None:
    uid = await room.workload(3)
    for ordinal in range(3):
        await room.claim(f"data-db-0-{ordinal}")
    room.keep_claims = keep
    assert await room.do(ScaleWorkload(0, uid, 3, 1, discard=discards)) == ""
    assert await room.replicas() == 1
    assert await room.stays(PERSISTENT_VOLUME_CLAIMS) == claims


@pytest.mark.parametrize("moved", ["uid", "replicas"])
async def test_a_workload_that_is_not_as_planned_is_not_scaled(room: Room, moved: str) -> None:
    uid = await room.workload(3)
    await room.claim("data-db-0-2")
    action = ScaleWorkload(0, "another" if moved == "uid" else uid, 3, 2, discard=True)
    if moved == "replicas":
        scaled = MergePatch({"spec": {"replicas": 5}})
        await room.client.patch(STATEFUL_SETS, ("default", "db-0"), scaled)
    assert "Refused" in await room.do(action)
    assert await room.replicas() == (3 if moved == "uid" else 5)
    assert await room.stays(PERSISTENT_VOLUME_CLAIMS) == {"data-db-0-2"}


async def test_a_workload_that_was_scaled_in_the_same_moment_is_refused(room: Room) -> None:
    uid = await room.workload(3)

    async def scaled() -> None:
        change = MergePatch({"spec": {"replicas": 5}})
        await room.client.patch(STATEFUL_SETS, ("default", "db-0"), change)

    room.wire.meanwhile["PATCH statefulsets"] = scaled
    assert "Refused" in await room.do(ScaleWorkload(0, uid, 3, 2))
    assert await room.replicas() == 5


async def test_a_workload_that_was_recreated_in_the_same_moment_is_not_scaled(room: Room) -> None:
    uid = await room.workload(3)

    async def recreated() -> None:
        await room.client.delete(STATEFUL_SETS, ("default", "db-0"))
        await room.workload(3)

    room.wire.meanwhile["PATCH statefulsets"] = recreated
    assert "Refused" in await room.do(ScaleWorkload(0, uid, 3, 2))
    assert await room.replicas() == 3


async def test_a_shard_that_was_scaled_since_it_was_read_stays(room: Room) -> None:
    """Its claims were counted by what was read: one more pod has one more claim."""
    uid = await room.workload(1)

    async def scaled() -> None:
        change = MergePatch({"spec": {"replicas": 5}})
        await room.client.patch(STATEFUL_SETS, ("default", "db-0"), change)

    room.wire.meanwhile["DELETE statefulsets"] = scaled
    assert "Refused: StatefulSet db-0 changed meanwhile" in await room.do(DeleteWorkload(0, uid))
    assert await room.stays(STATEFUL_SETS) == {"db-0"}


@pytest.mark.parametrize("keep", [False, True])
async def test_a_shard_that_left_goes_with_its_claims_unless_they_are_kept(
    room: Room, *, keep: bool
) -> None:
    uid = await room.workload(2)
    for ordinal in range(3):
        await room.claim(f"data-db-0-{ordinal}")
    await room.claim("data-db-1-0")
    room.keep_claims = keep
    assert await room.do(DeleteWorkload(0, uid)) == ""
    assert await room.stays(STATEFUL_SETS) == set()
    left = {"data-db-0-2", "data-db-1-0"}
    kept = {"data-db-0-0", "data-db-0-1"} if keep else set()
    assert await room.stays(PERSISTENT_VOLUME_CLAIMS) == left | kept
    assert await room.do(DeleteWorkload(0, uid)) == ""


async def test_a_shard_that_is_another_one_stays(room: Room) -> None:
    await room.workload(1)
    await room.claim("data-db-0-0")
    assert "Refused" in await room.do(DeleteWorkload(0, "another"))
    assert await room.stays(STATEFUL_SETS) == {"db-0"}
    assert await room.stays(PERSISTENT_VOLUME_CLAIMS) == {"data-db-0-0"}


async def test_a_claim_of_another_database_is_not_deleted_with_a_shard(room: Room) -> None:
    uid = await room.workload(1)
    await room.claim("data-db-0-0", "other")
    assert "Refused" in await room.do(DeleteWorkload(0, uid))
    assert await room.stays(STATEFUL_SETS) == {"db-0"}


# Volumes


async def test_a_volume_is_asked_to_grow_if_it_is_that_one(room: Room) -> None:
    uid = await room.claim()
    bound = MergePatch({"status": {"phase": "Bound"}})
    key = ("default", CLAIM)
    await room.client.patch(PERSISTENT_VOLUME_CLAIMS, key, bound, subresource="status")
    assert await room.do(GrowVolume(CLAIM, uid, 2**31)) == ""
    found = await room.client.get(PERSISTENT_VOLUME_CLAIMS.plain(), ("default", CLAIM))
    assert found["spec"]["resources"]["requests"]["storage"] in ("2147483648", "2Gi")
    assert "Refused: claim data-db-0-1 changed meanwhile" in await room.do(
        GrowVolume(CLAIM, "another", 2**32)
    )
    assert "Refused" in await room.do(GrowVolume("none", uid, 2**32))
    assert "Failed: claim data-db-0-1 cannot grow" in await room.do(GrowVolume(CLAIM, uid, 1))


async def test_a_claim_is_labelled_if_it_is_that_one(room: Room) -> None:
    uid = await room.claim()
    assert await room.do(LabelClaim(CLAIM, uid, (("team", "blue"),))) == ""
    found = await room.client.get(PERSISTENT_VOLUME_CLAIMS, ("default", CLAIM))
    assert (found.metadata.label("team"), found.metadata.label(DATABASE_LABEL)) == ("blue", "db")
    assert "Refused" in await room.do(LabelClaim(CLAIM, "another", (("team", "red"),)))
    assert "Refused" in await room.do(LabelClaim("none", uid, (("team", "red"),)))
    wrong = await room.do(LabelClaim(CLAIM, uid, (("team", "not a value"),)))
    assert "Failed: claim data-db-0-1 cannot be labelled" in wrong


async def test_a_pod_is_resized_in_the_part_that_is_asked_for(room: Room) -> None:
    sent: list[Request] = []

    class Resizing(InProcessTransport):
        async def request(self, request: Request, *, timeout: float) -> Response:
            sent.append(request)
            return await super().request(
                Request(method="GET", path=request.path.removesuffix("/resize")), timeout=timeout
            )

    uid = await room.pod()
    room.wire = Resizing(room.server)  # type: ignore[assignment]
    resources = (("limits.memory", "2Gi"), ("requests.hugepages-2Mi.x", "1"))
    assert await room.do(ResizePod(POD, uid, resources)) == ""
    body = msgspec.json.decode(sent[0].body or b"")
    (container,) = body["spec"]["containers"]
    assert container["resources"] == {
        "limits": {"memory": "2Gi"},
        "requests": {"hugepages-2Mi.x": "1"},
    }
    assert (container["name"], body["metadata"]["uid"]) == ("server", uid)
    assert [pod.metadata.name for pod in room.written] == [POD]


# Pods as the API has them


async def test_a_pod_is_read_as_it_is_now(room: Room) -> None:
    pods = ApiPods(room.client, "default")
    assert await pods.read(POD) is None
    uid = await room.pod()
    assert await pods.read(POD) == LivePod(uid, "10.0.0.2")
