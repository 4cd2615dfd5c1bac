"""Whatever is sent: the right refusal, nothing changed, and the server goes on."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kubelocal.apiserver.conftest import Cluster

from kubecontroller.client.request import Response
from kubelocal.apiserver.format.protobuf import PROTOBUF

MAPS = "/api/v1/namespaces/default/configmaps"


def test_oversized_body_is_refused(cluster):
    body = b'{"metadata":{"name":"a"},"data":{"k":"' + b"x" * (3 * 1024 * 1024) + b'"}}'
    refused = cluster.bad(cluster.ask("POST", MAPS, body))
    assert (refused["code"], refused["reason"]) == (413, "RequestEntityTooLarge")


APPLY = "application/apply-patch+yaml"


@pytest.mark.parametrize(
    ("method", "path", "media"),
    [("POST", MAPS, "application/json"), ("PATCH", f"{MAPS}/a", APPLY)],
)
def test_deep_nesting_is_refused(cluster, method, path, media):
    body = b'{"metadata":{"name":"a"},"data":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001
    assert cluster.ask(method, path, body, media=media, fieldManager="m").status == 400
    assert cluster.ask("GET", f"{MAPS}/a").status == 404


def test_deeply_nested_patch_is_refused(cluster):
    cluster.post(MAPS, {"metadata": {"name": "a"}})
    body = b"[" * 100_000 + b"]" * 100_000
    for media in ("application/json-patch+json", "application/merge-patch+json"):
        assert cluster.ask("PATCH", f"{MAPS}/a", body, media=media).status == 400


def test_small_yaml_that_would_be_huge_is_refused(cluster):
    text = b"a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a]\nc: [*b,*b,*b,*b,*b]\n"
    answer = cluster.ask("PATCH", f"{MAPS}/a", text, media=APPLY, fieldManager="m")
    assert answer.status == 400
    assert "aliases are not allowed" in cluster.bad(answer)["message"]


def test_unknown_content_type_is_refused(cluster):
    body = b'{"metadata":{"name":"a"}}'
    assert cluster.ask("POST", MAPS, body, media="text/plain").status == 415


def test_malformed_token_is_refused(cluster):
    for token in ("x", "e30", "W10", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MX0", "\u00e4"):
        assert cluster.ask("GET", MAPS, continue_=token).status == 400


@given(st.binary(max_size=200), st.sampled_from(["application/json", APPLY, PROTOBUF]))
def test_any_bytes_get_an_answer(body, media):
    cluster = Cluster()
    before = cluster.store.version
    method, path = ("PATCH", f"{MAPS}/a") if media == APPLY else ("POST", MAPS)
    answer = cluster.ask(method, path, body, media=media, fieldManager="m")
    assert isinstance(answer, Response)
    assert answer.status < 500
    if answer.status >= 400:
        assert cluster.store.version == before


@given(st.text(max_size=30))
def test_any_selector_gets_an_answer(text):
    cluster = Cluster()
    for option in ("labelSelector", "fieldSelector", "continue", "limit", "resourceVersion"):
        answer = cluster.ask("GET", MAPS, **{option: text})
        assert isinstance(answer, Response)
        assert answer.status in (200, 400, 504)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["metadata", "spec", "data", "name", "x"]), inner)
        ),
        max_leaves=12,
    )
)
def test_any_document_is_taken_or_refused(document):
    cluster = Cluster()
    for path in (MAPS, "/api/v1/namespaces/default/pods", "/apis/apps/v1/namespaces/default/jobs"):
        answer = cluster.ask("POST", path, json.dumps(document).encode())
        assert answer.status < 500, (document, answer.body)
