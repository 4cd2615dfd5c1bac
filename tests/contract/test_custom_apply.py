"""Server-side apply of custom resources: list types, maps, status, defaults."""

from __future__ import annotations

from typing import Any

from contract.driver import APPLY, Space
from contract.fields import managers, owned
from contract.widgets import make


def apply(widgets: Space, manager: str, **spec: Any) -> Any:
    return widgets.apply("widgets/a", {"spec": spec}, manager)


def test_apply_owns_what_was_sent_and_not_the_defaults(widgets: Space) -> None:
    found = apply(widgets, "one", name="abc", nested={"must": "x"}).object
    assert owned(found, "one") == {"f:spec": {"f:name": {}, "f:nested": {"f:must": {}}}}
    assert found["spec"]["size"] == 3


def test_apply_merges_a_keyed_list(widgets: Space) -> None:
    apply(widgets, "one", rows=[{"id": "a", "value": "1"}]).done()
    found = apply(widgets, "two", rows=[{"id": "b", "value": "2"}]).object
    assert [row["id"] for row in found["spec"]["rows"]] == ["a", "b"]
    assert owned(found, "two") == {
        "f:spec": {"f:rows": {'k:{"id":"b"}': {".": {}, "f:id": {}, "f:value": {}}}}
    }


def test_apply_removes_a_dropped_entry_of_a_keyed_list(widgets: Space) -> None:
    apply(widgets, "one", rows=[{"id": "a"}, {"id": "b"}]).done()
    found = apply(widgets, "one", rows=[{"id": "b"}]).object
    assert [row["id"] for row in found["spec"]["rows"]] == ["b"]


def test_apply_keeps_the_order_of_the_applier(widgets: Space) -> None:
    apply(widgets, "one", rows=[{"id": "a"}, {"id": "b"}]).done()
    found = apply(widgets, "one", rows=[{"id": "b"}, {"id": "a"}]).object
    assert [row["id"] for row in found["spec"]["rows"]] == ["b", "a"]


def test_apply_merges_a_set(widgets: Space) -> None:
    apply(widgets, "one", tags=["a", "b"]).done()
    found = apply(widgets, "two", tags=["b", "c"]).object
    assert found["spec"]["tags"] == ["a", "b", "c"]
    after = apply(widgets, "one").object
    assert after["spec"]["tags"] == ["b", "c"]


def test_apply_replaces_a_plain_list(widgets: Space) -> None:
    apply(widgets, "one", plain=[{"a": "1"}]).done()
    status = apply(widgets, "two", plain=[{"a": "2"}]).refused(409)
    assert [cause["field"] for cause in status["details"]["causes"]] == [".spec.plain"]


def test_apply_of_an_atomic_map_conflicts_whole(widgets: Space) -> None:
    found = apply(widgets, "one", whole={"a": "1"}).object
    assert owned(found, "one") == {"f:spec": {"f:whole": {}}}
    status = apply(widgets, "two", whole={"b": "1"}).refused(409)
    assert [cause["field"] for cause in status["details"]["causes"]] == [".spec.whole"]


def test_apply_of_a_free_field_owns_its_leaves(widgets: Space) -> None:
    found = apply(widgets, "one", free={"x": {"y": 1}, "z": [1]}).object
    assert owned(found, "one") == {"f:spec": {"f:free": {"f:x": {".": {}, "f:y": {}}, "f:z": {}}}}


def test_apply_of_a_map_owns_its_keys(widgets: Space) -> None:
    apply(widgets, "one", labels={"x": "1"}).done()
    found = apply(widgets, "two", labels={"y": "1"}).object
    assert found["spec"]["labels"] == {"x": "1", "y": "1"}
    assert owned(found, "two") == {"f:spec": {"f:labels": {"f:y": {}}}}


def test_apply_of_an_unknown_field_is_refused(widgets: Space) -> None:
    status = apply(widgets, "one", odd=1).refused(500)
    assert ".spec.odd: field not declared in schema" in status["message"]


def test_apply_is_validated_after_merging(widgets: Space) -> None:
    apply(widgets, "one", shards=3).done()
    reply = apply(widgets, "two", replicas=4)
    reply.refused(422)
    assert reply.causes() == {
        ("spec", "FieldValueInvalid", 'Invalid value: "object": shards 3 against replicas 4')
    }


def test_apply_of_status_is_a_manager_of_its_own(widgets: Space) -> None:
    apply(widgets, "one", name="abc").done()
    intent = {
        "apiVersion": widgets.kinds["widgets"][0],
        "kind": "Widget",
        "metadata": {"name": "a"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    found = widgets.patch("widgets/a/status", intent, APPLY, fieldManager="one").object
    assert managers(found) == [("one", "Apply", ""), ("one", "Apply", "status")]
    assert owned(found, "one", "status") == {
        "f:status": {
            "f:conditions": {'k:{"type":"Ready"}': {".": {}, "f:status": {}, "f:type": {}}}
        }
    }


def test_conditions_of_two_managers_live_side_by_side(widgets: Space) -> None:
    make(widgets)
    for manager, kind in (("one", "Ready"), ("two", "Healthy")):
        intent = {
            "apiVersion": widgets.kinds["widgets"][0],
            "kind": "Widget",
            "metadata": {"name": "a"},
            "status": {"conditions": [{"type": kind, "status": "True"}]},
        }
        found = widgets.patch("widgets/a/status", intent, APPLY, fieldManager=manager).object
    assert [each["type"] for each in found["status"]["conditions"]] == ["Ready", "Healthy"]


def test_update_owns_the_defaults_too(widgets: Space) -> None:
    made = widgets.create("widgets", {"metadata": {"name": "a"}, "spec": {}}, fieldManager="w")
    assert owned(made, "w") == {
        "f:spec": {
            ".": {},
            "f:filled": {".": {}, "f:inner": {}},
            "f:maybe": {},
            "f:size": {},
        }
    }
