from __future__ import annotations

import msgspec
import pytest

from kubecontroller.client.errors import (
    Expired,
    GarbledLine,
    ServerError,
    TooManyRequests,
    UndecodableObject,
)
from kubecontroller.client.meta import Projected
from kubecontroller.client.objects import PODS
from kubecontroller.client.scheme import Kind
from kubecontroller.client.watch import (
    Bookmark,
    ChangeType,
    UnreadableChange,
    WatchedChange,
    decode_line,
)


class Strict(Projected, frozen=True):
    spec: int


STRICT = Kind("g", "v1", "Strict", "stricts", True, Strict)


def line(kind: str, value: object) -> bytes:
    return msgspec.json.encode({"type": kind, "object": value})


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED"])
@pytest.mark.parametrize("spaces", [b"", b" "], ids=["tight", "spaced"])
def test_changes_carry_the_object_however_the_line_is_written(kind: str, spaces: bytes) -> None:
    text = line(kind, {"metadata": {"name": "a", "uid": "u"}}).replace(b":", b":" + spaces)
    event = decode_line(PODS, text)
    assert isinstance(event, WatchedChange)
    assert event.type is ChangeType(kind)
    assert (event.object.metadata.name, event.object.metadata.uid) == ("a", "u")


def test_plain_kinds_get_the_whole_object() -> None:
    event = decode_line(PODS.plain(), line("ADDED", {"kind": "Pod", "x": [1, None]}))
    assert event == WatchedChange(ChangeType.ADDED, {"kind": "Pod", "x": [1, None]})


def test_a_bookmark_says_how_far_the_stream_is() -> None:
    value = {"kind": "Strict", "metadata": {"resourceVersion": "12", "creationTimestamp": None}}
    assert decode_line(STRICT, line("BOOKMARK", value)) == Bookmark("12")


def test_the_last_initial_event_is_told_by_its_bookmark() -> None:
    value = {
        "metadata": {
            "resourceVersion": "12",
            "annotations": {"k8s.io/initial-events-end": "true"},
        }
    }
    assert decode_line(STRICT, line("BOOKMARK", value)) == Bookmark("12", initial_events_end=True)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ({"code": 410, "reason": "Expired", "message": "too old"}, Expired),
        ({"code": 429, "reason": "TooManyRequests", "message": "slow"}, TooManyRequests),
        ({"code": 500, "reason": "InternalError", "message": "oops"}, ServerError),
    ],
    ids=["expired", "busy", "internal"],
)
def test_an_error_event_raises_the_servers_error(
    status: dict[str, object], kind: type[Exception]
) -> None:
    with pytest.raises(kind, match=r"watch of /api/v1/pods"):
        decode_line(PODS, line("ERROR", status), path="/api/v1/pods")


@pytest.mark.parametrize(
    "garbage",
    [
        b"garbage",
        b"{}",
        b'{"type": "ADDED"}',
        b'{"type":"ADDED","object":{"metadata":',
        b'{"type": "MOVED", "object": {}}',
        b'{"type": 1, "object": {}}',
        b"\xff\xfe\x00",
        b'{"type":"ERROR","object":[1]}',
        b"<html>502</html>",
    ],
    ids=str,
)
def test_a_garbage_line_is_a_typed_error_that_shows_its_beginning(garbage: bytes) -> None:
    with pytest.raises(GarbledLine) as caught:
        decode_line(PODS, garbage, path="/api/v1/pods")
    assert caught.value.path == "/api/v1/pods"
    assert "/api/v1/pods" in str(caught.value)
    assert caught.value.excerpt


@pytest.mark.parametrize("spaced", [False, True], ids=["as servers write", "with spaces"])
def test_a_change_of_an_object_that_does_not_fit_names_it(spaced: bool) -> None:
    meta = {"name": "b", "namespace": "a", "uid": "u", "resourceVersion": "7"}
    text = line("DELETED", {"metadata": meta, "spec": "x"})
    event = decode_line(STRICT, text.replace(b'{"type"', b'{ "type"') if spaced else text)
    assert isinstance(event, UnreadableChange)
    assert event.type is ChangeType.DELETED
    assert (event.object.key, event.object.uid) == (("a", "b"), "u")
    assert event.object.resource_version == "7"
    assert "Strict a/b: " in str(event.object.error)
    assert "spec" in str(event.object.error)


def test_a_plain_object_whose_metadata_cannot_be_read_does_not_fit_either() -> None:
    event = decode_line(PODS.plain(), line("ADDED", {"metadata": {"name": "a", "labels": 1}}))
    assert isinstance(event, UnreadableChange)


def test_an_object_that_has_no_name_is_a_typed_error() -> None:
    with pytest.raises(UndecodableObject, match=r"Pod: .*without a name"):
        decode_line(PODS, line("ADDED", {"metadata": {"name": 5}}))


def test_an_object_without_uid_is_still_delivered() -> None:
    event = decode_line(PODS, line("ADDED", {"metadata": {"name": "a"}}))
    assert isinstance(event, WatchedChange)
    assert event.object.metadata.uid == ""


@pytest.mark.parametrize("odd", [b'{"a":[' * 1500 + b"]}" * 1500, b'"\xff"'], ids=["deep", "bytes"])
def test_a_change_that_no_decoder_reads_names_its_object(odd: bytes) -> None:
    text = b'{"type":"MODIFIED","object":{"spec":%b,"metadata":{"name":"a","uid":"u"}}}' % odd
    event = decode_line(PODS.plain(), text)
    assert isinstance(event, UnreadableChange)
    assert (event.type, event.object.key, event.object.uid) == ("MODIFIED", ("", "a"), "u")


@pytest.mark.parametrize(
    "text",
    [b"[" * 9999, b'{"type":"\xff","object":{}}', b'{"type":"ERROR","object":{"code":"\xff"}}'],
)
def test_a_line_that_no_decoder_reads_is_garbled(text: bytes) -> None:
    with pytest.raises(GarbledLine):
        decode_line(PODS, text)


def test_a_bookmark_that_no_decoder_reads_is_a_typed_error() -> None:
    text = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"\xff"}}}'
    with pytest.raises(UndecodableObject):
        decode_line(PODS, text)
