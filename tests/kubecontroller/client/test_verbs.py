from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kubecontroller.client import verbs
from kubecontroller.client.objects import NODES, PODS, STATEFUL_SETS
from kubecontroller.client.patches import JsonPatch, MergePatch, StrategicPatch
from kubecontroller.client.request import Request
from kubecontroller.client.verbs import Propagation, VersionMatch

KEY = ("a", "b")


def body(request: Request) -> Any:
    return msgspec.json.decode(request.body)


def test_get_reads_the_newest_unless_told_otherwise() -> None:
    request = verbs.get_request(PODS, KEY)
    assert (request.method, request.path, request.query) == (
        "GET",
        "/api/v1/namespaces/a/pods/b",
        (),
    )
    cached = verbs.get_request(STATEFUL_SETS, KEY, subresource="status", resource_version="0")
    assert cached.path == "/apis/apps/v1/namespaces/a/statefulsets/b/status"
    assert cached.query == (("resourceVersion", "0"),)


@pytest.mark.parametrize(
    ("kind", "key"),
    [(PODS, ("", "b")), (NODES, ("a", "b"))],
    ids=["namespace missing", "namespace too much"],
)
def test_a_key_that_does_not_fit_the_kinds_scope_is_refused(kind: Any, key: Any) -> None:
    with pytest.raises(ValueError, match="namespace"):
        verbs.get_request(kind, key)


def test_list_carries_selectors_version_and_limit() -> None:
    request = verbs.list_request(
        PODS,
        namespace="a",
        labels="app=x,tier in (a,b)",
        fields="spec.nodeName=n",
        resource_version="5",
        match=VersionMatch.NOT_OLDER_THAN,
        limit=500,
    )
    assert dict(request.query) == {
        "labelSelector": "app=x,tier in (a,b)",
        "fieldSelector": "spec.nodeName=n",
        "resourceVersion": "5",
        "resourceVersionMatch": "NotOlderThan",
        "limit": "500",
    }


def test_the_next_page_is_asked_for_by_its_token_alone() -> None:
    request = verbs.list_request(
        PODS, resource_version="5", match=VersionMatch.EXACT, limit=2, continue_="t"
    )
    assert dict(request.query) == {"limit": "2", "continue": "t"}


def test_watch_asks_for_bookmarks() -> None:
    request = verbs.watch_request(PODS, resource_version="7", server_timeout=300)
    assert dict(request.query) == {
        "watch": "true",
        "resourceVersion": "7",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "300",
    }


def test_a_watch_list_asks_for_the_initial_events() -> None:
    request = verbs.watch_request(PODS, initial_events=True)
    assert dict(request.query) == {
        "watch": "true",
        "resourceVersionMatch": "NotOlderThan",
        "sendInitialEvents": "true",
        "allowWatchBookmarks": "true",
    }


def test_create_posts_to_the_namespace_and_names_the_type() -> None:
    request = verbs.create_request(
        PODS, {"metadata": {"namespace": "a", "generateName": "x-"}}, manager="m", dry_run=True
    )
    assert (request.method, request.path) == ("POST", "/api/v1/namespaces/a/pods")
    assert dict(request.query) == {"fieldManager": "m", "dryRun": "All"}
    assert (body(request)["kind"], body(request)["apiVersion"]) == ("Pod", "v1")


def test_replace_puts_the_whole_object() -> None:
    manifest = {"metadata": {"namespace": "a", "name": "b", "resourceVersion": "4"}, "x": 1}
    request = verbs.replace_request(PODS.plain(), manifest, manager="m", subresource="status")
    assert (request.method, request.path) == ("PUT", "/api/v1/namespaces/a/pods/b/status")
    assert body(request)["x"] == 1


@pytest.mark.parametrize(
    ("patch", "media_type", "sent"),
    [
        (MergePatch({"a": None}), "application/merge-patch+json", {"a": None}),
        (StrategicPatch({"a": 1}), "application/strategic-merge-patch+json", {"a": 1}),
        (
            JsonPatch([{"op": "remove", "path": "/a"}]),
            "application/json-patch+json",
            [{"op": "remove", "path": "/a"}],
        ),
    ],
    ids=["merge", "strategic", "json"],
)
def test_each_patch_has_its_media_type(patch: Any, media_type: str, sent: Any) -> None:
    request = verbs.patch_request(PODS, KEY, patch, manager="m")
    assert dict(request.headers)["content-type"] == media_type
    assert request.method == "PATCH"
    assert body(request) == sent


def test_apply_forces_under_its_manager_and_sends_only_the_intent() -> None:
    intent = {
        "metadata": {
            "namespace": "a",
            "name": "b",
            "managedFields": [{}],
            "resourceVersion": "3",
            "uid": "u",
            "creationTimestamp": None,
            "labels": {"l": "1"},
        },
        "spec": {"replicas": 3},
        "status": {"replicas": 1},
    }
    request = verbs.apply_request(STATEFUL_SETS, intent, manager="m")
    assert dict(request.query) == {"fieldManager": "m", "force": "true"}
    assert dict(request.headers)["content-type"] == "application/apply-patch+yaml"
    assert body(request) == {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"namespace": "a", "name": "b", "labels": {"l": "1"}},
        "spec": {"replicas": 3},
    }
    assert intent["status"] == {"replicas": 1}


def test_apply_to_status_sends_the_status_alone() -> None:
    intent = {
        "metadata": {"namespace": "a", "name": "b", "labels": {"l": "1"}},
        "spec": {},
        "status": {"x": 1},
    }
    request = verbs.apply_request(
        STATEFUL_SETS, intent, manager="m", subresource="status", resource_version="8"
    )
    assert request.path.endswith("/b/status")
    assert body(request) == {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"namespace": "a", "name": "b", "resourceVersion": "8"},
        "status": {"x": 1},
    }


def test_delete_carries_preconditions_propagation_and_grace() -> None:
    request = verbs.delete_request(
        PODS,
        KEY,
        uid="u",
        resource_version="5",
        propagation=Propagation.FOREGROUND,
        grace_seconds=0,
        dry_run=True,
    )
    assert request.method == "DELETE"
    assert body(request) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u", "resourceVersion": "5"},
        "propagationPolicy": "Foreground",
        "gracePeriodSeconds": 0,
        "dryRun": ["All"],
    }
    assert "preconditions" not in body(verbs.delete_request(PODS, KEY))


def test_delete_collection_goes_to_the_collection_with_its_selectors() -> None:
    request = verbs.delete_collection_request(PODS, namespace="a", labels="x=y")
    assert (request.method, request.path) == ("DELETE", "/api/v1/namespaces/a/pods")
    assert request.query == (("labelSelector", "x=y"),)


def test_an_eviction_names_the_pod_and_its_uid() -> None:
    request = verbs.evict_request(KEY, uid="u", grace_seconds=5)
    assert (request.method, request.path) == ("POST", "/api/v1/namespaces/a/pods/b/eviction")
    assert body(request)["kind"] == "Eviction"
    assert body(request)["metadata"] == {"namespace": "a", "name": "b"}
    assert body(request)["deleteOptions"]["preconditions"] == {"uid": "u"}


def test_scale_changes_the_number_over_one_version() -> None:
    assert verbs.scale_patch(3, resource_version="7").change == {
        "spec": {"replicas": 3},
        "metadata": {"resourceVersion": "7"},
    }
