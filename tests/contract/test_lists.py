"""Lists: order, selectors, pages and what resourceVersion means to them."""

from __future__ import annotations

import re

import pytest

from contract.driver import Api, Space


def fill(space: Space, count: int = 5, **labels: str) -> list[str]:
    names = [f"s{number}" for number in range(count)]
    for name in names:
        space.create("secrets", {"metadata": {"name": name, "labels": labels or None}})
    return names


def test_list_has_the_kind_of_a_list_and_a_version(space: Space) -> None:
    fill(space, 1)
    found = space.read("secrets")
    assert (found["kind"], found["apiVersion"]) == ("SecretList", "v1")
    assert found["metadata"]["resourceVersion"].isdigit()
    assert set(found["metadata"]) == {"resourceVersion"}


def test_items_of_a_built_in_list_have_no_kind(space: Space) -> None:
    fill(space, 1)
    [item] = space.read("secrets")["items"]
    assert "kind" not in item
    assert "apiVersion" not in item


def test_empty_list_has_empty_items(space: Space) -> None:
    assert space.read("secrets")["items"] == []


def test_list_is_ordered_by_name(space: Space) -> None:
    for name in ("b", "c", "a"):
        space.create("secrets", {"metadata": {"name": name}})
    assert space.names("secrets") == ["a", "b", "c"]


def test_list_over_all_namespaces_is_ordered_by_namespace(space: Space) -> None:
    fill(space, 2)
    found = space.api.request("GET", "/api/v1/secrets").object["items"]
    keys = [(item["metadata"]["namespace"], item["metadata"]["name"]) for item in found]
    assert keys == sorted(keys)
    assert (space.name, "s0") in keys


def test_list_version_is_not_older_than_its_objects(space: Space) -> None:
    made = space.create("secrets", {"metadata": {"name": "a"}})
    version = space.read("secrets")["metadata"]["resourceVersion"]
    assert int(version) >= int(made["metadata"]["resourceVersion"])


def test_pages_hold_all_objects_once(space: Space) -> None:
    names = fill(space, 5)
    pages = list(space.pages("secrets", 2))
    assert [len(page["items"]) for page in pages] == [2, 2, 1]
    found = [item["metadata"]["name"] for page in pages for item in page["items"]]
    assert found == names


def test_first_page_says_how_many_remain(space: Space) -> None:
    fill(space, 5)
    page = space.read("secrets", limit=2)
    assert page["metadata"]["remainingItemCount"] == 3
    assert page["metadata"]["continue"]


def test_last_page_has_no_token(space: Space) -> None:
    fill(space, 3)
    *_, last = space.pages("secrets", 2)
    assert "continue" not in last["metadata"]
    assert "remainingItemCount" not in last["metadata"]


def test_exact_page_has_no_token(space: Space) -> None:
    fill(space, 2)
    assert "continue" not in space.read("secrets", limit=2)["metadata"]


def test_pages_with_a_selector_do_not_count_the_rest(space: Space) -> None:
    fill(space, 3, app="x")
    page = space.read("secrets", limit=2, labelSelector="app=x")
    assert len(page["items"]) == 2
    assert "remainingItemCount" not in page["metadata"]
    assert page["metadata"]["continue"]


def test_pages_are_one_snapshot(space: Space) -> None:
    fill(space, 4)
    first = space.read("secrets", limit=2)
    space.create("secrets", {"metadata": {"name": "s9"}})
    space.delete("secrets/s3").done()
    space.patch("secrets/s2", {"metadata": {"labels": {"x": "y"}}}).done()
    rest = space.read("secrets", **{"continue": first["metadata"]["continue"]})
    assert [item["metadata"]["name"] for item in rest["items"]] == ["s2", "s3"]
    assert "labels" not in rest["items"][0]["metadata"]
    assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_continue_may_ask_for_another_page_size(space: Space) -> None:
    fill(space, 5)
    token = space.read("secrets", limit=2)["metadata"]["continue"]
    assert space.names("secrets", **{"continue": token}) == ["s2", "s3", "s4"]


def test_malformed_token_is_refused(space: Space) -> None:
    status = space.get("secrets", limit=1, **{"continue": "nonsense"}).refused(400, "BadRequest")
    assert "continue" in status["message"]


def test_token_with_a_version_is_refused(space: Space) -> None:
    fill(space, 3)
    token = space.read("secrets", limit=2)["metadata"]["continue"]
    reply = space.get("secrets", limit=1, resourceVersion="5", **{"continue": token})
    assert "resource version" in reply.refused(400, "BadRequest")["message"]


def test_negative_limit_is_as_none(space: Space) -> None:
    fill(space, 2)
    assert space.names("secrets", limit=-1) == ["s0", "s1"]


def test_version_zero_gives_any_and_takes_no_notice_of_limit(space: Space) -> None:
    fill(space, 3)
    version = space.read("secrets")["metadata"]["resourceVersion"]
    fresh = space.read("secrets", resourceVersion=version, resourceVersionMatch="NotOlderThan")
    assert len(fresh["items"]) == 3
    found = space.read("secrets", resourceVersion=0, limit=1)
    assert len(found["items"]) == 3
    assert "continue" not in found["metadata"]


def test_not_older_than_waits_for_that_version(space: Space) -> None:
    made = space.create("secrets", {"metadata": {"name": "a"}})["metadata"]["resourceVersion"]
    found = space.read("secrets", resourceVersion=made, resourceVersionMatch="NotOlderThan")
    assert [item["metadata"]["name"] for item in found["items"]] == ["a"]


def test_exact_version_gives_the_past(space: Space) -> None:
    made = space.create("secrets", {"metadata": {"name": "a"}})["metadata"]["resourceVersion"]
    space.create("secrets", {"metadata": {"name": "b"}})
    past = space.read("secrets", resourceVersion=made, resourceVersionMatch="Exact")
    assert [item["metadata"]["name"] for item in past["items"]] == ["a"]
    assert past["metadata"]["resourceVersion"] == made


def test_future_version_is_a_timeout(space: Space) -> None:
    future = str(10**12)
    reply = space.get("secrets/none", resourceVersion=future)
    status = reply.refused(504, "Timeout")
    assert future in status["message"]
    assert reply.faults() == {("", "ResourceVersionTooLarge")}
    assert status["details"]["retryAfterSeconds"] == 1


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ({"resourceVersionMatch": "Exact"}, "FieldValueForbidden"),
        ({"resourceVersion": 0, "resourceVersionMatch": "Exact"}, "FieldValueForbidden"),
        ({"resourceVersion": 5, "resourceVersionMatch": "Odd"}, "FieldValueNotSupported"),
    ],
    ids=["match without version", "exact zero", "unknown match"],
)
def test_bad_version_match_is_refused(space: Space, query: dict[str, str], reason: str) -> None:
    reply = space.get("secrets", **query)
    reply.refused(422, "Invalid")
    assert reply.faults() == {("resourceVersionMatch", reason)}


def test_malformed_list_version_is_refused(space: Space) -> None:
    status = space.get("secrets", resourceVersion="abc").refused(400, "BadRequest")
    assert '"abc"' in status["message"]


SELECTORS = [
    ("app=x", ["a", "b"]),
    ("app==x", ["a", "b"]),
    ("app!=x", ["c", "d"]),
    ("app in (x, y)", ["a", "b", "c"]),
    ("app notin (x)", ["c", "d"]),
    ("tier", ["a"]),
    ("!tier", ["b", "c", "d"]),
    ("app=x,tier", ["a"]),
    ("app=x,!tier", ["b"]),
    ("app", ["a", "b", "c"]),
    ("number>1", ["b"]),
    ("number<2", ["a"]),
    ("app=", []),
    ("", ["a", "b", "c", "d"]),
]


@pytest.fixture
def labelled(space: Space) -> Space:
    labels = {
        "a": {"app": "x", "tier": "db", "number": "1"},
        "b": {"app": "x", "number": "2"},
        "c": {"app": "y"},
        "d": {},
    }
    for name, each in labels.items():
        space.create("secrets", {"metadata": {"name": name, "labels": each}})
    return space


@pytest.mark.parametrize(("selector", "names"), SELECTORS, ids=[each[0] for each in SELECTORS])
def test_label_selector(labelled: Space, selector: str, names: list[str]) -> None:
    assert labelled.names("secrets", labelSelector=selector) == names


@pytest.mark.parametrize(
    ("selector", "word"),
    [("a in b", "b"), ("=x", "="), ("a>b", "b")],
    ids=["in without list", "no key", "not a number"],
)
def test_bad_label_selector_is_refused(space: Space, selector: str, word: str) -> None:
    status = space.get("secrets", labelSelector=selector).refused(400, "BadRequest")
    assert word in re.findall("""['"](.*?)['"]""", status["message"])


FIELDS = [
    ("metadata.name=a", ["a"]),
    ("metadata.name!=a", ["b", "c", "d"]),
    ("metadata.name=a,metadata.name=b", []),
    ("type=Opaque", ["a", "b", "c", "d"]),
    ("type!=Opaque", []),
]


@pytest.mark.parametrize(("selector", "names"), FIELDS, ids=[each[0] for each in FIELDS])
def test_field_selector(labelled: Space, selector: str, names: list[str]) -> None:
    assert labelled.names("secrets", fieldSelector=selector) == names


def test_field_selector_by_namespace(labelled: Space) -> None:
    selector = f"metadata.namespace={labelled.name}"
    found = labelled.api.request("GET", "/api/v1/secrets", fieldSelector=selector).object
    assert len(found["items"]) == 4


def test_unknown_field_label_is_refused(space: Space) -> None:
    status = space.get("secrets", fieldSelector="spec.x=1").refused(400, "BadRequest")
    assert "spec.x" in status["message"]


def test_field_selector_of_pods(space: Space) -> None:
    space.create("serviceaccounts", {"metadata": {"name": "quiet"}})
    for name, node in (("a", "nowhere-1"), ("b", "nowhere-2")):
        spec = {
            "serviceAccountName": "quiet",
            "automountServiceAccountToken": False,
            "nodeName": node,
            "containers": [{"name": "main", "image": "redis:7.0"}],
        }
        space.create("pods", {"metadata": {"name": name}, "spec": spec})
    assert space.names("pods", fieldSelector="spec.nodeName=nowhere-2") == ["b"]
    assert space.names("pods", fieldSelector="status.phase=Pending") == ["a", "b"]
    assert space.names("pods", fieldSelector="spec.restartPolicy=Never") == []
    assert space.names("pods", fieldSelector="spec.serviceAccountName=quiet") == ["a", "b"]


def test_field_selector_of_events(space: Space) -> None:
    for number, name in enumerate(("a", "b")):
        about = {"kind": "Secret", "namespace": space.name, "name": name, "uid": f"u{number}"}
        body = {"metadata": {"name": name}, "involvedObject": about, "reason": f"R{number}"}
        space.create("events", {**body, "type": "Normal", "message": "m"})
    assert space.names("events", fieldSelector="involvedObject.name=b") == ["b"]
    assert space.names("events", fieldSelector="involvedObject.uid=u0,type=Normal") == ["a"]
    assert space.names("events", fieldSelector="reason=R1") == ["b"]


def test_both_selectors_must_hold(labelled: Space) -> None:
    found = labelled.names("secrets", labelSelector="app=x", fieldSelector="metadata.name=b")
    assert found == ["b"]


def test_list_of_a_group_kind(api: Api) -> None:
    found = api.request("GET", "/apis/apps/v1/statefulsets").object
    assert (found["kind"], found["apiVersion"]) == ("StatefulSetList", "apps/v1")
