"""Watches: what is seen, from where on, and what becomes of those who do not read."""

from __future__ import annotations

import json

from tests.kubelocal.apiserver.conftest import Cluster, events

MAPS = "/api/v1/namespaces/default/configmaps"


def make(cluster: Cluster, name: str, **labels: str) -> dict:
    body = {"metadata": {"name": name, "labels": labels}}
    return cluster.post(MAPS, body)


def names(found: list) -> list[tuple[str, str]]:
    return [(kind, value["metadata"].get("name", "")) for kind, value in found]


def test_watch_from_a_version_sees_what_came_after(cluster):
    first = make(cluster, "a")
    make(cluster, "b")
    watch = cluster.watch(MAPS, resourceVersion=first["metadata"]["resourceVersion"])
    cluster.delete(f"{MAPS}/a")
    found = events(watch)
    assert names(found) == [("ADDED", "b"), ("DELETED", "a")]
    gone = found[1][1]["metadata"]["resourceVersion"]
    assert int(gone) == cluster.store.version


def test_watch_without_a_version_begins_with_what_is_there(cluster):
    make(cluster, "a")
    watch = cluster.watch(MAPS, labelSelector="!nothing")
    assert names(events(watch)) == [("ADDED", "a")]
    assert events(watch) == []


def test_object_that_leaves_the_selector_is_deleted_for_the_watcher(cluster):
    make(cluster, "a", x="1")
    watch = cluster.watch(MAPS, labelSelector="x=1")
    events(watch)
    cluster.merge(f"{MAPS}/a", {"metadata": {"labels": {"x": "2"}}})
    cluster.merge(f"{MAPS}/a", {"metadata": {"labels": {"x": "1"}}})
    found = events(watch)
    assert names(found) == [("DELETED", "a"), ("ADDED", "a")]
    assert found[0][1]["metadata"]["labels"] == {"x": "1"}


def test_initial_events_end_with_a_bookmark(cluster):
    make(cluster, "a")
    watch = cluster.watch(
        MAPS,
        sendInitialEvents="true",
        resourceVersionMatch="NotOlderThan",
        allowWatchBookmarks="true",
    )
    found = events(watch)
    assert names(found)[0] == ("ADDED", "a")
    kind, mark = found[-1]
    assert kind == "BOOKMARK"
    assert mark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_version_before_the_history_is_expired():
    cluster = Cluster(history=5)
    first = make(cluster, "a")
    for number in range(10):
        make(cluster, f"b{number}")
    watch = cluster.watch(MAPS, resourceVersion=first["metadata"]["resourceVersion"])
    ((kind, status),) = events(watch)
    assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")
    assert watch.ended


def test_reader_that_never_reads_is_cut_off_and_costs_nothing():
    cluster = Cluster(history=50)
    idle = [cluster.watch(MAPS, resourceVersion=cluster.store.version) for _ in range(1000)]
    for number in range(100):
        make(cluster, f"a{number}")
    home = cluster.store.collection("configmaps")
    assert len(home.wakers) == 1000
    for watch in idle:
        ((kind, status),) = events(watch)
        assert (kind, status["code"]) == ("ERROR", 410)
    assert not home.wakers


def test_thousand_watchers_each_see_every_event(cluster):
    watchers = [cluster.watch(MAPS, resourceVersion=cluster.store.version) for _ in range(1000)]
    make(cluster, "a")
    assert all(names(events(watch)) == [("ADDED", "a")] for watch in watchers)


def test_bookmark_tells_how_far_the_watch_is(cluster):
    watch = cluster.watch(MAPS, resourceVersion=cluster.store.version, allowWatchBookmarks="true")
    cluster.post("/api/v1/namespaces", {"metadata": {"name": "elsewhere"}})
    (line,) = watch.mark()
    marked = json.loads(line)["object"]["metadata"]["resourceVersion"]
    assert int(marked) == cluster.store.version


def test_pages_of_a_list_are_all_of_one_version(cluster):
    for number in range(10):
        make(cluster, f"a{number}")
    page = cluster.get(MAPS, limit=4)
    version = page["metadata"]["resourceVersion"]
    assert page["metadata"]["remainingItemCount"] == 6
    cluster.delete(f"{MAPS}/a5")
    make(cluster, "a55")
    seen = [item["metadata"]["name"] for item in page["items"]]
    while page["metadata"].get("continue"):
        page = cluster.get(MAPS, limit=4, continue_=page["metadata"]["continue"])
        assert page["metadata"]["resourceVersion"] == version
        seen += [item["metadata"]["name"] for item in page["items"]]
    assert seen == [f"a{number}" for number in range(10)]


def test_token_of_a_forgotten_version_is_expired_but_can_go_on():
    cluster = Cluster(history=5)
    for number in range(4):
        make(cluster, f"a{number}")
    token = cluster.get(MAPS, limit=2)["metadata"]["continue"]
    for number in range(10):
        make(cluster, f"b{number}")
    refused = cluster.bad(cluster.ask("GET", MAPS, continue_=token))
    assert (refused["code"], refused["reason"]) == (410, "Expired")
    rest = cluster.get(MAPS, continue_=refused["metadata"]["continue"])
    assert [item["metadata"]["name"] for item in rest["items"]][:2] == ["a2", "a3"]
