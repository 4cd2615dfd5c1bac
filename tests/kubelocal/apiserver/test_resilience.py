"""Input that asks for too much, and failures inside the server: each costs one request at most."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web
from tests.kubelocal.apiserver.conftest import Cluster

from kubecontroller.client.api import Client
from kubecontroller.client.errors import KubeError
from kubecontroller.client.objects import CONFIG_MAPS
from kubecontroller.client.request import Request
from kubelocal.apiserver.admission.webhook_client import WebhookCaller
from kubelocal.apiserver.calls import CallWebhook, User, WebhookFailed, WebhookReply
from kubelocal.apiserver.inprocess import InProcessTransport
from kubelocal.apiserver.kinds.quantities import amount, canonical_quantity, parse_quantity
from kubelocal.apiserver.server import ApiServer
from kubelocal.apiserver.storage.store import Store


@pytest.mark.parametrize("text", ["1e999999999", "-1e999999999", "1e-999999999", "1E3000000"])
def test_an_amount_with_a_huge_exponent_is_read_at_once(text: str) -> None:
    spent = time.process_time()
    assert parse_quantity(text) is not None
    assert canonical_quantity(text)
    assert time.process_time() - spent < 60, "it would take hours"


def test_an_amount_of_very_many_digits_is_refused() -> None:
    assert parse_quantity("9" * 5000) is None
    assert canonical_quantity("9" * 5000) == "9" * 5000


def test_a_claim_of_a_huge_size_is_answered(cluster: Cluster) -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1e999999999"}},
        },
    }
    answer = cluster.ask("POST", "/api/v1/namespaces/default/persistentvolumeclaims", claim)
    assert answer.status in (201, 422)


@pytest.mark.parametrize("text", ["100n", "5u", "1e3", "0.5", "3Ki"])
def test_controllers_read_every_amount_that_the_server_accepts(text: str) -> None:
    assert amount(text) == float(parse_quantity(text) or 0)


def act_as(cluster: Cluster, user: User, *headers: tuple[str, str]) -> Any:
    request = Request(
        method="GET", path="/api/v1/namespaces/default/secrets", headers=tuple(headers)
    )
    steps = cluster.server.handle(request, user)
    try:
        next(steps)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits")


def allow(cluster: Cluster, user: str, *rules: dict[str, Any]) -> None:
    roles = "/apis/rbac.authorization.k8s.io/v1"
    group = "rbac.authorization.k8s.io"
    cluster.post(
        f"{roles}/clusterroles",
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": user},
            "rules": list(rules),
        },
    )
    cluster.post(
        f"{roles}/clusterrolebindings",
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": user},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": user},
            "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
        },
    )


def impersonates(resource: str, *names: str) -> dict[str, Any]:
    return {
        "apiGroups": [""],
        "resources": [resource],
        "verbs": ["impersonate"],
        "resourceNames": list(names),
    }


ALICE = User("alice", ("system:authenticated",))


def test_groups_are_impersonated_only_by_who_may(cluster: Cluster) -> None:
    allow(cluster, "alice", impersonates("users", "bob"), impersonates("groups", "friends"))
    as_bob = ("Impersonate-User", "bob")
    masters = ("Impersonate-Group", "system:masters")
    friends = ("Impersonate-Group", "friends")
    refused = cluster.bad(act_as(cluster, ALICE, as_bob))
    assert 'User "bob" cannot list' in refused["message"], "she acts as him, who may not"
    for headers in ((as_bob, masters), (as_bob, masters, friends), (as_bob, friends, masters)):
        refused = cluster.bad(act_as(cluster, ALICE, *headers))
        assert 'User "alice" cannot impersonate resource "groups"' in refused["message"]
    joined = ("Impersonate-Group", "friends,system:masters")
    assert "cannot impersonate" in cluster.bad(act_as(cluster, ALICE, as_bob, joined))["message"]
    refused = cluster.bad(act_as(cluster, ALICE, as_bob, friends))
    assert 'User "bob" cannot list' in refused["message"]


def test_every_group_header_counts(cluster: Cluster) -> None:
    allow(cluster, "alice", impersonates("users", "bob"), impersonates("groups"))
    headers = (
        ("Impersonate-User", "bob"),
        ("Impersonate-Group", "system:masters"),
        ("Impersonate-Group", "friends"),
    )
    assert act_as(cluster, ALICE, *headers).status == 200


def test_groups_alone_make_nobody(cluster: Cluster) -> None:
    answer = act_as(cluster, ALICE, ("Impersonate-Group", "system:masters"))
    assert "without impersonating a user" in cluster.bad(answer)["message"]


def test_a_service_account_is_impersonated_by_a_right_on_service_accounts(cluster: Cluster) -> None:
    robot = ("Impersonate-User", "system:serviceaccount:default:robot")
    allow(cluster, "alice", impersonates("users"))
    refused = cluster.bad(act_as(cluster, ALICE, robot))
    assert 'cannot impersonate resource "serviceaccounts"' in refused["message"]
    allow(cluster, "carol", impersonates("serviceaccounts", "robot"))
    refused = cluster.bad(act_as(cluster, User("carol", ("system:authenticated",)), robot))
    assert "serviceaccount:default:robot" in refused["message"]


class FullDisk:
    """A journal on a disk without room."""

    def __init__(self) -> None:
        self.is_full = False

    def record(self, *_: object, **__: object) -> None:
        if self.is_full:
            raise sqlite3.OperationalError("database or disk is full")


async def test_a_full_disk_is_an_answer_within_the_process_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = FullDisk()
    server = ApiServer(Store(journal=disk), clock=lambda: datetime.now(UTC))
    client = Client(InProcessTransport(server))
    body = {"metadata": {"name": "a", "namespace": "default"}}
    disk.is_full = True
    with (
        caplog.at_level(logging.ERROR),
        pytest.raises(KubeError, match="database or disk is full"),
    ):
        await client.create(CONFIG_MAPS.plain(), body)
    assert "POST /api/v1/namespaces/default/configmaps failed inside the API server" in caplog.text
    assert "OperationalError" in caplog.text
    disk.is_full = False
    await client.create(CONFIG_MAPS.plain(), body)


async def in_pieces(request: web.Request) -> web.StreamResponse:
    """Answer a review in two pieces that arrive one after the other."""
    response = web.StreamResponse()
    await response.prepare(request)
    whole = json.dumps({"response": {"allowed": True, "uid": "x" * 5000}}).encode()
    await response.write(whole[:100])
    await asyncio.sleep(0.05)
    await response.write(whole[100:])
    await response.write_eof()
    return response


async def for_ever(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b"x" * 1024 * 1024)


@pytest.mark.parametrize("handler", [in_pieces, for_ever])
async def test_answers_of_webhooks_are_read_whole_and_not_without_end(handler: Any) -> None:
    app = web.Application()
    app.router.add_post("/", handler)
    runner = web.AppRunner(app, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    port = site._server.sockets[0].getsockname()[1]
    caller = WebhookCaller()
    try:
        url = f"http://127.0.0.1:{port}/"
        effect = CallWebhook(
            url, address="", ca_bundle=None, server_name=None, body=b"{}", timeout=30
        )
        outcome = await caller(effect)
    finally:
        await caller.close()
        await runner.cleanup()
    if handler is in_pieces:
        assert isinstance(outcome, WebhookReply)
        assert json.loads(outcome.body)["response"]["allowed"]
    else:
        assert isinstance(outcome, WebhookFailed)
        assert "longer than 8388608 bytes" in outcome.why
