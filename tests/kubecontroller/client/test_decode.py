from __future__ import annotations

import re

import msgspec
import pytest

from kubecontroller.client.decode import decode_object, decode_page
from kubecontroller.client.errors import UndecodableObject
from kubecontroller.client.meta import Projected
from kubecontroller.client.objects import BUILTIN, EVENTS, PODS, SECRETS, Secret
from kubecontroller.client.scheme import Kind


class Strict(Projected, frozen=True):
    spec: int


STRICT = Kind("g", "v1", "Strict", "stricts", True, Strict)


def listed(*items: object, **metadata: object) -> bytes:
    return msgspec.json.encode({"kind": "List", "metadata": metadata, "items": items})


def test_a_page_has_its_items_version_and_where_the_rest_begins() -> None:
    body = listed(
        {"metadata": {"name": "a"}},
        {"metadata": {"name": "b"}},
        **{"resourceVersion": "9", "continue": "tok", "remainingItemCount": 3},
    )
    page = decode_page(PODS, body, ref="pods")
    assert [pod.metadata.name for pod in page.items] == ["a", "b"]
    assert (page.resource_version, page.continue_, page.remaining) == ("9", "tok", 3)


def test_a_list_of_null_items_is_empty() -> None:
    assert decode_page(PODS, b'{"items": null, "metadata": {}}', ref="pods").items == ()


def test_plain_items_get_the_type_that_servers_leave_out() -> None:
    (item,) = decode_page(PODS.plain(), listed({"metadata": {"name": "a"}}), ref="pods").items
    assert (item["apiVersion"], item["kind"]) == ("v1", "Pod")


def test_the_item_that_does_not_fit_is_named_and_set_aside_from_the_others() -> None:
    body = listed(
        {"metadata": {"name": "good"}, "spec": 1},
        {"metadata": {"name": "bad", "namespace": "n", "uid": "u"}, "spec": "x"},
    )
    page = decode_page(STRICT, body, ref="stricts")
    assert [item.metadata.name for item in page.items] == ["good"]
    (aside,) = page.unreadable
    assert (aside.key, aside.uid) == (("n", "bad"), "u")
    assert re.search(r"Strict n/bad: .*spec", str(aside.error))


def test_a_plain_item_with_broken_metadata_is_set_aside_too() -> None:
    body = listed({"metadata": {"name": "a"}}, {"metadata": {"name": "b", "labels": 5}})
    page = decode_page(PODS.plain(), body, ref="pods")
    assert [item["metadata"]["name"] for item in page.items] == ["a"]
    assert [aside.key for aside in page.unreadable] == [("", "b")]


def test_an_item_that_does_not_fit_and_has_no_name_fails_the_page() -> None:
    with pytest.raises(UndecodableObject, match=r"Strict: .*without a name"):
        decode_page(STRICT, listed({"metadata": {}, "spec": "x"}), ref="stricts")


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"[]", b'{"items": 5}', b"[" * 9999, b'{"metadata":{"continue":"\xff"}}'],
    ids=lambda body: ascii(body[:12]),
)
def test_an_answer_that_is_no_list_is_a_typed_error(body: bytes) -> None:
    with pytest.raises(UndecodableObject, match="stricts"):
        decode_page(STRICT, body, ref="stricts")


def test_an_answer_that_is_no_object_is_a_typed_error() -> None:
    with pytest.raises(UndecodableObject, match="Pod a/b"):
        decode_object(PODS, b"[]", ref="Pod a/b")


def deep(levels: int = 1500) -> bytes:
    """A value that no decoder here follows to its end; servers take ten thousand levels."""
    return b'{"a":[' * levels + b'"\\"]"' + b"]}" * levels


ODD = {"deep": b'"x":' + deep(), "not UTF-8": b'"x":"\xff"', "name not UTF-8": b'"\xff":1'}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_an_item_that_no_decoder_reads_is_set_aside_from_the_others(odd: bytes) -> None:
    good = b'{"metadata":{"name":"good"},"spec":{"x":[]}}'
    bad = b'{"spec":{%b},"metadata":{"name":"bad","namespace":"n","uid":"u"}}' % odd
    body = b'{"metadata":{"resourceVersion":"9"},"items":[%b,%b,%b]}' % (good, bad, good)
    page = decode_page(PODS.plain(), body, ref="pods")
    assert [item["metadata"]["name"] for item in page.items] == ["good", "good"]
    assert page.resource_version == "9"
    (aside,) = page.unreadable
    assert (aside.key, aside.uid) == (("n", "bad"), "u")
    assert "Pod n/bad" in str(aside.error)
    assert ("nested" in str(aside.error)) is (odd == ODD["deep"])
    with pytest.raises(UndecodableObject, match="Pod n/bad"):
        decode_object(PODS.plain(), bad, ref="Pod n/bad")


def test_what_no_decoder_reads_does_not_matter_where_the_type_has_no_such_field() -> None:
    bad = b'{"status":%b,"metadata":{"name":"bad"},"spec":1}' % deep()
    page = decode_page(STRICT, b'{"metadata":{},"items":[%b]}' % bad, ref="stricts")
    assert [item.metadata.name for item in page.items] == ["bad"]
    assert decode_object(STRICT, bad, ref="x").metadata.name == "bad"


NULLS = {
    "Event": {"eventTime": None, "firstTimestamp": None, "lastTimestamp": None, "source": {}},
    "Pod": {
        "metadata": {"creationTimestamp": None, "labels": None, "ownerReferences": None},
        "status": {
            "conditions": [{"type": "Ready", "lastProbeTime": None, "lastTransitionTime": None}],
            "containerStatuses": None,
            "startTime": None,
        },
    },
    "StatefulSet": {"spec": {"template": {"metadata": {"creationTimestamp": None}}}},
    "EndpointSlice": {"endpoints": None, "ports": None},
    "Lease": {"spec": {"holderIdentity": None, "renewTime": None}},
    "Secret": {"data": None},
    "ConfigMap": {"data": None},
}


@pytest.mark.parametrize("kind", list(BUILTIN), ids=lambda kind: kind.kind)
def test_every_projection_reads_an_empty_object_and_the_nulls_servers_send(
    kind: Kind[Projected],
) -> None:
    assert decode_object(kind, b"{}", ref="x").metadata.name == ""
    decode_object(kind, msgspec.json.encode(NULLS.get(kind.kind, {})), ref="x")


@pytest.mark.parametrize("kind", list(BUILTIN), ids=lambda kind: kind.kind)
def test_projections_are_frozen_and_hold_nothing_the_collector_must_visit(
    kind: Kind[Projected],
) -> None:
    config = kind.model.__struct_config__
    assert config.frozen
    assert not config.gc


def test_secret_values_are_decoded_and_never_printed() -> None:
    secret = decode_object(SECRETS, b'{"data": {"password": "aHVudGVyMg=="}}', ref="x")
    assert isinstance(secret, Secret)
    assert secret.data == {"password": b"hunter2"}
    for text in (repr(secret), str(secret), f"{secret}"):
        assert "hunter2" not in text
        assert "aHVudGVyMg" not in text
        assert "***" in text


def test_events_of_both_ages_are_read() -> None:
    body = {"eventTime": "2026-01-02T03:04:05.678901Z", "involvedObject": {"uid": "u"}}
    event = decode_object(EVENTS, msgspec.json.encode(body), ref="x")
    assert event.event_time is not None
    assert event.event_time.microsecond == 678901
    assert event.involved_object.uid == "u"
