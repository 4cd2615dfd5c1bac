"""Watches: where they start, what they tell, how they end."""

from __future__ import annotations

from typing import Any

import pytest

from contract.driver import Api, Space, until

LIST_FIRST = {
    "sendInitialEvents": True,
    "resourceVersionMatch": "NotOlderThan",
    "allowWatchBookmarks": True,
}


def make(space: Space, name: str, **labels: str) -> dict[str, Any]:
    return space.create("secrets", {"metadata": {"name": name, "labels": labels}})


def change(space: Space, name: str, **labels: str | None) -> dict[str, Any]:
    return space.patch(f"secrets/{name}", {"metadata": {"labels": labels}}).object


def now(space: Space) -> str:
    return space.read("secrets")["metadata"]["resourceVersion"]


def test_watch_from_a_version_tells_what_comes_after(space: Space) -> None:
    make(space, "before")
    with space.watch("secrets", resourceVersion=now(space)) as stream:
        make(space, "a")
        change(space, "a", x="1")
        space.delete("secrets/a")
        assert stream.seen(3) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


def test_watch_events_are_the_objects_written(space: Space) -> None:
    with space.watch("secrets", resourceVersion=now(space)) as stream:
        made = make(space, "a")
        event = stream.next()
        assert event["object"] == made
        assert event["object"]["kind"] == "Secret"


def test_watch_replays_history_after_the_version(space: Space) -> None:
    start = now(space)
    make(space, "a")
    change(space, "a", x="1")
    with space.watch("secrets", resourceVersion=start) as stream:
        assert stream.seen(2) == [("ADDED", "a"), ("MODIFIED", "a")]


@pytest.mark.parametrize("version", [None, "", "0"], ids=["none", "empty", "zero"])
def test_watch_without_a_version_first_tells_what_there_is(
    space: Space, version: str | None
) -> None:
    make(space, "a")
    last = make(space, "b")["metadata"]["resourceVersion"]
    space.read("secrets", resourceVersion=last, resourceVersionMatch="NotOlderThan")
    with space.watch("secrets", resourceVersion=version) as stream:
        assert sorted(stream.seen(2)) == [("ADDED", "a"), ("ADDED", "b")]
        space.delete("secrets/a")
        assert stream.seen(1) == [("DELETED", "a")]


def test_deleted_event_carries_a_new_version_and_the_last_state(space: Space) -> None:
    made = make(space, "a", x="1")
    with space.watch("secrets", resourceVersion=now(space)) as stream:
        space.delete("secrets/a")
        event = stream.next()
        assert event["type"] == "DELETED"
        after = event["object"]["metadata"]
        assert int(after["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
        assert after["labels"] == {"x": "1"}
        assert after["uid"] == made["metadata"]["uid"]


def test_versions_rise_through_a_watch(space: Space) -> None:
    with space.watch("secrets", resourceVersion=now(space)) as stream:
        make(space, "a")
        for number in range(5):
            change(space, "a", x=str(number))
        versions = [int(stream.next()["object"]["metadata"]["resourceVersion"]) for _ in range(6)]
        assert versions == sorted(set(versions))


def test_watch_resumes_from_the_version_of_an_event(space: Space) -> None:
    with space.watch("secrets", resourceVersion=now(space)) as stream:
        make(space, "a")
        seen = stream.next()["object"]["metadata"]["resourceVersion"]
    change(space, "a", x="1")
    make(space, "b")
    with space.watch("secrets", resourceVersion=seen) as stream:
        assert stream.seen(2) == [("MODIFIED", "a"), ("ADDED", "b")]


def test_watch_sees_only_its_namespace(space: Space) -> None:
    other = Space(space.api, "default")
    with space.watch("secrets", resourceVersion=now(space)) as stream:
        name = f"other-{space.name}"
        other.create("secrets", {"metadata": {"name": name}})
        other.delete(f"secrets/{name}")
        make(space, "mine")
        assert stream.seen(1) == [("ADDED", "mine")]


def test_watch_over_all_namespaces(space: Space) -> None:
    start = now(space)
    with space.api.watch("/api/v1/secrets", resourceVersion=start) as stream:
        make(space, "a")
        event = until("our secret", lambda: _ours(stream.next(), space))
        assert event["type"] == "ADDED"


def _ours(event: dict[str, Any], space: Space) -> dict[str, Any] | None:
    return event if event["object"]["metadata"].get("namespace") == space.name else None


def test_watch_by_name_sees_only_that_object(space: Space) -> None:
    selector = "metadata.name=b"
    with space.watch("secrets", resourceVersion=now(space), fieldSelector=selector) as stream:
        make(space, "a")
        make(space, "b")
        assert stream.seen(1) == [("ADDED", "b")]


def test_watch_parameter_on_one_object_is_a_plain_get(space: Space) -> None:
    made = make(space, "a")
    assert space.read("secrets/a", watch=True) == made


def test_object_that_enters_the_selector_is_added(space: Space) -> None:
    make(space, "a", app="y")
    with space.watch("secrets", resourceVersion=now(space), labelSelector="app=x") as stream:
        change(space, "a", app="x")
        assert stream.seen(1) == [("ADDED", "a")]


def test_object_that_leaves_the_selector_is_deleted(space: Space) -> None:
    before = make(space, "a", app="x")
    with space.watch("secrets", resourceVersion=now(space), labelSelector="app=x") as stream:
        after = change(space, "a", app="y")
        event = stream.next()
        assert event["type"] == "DELETED"
        assert event["object"]["metadata"]["labels"] == {"app": "x"}
        version = event["object"]["metadata"]["resourceVersion"]
        assert version == after["metadata"]["resourceVersion"]
        assert version != before["metadata"]["resourceVersion"]


def test_object_outside_the_selector_is_not_told(space: Space) -> None:
    make(space, "a", app="y")
    with space.watch("secrets", resourceVersion=now(space), labelSelector="app=x") as stream:
        change(space, "a", app="z")
        space.delete("secrets/a")
        make(space, "b", app="x")
        assert stream.seen(1) == [("ADDED", "b")]


def test_object_within_the_selector_is_modified(space: Space) -> None:
    make(space, "a", app="x")
    with space.watch("secrets", resourceVersion=now(space), labelSelector="app=x") as stream:
        change(space, "a", more="1")
        assert stream.seen(1) == [("MODIFIED", "a")]


def test_transition_is_told_in_replay_too(space: Space) -> None:
    make(space, "a", app="x")
    start = now(space)
    change(space, "a", app="y")
    change(space, "a", app="x")
    with space.watch("secrets", resourceVersion=start, labelSelector="app=x") as stream:
        assert stream.seen(2) == [("DELETED", "a"), ("ADDED", "a")]


def test_field_selector_transitions(space: Space) -> None:
    space.create("secrets", {"metadata": {"name": "a"}})
    budget = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "m", "image": "i"}]}}
    budget["spec"] |= {"schedulerName": "nobody", "automountServiceAccountToken": False}
    space.post("serviceaccounts", {"metadata": {"name": "default"}})
    space.create("pods", budget)
    start = space.read("pods")["metadata"]["resourceVersion"]
    selector = "status.phase=Pending"
    with space.watch("pods", resourceVersion=start, fieldSelector=selector) as stream:
        space.patch("pods/p/status", {"status": {"phase": "Running"}}).done()
        assert stream.seen(1) == [("DELETED", "p")]


def test_timeout_ends_the_stream(space: Space) -> None:
    with space.watch("secrets", resourceVersion=now(space), timeoutSeconds=1) as stream:
        assert stream.rest() == []


def test_initial_events_end_with_a_bookmark(space: Space) -> None:
    make(space, "a")
    make(space, "b")
    with space.watch("secrets", **LIST_FIRST) as stream:
        assert sorted(stream.seen(2)) == [("ADDED", "a"), ("ADDED", "b")]
        event = stream.next()
        assert event["type"] == "BOOKMARK"
        assert event["object"]["kind"] == "Secret"
        assert event["object"]["apiVersion"] == "v1"
        metadata = event["object"]["metadata"]
        assert metadata["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert int(metadata["resourceVersion"]) > 0
        make(space, "c")
        assert stream.seen(1) == [("ADDED", "c")]


def test_initial_events_of_nothing_are_a_bookmark(space: Space) -> None:
    with space.watch("secrets", **LIST_FIRST) as stream:
        event = stream.next()
        assert event["type"] == "BOOKMARK"
        assert "k8s.io/initial-events-end" in event["object"]["metadata"]["annotations"]


def test_initial_events_respect_the_selector(space: Space) -> None:
    make(space, "a", app="x")
    make(space, "b")
    with space.watch("secrets", labelSelector="app=x", **LIST_FIRST) as stream:
        assert stream.seen(1) == [("ADDED", "a")]
        assert stream.next()["type"] == "BOOKMARK"


def test_initial_events_bookmark_is_a_place_to_resume(space: Space) -> None:
    make(space, "a")
    with space.watch("secrets", **LIST_FIRST) as stream:
        stream.next()
        version = stream.next()["object"]["metadata"]["resourceVersion"]
    make(space, "b")
    with space.watch("secrets", resourceVersion=version) as stream:
        assert stream.seen(1) == [("ADDED", "b")]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ({"sendInitialEvents": True}, "FieldValueForbidden"),
        ({"resourceVersionMatch": "NotOlderThan"}, "FieldValueForbidden"),
        (
            {"sendInitialEvents": True, "resourceVersionMatch": "Exact"},
            "FieldValueNotSupported",
        ),
    ],
    ids=["without match", "match without it", "exact"],
)
def test_bad_watch_list_options_are_refused(
    space: Space, query: dict[str, str], reason: str
) -> None:
    reply = space.get("secrets", watch=True, **query)
    reply.refused(422, "Invalid")
    assert ("resourceVersionMatch", reason) in reply.faults()


def test_initial_events_for_a_list_are_refused(space: Space) -> None:
    reply = space.get("secrets", sendInitialEvents=True)
    reply.refused(422, "Invalid")
    assert ("sendInitialEvents", "FieldValueForbidden") in reply.faults()


def test_initial_events_may_be_declined(space: Space) -> None:
    make(space, "a")
    query = {"sendInitialEvents": False, "resourceVersionMatch": "NotOlderThan"}
    with space.watch("secrets", **query) as stream:
        make(space, "b")
        assert stream.seen(1) == [("ADDED", "b")]


def test_version_that_is_too_old_is_an_expired_event(space: Space) -> None:
    with space.watch("secrets", resourceVersion=1) as stream:
        event = stream.next()
        assert event["type"] == "ERROR"
        status = event["object"]
        assert (status["kind"], status["code"]) == ("Status", 410)
        assert status["reason"] == "Expired"
        assert stream.next_or_end() is None


def test_malformed_watch_version_is_refused(space: Space) -> None:
    status = space.get("secrets", watch=True, resourceVersion="abc").refused(500)
    assert '"abc"' in status["message"]


def test_watch_of_a_table_gives_rows(space: Space) -> None:
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    with space.watch("secrets", accept=accept, resourceVersion=now(space)) as stream:
        make(space, "a")
        change(space, "a", x="1")
        first, second = stream.next(), stream.next()
    assert first["type"] == "ADDED"
    assert first["object"]["kind"] == "Table"
    assert first["object"]["rows"][0]["cells"][:3] == ["a", "Opaque", 0]
    assert next(column["name"] for column in first["object"]["columnDefinitions"]) == "Name"
    assert second["type"] == "MODIFIED"
    assert "columnDefinitions" not in second["object"] or not second["object"]["columnDefinitions"]


def test_watch_answer_is_chunked_json(space: Space) -> None:
    with space.watch("secrets", resourceVersion=now(space)) as stream:
        assert stream.headers["content-type"] == "application/json"
        assert stream.headers["transfer-encoding"] == "chunked"


def test_many_watchers_see_the_same(space: Space) -> None:
    start = now(space)
    streams = [space.watch("secrets", resourceVersion=start) for _ in range(10)]
    try:
        make(space, "a")
        make(space, "b")
        for stream in streams:
            assert stream.seen(2) == [("ADDED", "a"), ("ADDED", "b")]
    finally:
        for stream in streams:
            stream.close()


def test_recreated_object_comes_with_another_uid(space: Space) -> None:
    with space.watch("secrets", resourceVersion=now(space)) as stream:
        make(space, "a")
        space.delete("secrets/a")
        make(space, "a")
        first, gone, second = (stream.next() for _ in range(3))
        uids = [each["object"]["metadata"]["uid"] for each in (first, gone, second)]
        assert uids[0] == uids[1] != uids[2]


def test_watch_of_an_absent_namespace_is_quiet(api: Api) -> None:
    path = "/api/v1/namespaces/contract-nowhere/secrets"
    with api.watch(path, timeoutSeconds=1) as stream:
        assert stream.rest() == []
