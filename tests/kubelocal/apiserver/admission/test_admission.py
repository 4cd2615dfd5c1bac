"""Admission without a network: what webhooks are asked, and what their answers do."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from kubelocal.apiserver.calls import CallWebhook, User, WebhookFailed, WebhookReply

MAPS = "/api/v1/namespaces/default/configmaps"
HOOKS = "/apis/admissionregistration.k8s.io/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def register(cluster, kind: str, **more: Any) -> None:
    hook = {
        "name": "a.test.example",
        "clientConfig": {"url": "https://127.0.0.1:1/x"},
        "rules": [
            {
                "operations": ["*"],
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "resources": ["configmaps"],
            }
        ],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **more,
    }
    body = {"metadata": {"name": "hooks"}, "webhooks": [hook]}
    cluster.post(f"{HOOKS}/{kind}webhookconfigurations", body)


def reply(effect: CallWebhook, **response: Any) -> WebhookReply:
    uid = json.loads(effect.body)["request"]["uid"]
    review = {"response": {"uid": uid, "allowed": True, **response}}
    return WebhookReply(200, json.dumps(review).encode())


def test_mutating_webhook_changes_what_is_kept(cluster):
    register(cluster, "mutating")
    patch = [{"op": "add", "path": "/data", "value": {"k": "v"}}]
    encoded = base64.b64encode(json.dumps(patch).encode()).decode()
    cluster.webhook = lambda effect: reply(effect, patch=encoded, patchType="JSONPatch")
    cluster.post(MAPS, {"metadata": {"name": "a"}})
    assert cluster.get(f"{MAPS}/a")["data"] == {"k": "v"}


def test_denial_keeps_nothing(cluster):
    register(cluster, "validating")
    cluster.webhook = lambda effect: reply(
        effect, allowed=False, status={"message": "no", "code": 403, "reason": "Forbidden"}
    )
    refused = cluster.bad(cluster.ask("POST", MAPS, {"metadata": {"name": "a"}}))
    assert refused["message"] == 'admission webhook "a.test.example" denied the request: no'
    assert cluster.ask("GET", f"{MAPS}/a").status == 404


@pytest.mark.parametrize(("policy", "status"), [("Fail", 500), ("Ignore", 201)])
def test_webhook_that_is_down_is_handled_by_its_policy(cluster, policy, status):
    register(cluster, "validating", failurePolicy=policy)
    cluster.webhook = lambda _: WebhookFailed("connection refused")
    assert cluster.ask("POST", MAPS, {"metadata": {"name": "a"}}).status == status


def test_write_that_another_overtook_during_admission_starts_again(cluster):
    cluster.post(MAPS, {"metadata": {"name": "a"}, "data": {"n": "0"}})
    register(cluster, "validating")
    overtaken = []

    def slow(effect: CallWebhook) -> WebhookReply:
        if not overtaken:
            overtaken.append(True)
            cluster.webhook = reply
            cluster.merge(f"{MAPS}/a", {"data": {"other": "1"}})
            cluster.webhook = slow
        return reply(effect)

    cluster.webhook = slow
    cluster.merge(f"{MAPS}/a", {"data": {"n": "1"}})
    assert cluster.get(f"{MAPS}/a")["data"] == {"n": "1", "other": "1"}


def test_nobody_gives_rights_they_do_not_have(cluster):
    robot = User("robot", ("system:authenticated",))
    rules = [
        {
            "apiGroups": ["rbac.authorization.k8s.io"],
            "resources": ["roles"],
            "verbs": ["create", "get"],
        }
    ]
    cluster.post(f"{RBAC}/clusterroles", {"metadata": {"name": "maker"}, "rules": rules})
    cluster.post(
        f"{RBAC}/clusterrolebindings",
        {
            "metadata": {"name": "maker"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "maker",
            },
            "subjects": [{"kind": "User", "name": "robot"}],
        },
    )
    path = f"{RBAC}/namespaces/default/roles"
    secrets = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]
    refused = cluster.bad(
        cluster.ask("POST", path, {"metadata": {"name": "r"}, "rules": secrets}, user=robot)
    )
    assert "attempting to grant RBAC permissions not currently held" in refused["message"]
    held = [{**rules[0], "verbs": ["get"]}]
    assert cluster.post(path, {"metadata": {"name": "r"}, "rules": held}, user=robot)
