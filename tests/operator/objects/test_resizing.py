"""How pods get other resources while they run, as the API of Kubernetes 1.33 has it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from kubecontroller.client.api import Client
from kubecontroller.client.request import Request, Response
from redis_operator.manifests.cluster import CLUSTER
from redis_operator.operator.errors import Failed
from redis_operator.operator.objects.actions import ClusterObjects
from redis_operator.operator.objects.resizing import Resizing
from redis_operator.planning.actions import ResizePod
from redis_operator.planning.observed import Pod, Workload
from redis_operator.planning.preconditions import ActionFacts

OLD, NEW = (("limits.memory", "1Gi"),), (("limits.memory", "2Gi"),)
POD = Pod("cache-0-1", "u1", 0, 1, shape="s", resources=OLD)
WORKLOAD = Workload(0, "cache-0", "w0", 2, "r2", shape="s", resources=NEW)


class Answers:
    """An API server that answers what it is told to, and remembers what it was asked."""

    def __init__(self, **answers: tuple[int, dict[str, Any]]) -> None:
        self.answers = answers
        self.asked: list[Request] = []

    async def request(self, request: Request, *, timeout: float) -> Response:
        self.asked.append(request)
        status, body = self.answers[request.method]
        return Response(status, {"content-type": "application/json"}, json.dumps(body).encode())

    def stream(
        self, request: Request, *, idle: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        raise AssertionError(request)

    async def close(self) -> None:
        pass


def listed(*names: str) -> dict[str, Any]:
    found = [{"name": name, "kind": "Pod", "namespaced": True, "verbs": []} for name in names]
    return {"kind": "APIResourceList", "groupVersion": "v1", "resources": found}


@pytest.mark.parametrize(
    ("names", "expected"), [(("pods", "pods/resize"), True), (("pods", "pods/status"), False)]
)
async def test_discovery_tells_whether_pods_can_be_resized(
    names: tuple[str, ...], expected: bool
) -> None:
    server = Answers(GET=(200, listed(*names)))
    resizing = Resizing(Client(server))
    for _ in range(3):
        assert await resizing.is_possible([POD], [WORKLOAD]) is expected
    assert [request.path for request in server.asked] == ["/api/v1"]


async def test_nobody_is_asked_while_no_pod_differs_in_its_size() -> None:
    server = Answers()
    same = Workload(0, "cache-0", "w0", 2, "r2", shape="s", resources=OLD)
    other = Workload(0, "cache-0", "w0", 2, "r2", shape="another", resources=NEW)
    assert not await Resizing(Client(server)).is_possible([POD], [same])
    assert not await Resizing(Client(server)).is_possible([POD], [other])


async def resize(server: Answers, action: ResizePod) -> None:
    objects = ClusterObjects(
        Client(server), "prod", "cache", None, layout=CLUSTER, keep_claims=True
    )  # type: ignore[arg-type]
    await objects.effects()[ResizePod].do(action, ActionFacts())


async def test_only_the_server_of_exactly_that_pod_is_resized() -> None:
    server = Answers(PATCH=(200, {"kind": "Pod", "metadata": {"name": "cache-0-1", "uid": "u1"}}))
    await resize(server, ResizePod("cache-0-1", "u1", (*NEW, ("requests.cpu", "2"))))
    [request] = server.asked
    assert request.path == "/api/v1/namespaces/prod/pods/cache-0-1/resize"
    assert json.loads(request.body) == {
        "metadata": {"uid": "u1"},
        "spec": {
            "containers": [
                {
                    "name": "server",
                    "resources": {"limits": {"memory": "2Gi"}, "requests": {"cpu": "2"}},
                }
            ]
        },
    }


async def test_a_refused_resize_is_told_and_nothing_is_done() -> None:
    why = {"kind": "Status", "reason": "Invalid", "message": "pod QOS class must not change"}
    server = Answers(PATCH=(422, why | {"code": 422, "status": "Failure"}))
    with pytest.raises(Failed, match="QOS class"):
        await resize(server, ResizePod("cache-0-1", "u1", NEW))
