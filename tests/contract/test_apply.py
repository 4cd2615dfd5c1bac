"""Server-side apply: ownership, conflicts, force, and what is left when a field is dropped."""

from __future__ import annotations

import re
from typing import Any

import pytest

from contract.driver import APPLY, Space
from contract.fields import managers, owned


def data(**values: str) -> dict[str, Any]:
    return {"data": values}


def test_apply_creates_with_201_and_updates_with_200(space: Space) -> None:
    assert space.apply("configmaps/a", data(k="v")).status == 201
    assert space.apply("configmaps/a", data(k="w")).status == 200


def test_apply_records_its_manager(space: Space) -> None:
    found = space.apply("configmaps/a", data(k="v")).object
    [entry] = found["metadata"]["managedFields"]
    assert re.match(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$", entry.pop("time"))
    assert entry == {
        "manager": "one",
        "operation": "Apply",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {"f:k": {}}},
    }


def test_update_records_its_manager(space: Space) -> None:
    found = space.create(
        "configmaps",
        {"metadata": {"name": "a", "labels": {"x": "1"}}, "data": {"k": "v"}},
        fieldManager="writer",
    )
    [entry] = found["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"], entry["apiVersion"]) == ("writer", "Update", "v1")
    assert entry["fieldsV1"] == {
        "f:data": {".": {}, "f:k": {}},
        "f:metadata": {"f:labels": {".": {}, "f:x": {}}},
    }


def test_manager_defaults_to_the_user_agent(space: Space) -> None:
    headers = {"User-Agent": "tool/v1.2 (linux)"}
    made = space.api.request(
        "POST",
        space.path("configmaps"),
        space.whole("configmaps", {"metadata": {"name": "a"}, "data": {"k": "v"}}),
        headers=headers,
    ).object
    assert managers(made) == [("tool", "Update", "")]


def test_apply_needs_a_manager(space: Space) -> None:
    reply = space.apply("configmaps/a", data(k="v"), None)
    reply.refused(422, "Invalid")
    assert reply.faults() == {("fieldManager", "FieldValueRequired")}


def test_apply_needs_the_name_in_the_body(space: Space) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"}}
    status = space.patch("configmaps/a", body, APPLY, fieldManager="one").refused(400)
    assert "name must be provided" in status["message"]


def test_apply_takes_yaml(space: Space) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: 'v'\n"
    assert space.patch("configmaps/a", text, APPLY, fieldManager="one").object["data"] == {"k": "v"}


def test_apply_needs_kind_and_version(space: Space) -> None:
    reply = space.patch("configmaps/a", {"data": {}}, APPLY, fieldManager="one")
    status = reply.refused(400, "BadRequest")
    assert "Kind=" in status["message"]


def test_apply_refuses_managed_fields(space: Space) -> None:
    body = {"metadata": {"name": "a", "managedFields": [{"manager": "x"}]}}
    status = space.apply("configmaps/a", body).refused(400, "BadRequest")
    assert "metadata.managedFields" in status["message"]


def test_apply_of_the_same_changes_nothing(space: Space) -> None:
    first = space.apply("configmaps/a", data(k="v")).object
    assert space.apply("configmaps/a", data(k="v")).object == first


def test_other_value_of_another_manager_is_a_conflict(space: Space) -> None:
    space.apply("configmaps/a", data(k="v"), "one").done()
    reply = space.apply("configmaps/a", data(k="w"), "two")
    status = reply.refused(409, "Conflict")
    assert status["message"] == 'Apply failed with 1 conflict: conflict with "one": .data.k'
    assert status["details"] == {
        "causes": [
            {
                "reason": "FieldManagerConflict",
                "message": 'conflict with "one"',
                "field": ".data.k",
            }
        ]
    }
    assert space.read("configmaps/a")["data"] == {"k": "v"}


def test_conflicts_are_told_all_at_once(space: Space) -> None:
    space.apply("configmaps/a", data(k="v", l="v"), "one").done()
    reply = space.apply("configmaps/a", data(k="w", l="w"), "two")
    status = reply.refused(409, "Conflict")
    assert status["message"] == (
        'Apply failed with 2 conflicts: conflicts with "one":\n- .data.k\n- .data.l'
    )
    assert len(status["details"]["causes"]) == 2


def test_conflicts_with_several_managers(space: Space) -> None:
    space.apply("configmaps/a", data(k="v"), "one").done()
    space.apply("configmaps/a", data(l="v"), "two").done()
    status = space.apply("configmaps/a", data(k="w", l="w"), "three").refused(409)
    assert status["message"] == (
        'Apply failed with 2 conflicts: conflicts with "one":\n- .data.k\n'
        'conflicts with "two":\n- .data.l'
    )


def test_conflict_with_an_update_names_its_version(space: Space) -> None:
    body = {"metadata": {"name": "a"}, "data": {"k": "v"}}
    space.create("configmaps", body, fieldManager="writer")
    status = space.apply("configmaps/a", data(k="w"), "one").refused(409)
    assert status["message"] == (
        'Apply failed with 1 conflict: conflict with "writer" using v1: .data.k'
    )


def test_force_takes_the_field(space: Space) -> None:
    space.apply("configmaps/a", data(k="v", l="v"), "one").done()
    found = space.apply("configmaps/a", data(k="w"), "two", force=True).object
    assert found["data"] == {"k": "w", "l": "v"}
    assert owned(found, "one") == {"f:data": {"f:l": {}}}
    assert owned(found, "two") == {"f:data": {"f:k": {}}}


def test_force_can_leave_a_manager_with_nothing(space: Space) -> None:
    space.apply("configmaps/a", data(k="v"), "one").done()
    found = space.apply("configmaps/a", data(k="w"), "two", force=True).object
    assert managers(found) == [("two", "Apply", "")]


def test_same_value_is_shared(space: Space) -> None:
    space.apply("configmaps/a", data(k="v"), "one").done()
    found = space.apply("configmaps/a", data(k="v"), "two").object
    assert owned(found, "one") == owned(found, "two") == {"f:data": {"f:k": {}}}


def test_shared_value_conflicts_when_one_changes_it(space: Space) -> None:
    space.apply("configmaps/a", data(k="v"), "one").done()
    space.apply("configmaps/a", data(k="v"), "two").done()
    space.apply("configmaps/a", data(k="w"), "one").refused(409, "Conflict")


def test_dropped_field_of_a_sole_owner_is_removed(space: Space) -> None:
    space.apply("configmaps/a", data(k="v", l="v")).done()
    found = space.apply("configmaps/a", data(k="v")).object
    assert found["data"] == {"k": "v"}
    assert owned(found, "one") == {"f:data": {"f:k": {}}}


def test_dropped_field_with_another_owner_stays(space: Space) -> None:
    space.apply("configmaps/a", data(k="v", l="v"), "one").done()
    space.apply("configmaps/a", data(l="v"), "two").done()
    found = space.apply("configmaps/a", data(k="v"), "one").object
    assert found["data"] == {"k": "v", "l": "v"}
    assert owned(found, "one") == {"f:data": {"f:k": {}}}


def test_dropping_everything_leaves_no_map(space: Space) -> None:
    space.apply("configmaps/a", data(k="v")).done()
    found = space.apply("configmaps/a", {}).object
    assert "data" not in found


def test_field_changed_by_an_update_is_no_longer_ours(space: Space) -> None:
    space.apply("configmaps/a", data(k="v", l="v"), "one").done()
    found = space.patch("configmaps/a", data(k="w"), fieldManager="writer").object
    assert owned(found, "one") == {"f:data": {"f:l": {}}}
    assert owned(found, "writer") == {"f:data": {"f:k": {}}}
    after = space.apply("configmaps/a", data(l="v"), "one").object
    assert after["data"] == {"k": "w", "l": "v"}


def test_update_that_keeps_a_value_takes_nothing(space: Space) -> None:
    space.apply("configmaps/a", data(k="v"), "one").done()
    found = space.patch("configmaps/a", data(k="v", l="v"), fieldManager="writer").object
    assert owned(found, "one") == {"f:data": {"f:k": {}}}
    assert owned(found, "writer") == {"f:data": {"f:l": {}}}


def test_removal_by_an_update_is_forgotten_by_all(space: Space) -> None:
    space.apply("configmaps/a", data(k="v", l="v"), "one").done()
    found = space.patch("configmaps/a", {"data": {"k": None}}, fieldManager="writer").object
    assert managers(found) == [("one", "Apply", "")]
    assert owned(found, "one") == {"f:data": {"f:l": {}}}


def test_update_and_apply_of_one_name_are_two_managers(space: Space) -> None:
    space.apply("configmaps/a", data(k="v"), "one").done()
    found = space.patch("configmaps/a", data(l="v"), fieldManager="one").object
    assert managers(found) == [("one", "Apply", ""), ("one", "Update", "")]


def test_entries_are_ordered_applies_first_then_by_time(space: Space) -> None:
    space.create("configmaps", {"metadata": {"name": "a"}, "data": {"k": "v"}}, fieldManager="w")
    space.apply("configmaps/a", data(l="v"), "b").done()
    found = space.apply("configmaps/a", data(m="v"), "a").object
    assert [each[1] for each in managers(found)] == ["Apply", "Apply", "Update"]


def test_delete_of_all_managed_fields_resets_them(space: Space) -> None:
    space.apply("configmaps/a", data(k="v"), "one").done()
    found = space.patch("configmaps/a", {"metadata": {"managedFields": [{}]}}).object
    assert "managedFields" not in found["metadata"]


def test_empty_managed_fields_list_resets_them_too(space: Space) -> None:
    space.apply("configmaps/a", data(k="v"), "one").done()
    found = space.patch("configmaps/a", {"metadata": {"managedFields": []}}).object
    assert "managedFields" not in found["metadata"]


def test_reset_object_is_not_tracked_until_the_next_apply(space: Space) -> None:
    space.apply("configmaps/a", data(k="v"), "one").done()
    space.patch("configmaps/a", {"metadata": {"managedFields": [{}]}}).done()
    found = space.patch("configmaps/a", data(m="v"), fieldManager="writer").object
    assert managers(found) == []
    after = space.apply("configmaps/a", data(k="v", n="v"), "one").object
    assert owned(after, "one") == {"f:data": {"f:k": {}, "f:n": {}}}
    assert ("before-first-apply", "Update", "") in managers(after)
    assert owned(after, "before-first-apply") == {"f:data": {".": {}, "f:k": {}, "f:m": {}}}


def test_object_made_without_fields_is_not_tracked_until_the_next_apply(space: Space) -> None:
    space.create("configmaps", {"metadata": {"name": "a"}}, fieldManager="writer")
    found = space.patch("configmaps/a", data(k="v"), fieldManager="writer").object
    assert managers(found) == []


def test_apply_with_a_stale_version_is_a_conflict(space: Space) -> None:
    first = space.apply("configmaps/a", data(k="v")).object["metadata"]["resourceVersion"]
    space.apply("configmaps/a", data(k="w")).done()
    body = {"metadata": {"name": "a", "resourceVersion": first}, "data": {"k": "x"}}
    status = space.apply("configmaps/a", body).refused(409, "Conflict")
    assert "the object has been modified" in status["message"]


def test_apply_with_a_version_creates_all_the_same(space: Space) -> None:
    body = {"metadata": {"name": "a", "resourceVersion": "1"}, "data": {"k": "x"}}
    assert space.apply("configmaps/a", body).status == 201


def test_null_of_a_text_in_intent_is_empty_and_owned(space: Space) -> None:
    found = space.apply("configmaps/a", {"data": {"k": "v", "l": None}}).object
    assert found["data"] == {"k": "v", "l": ""}
    assert owned(found, "one") == {"f:data": {"f:k": {}, "f:l": {}}}


def test_labels_and_annotations_are_owned_by_key(space: Space) -> None:
    metadata = {"name": "a", "labels": {"x": "1"}, "annotations": {"y/z": "2"}}
    found = space.apply("configmaps/a", {"metadata": metadata}).object
    assert owned(found, "one") == {
        "f:metadata": {"f:annotations": {"f:y/z": {}}, "f:labels": {"f:x": {}}}
    }


def test_finalizers_are_a_set(space: Space) -> None:
    def intent(*names: str) -> dict[str, Any]:
        return {"metadata": {"name": "a", "finalizers": list(names)}}

    space.apply("configmaps/a", intent("e.x/1", "e.x/2"), "one").done()
    found = space.apply("configmaps/a", intent("e.x/2", "e.x/3"), "two").object
    try:
        assert found["metadata"]["finalizers"] == ["e.x/1", "e.x/2", "e.x/3"]
        assert owned(found, "two") == {
            "f:metadata": {"f:finalizers": {'v:"e.x/2"': {}, 'v:"e.x/3"': {}}}
        }
        after = space.apply("configmaps/a", {}, "one").object
        assert after["metadata"]["finalizers"] == ["e.x/2", "e.x/3"]
    finally:
        space.patch("configmaps/a", {"metadata": {"finalizers": None}})


def test_owner_references_are_keyed_by_uid(space: Space) -> None:
    uid = space.create("secrets", {"metadata": {"name": "h"}})["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Secret", "name": "h", "uid": uid}
    found = space.apply(
        "configmaps/a", {"metadata": {"name": "a", "ownerReferences": [owner]}}
    ).object
    assert owned(found, "one") == {
        "f:metadata": {"f:ownerReferences": {f'k:{{"uid":"{uid}"}}': {}}}
    }


def client_side(space: Space) -> None:
    last = '{"apiVersion":"v1","data":{"k":"v","l":"v"},"kind":"ConfigMap"}'
    annotation = {"kubectl.kubernetes.io/last-applied-configuration": last}
    body = {"metadata": {"name": "a", "annotations": annotation}, "data": {"k": "v", "l": "v"}}
    space.create("configmaps", body, fieldManager="kubectl-client-side-apply")


def test_kubectl_takes_over_its_client_side_apply(space: Space) -> None:
    """No conflict, and the annotation of the last applied state follows."""
    client_side(space)
    found = space.apply("configmaps/a", data(k="w"), "kubectl").object
    assert found["data"] == {"k": "w", "l": "v"}
    annotation = found["metadata"]["annotations"][
        "kubectl.kubernetes.io/last-applied-configuration"
    ]
    assert annotation == (
        '{"apiVersion":"v1","data":{"k":"w"},"kind":"ConfigMap","metadata":{"name":"a"}}\n'
    )
    assert owned(found, "kubectl") == {"f:data": {"f:k": {}}}


def test_another_manager_conflicts_with_client_side_apply(space: Space) -> None:
    client_side(space)
    status = space.apply("configmaps/a", data(k="w"), "other").refused(409)
    assert status["message"] == (
        'Apply failed with 1 conflict: conflict with "kubectl-client-side-apply" using v1: .data.k'
    )


def test_forced_apply_needs_an_apply(space: Space) -> None:
    space.create("configmaps", {"metadata": {"name": "a"}})
    reply = space.patch("configmaps/a", {"data": {}}, force=True)
    reply.refused(422, "Invalid")
    assert reply.faults() == {("force", "FieldValueForbidden")}


def test_manager_name_may_not_be_too_long(space: Space) -> None:
    reply = space.apply("configmaps/a", data(k="v"), "m" * 129)
    reply.refused(422, "Invalid")
    assert reply.faults() == {("fieldManager", "FieldValueTooLong")}


@pytest.mark.parametrize("verb", ["create", "put", "merge"])
def test_every_write_is_tracked(space: Space, verb: str) -> None:
    body: dict[str, Any] = {"metadata": {"name": "a"}, "data": {"k": "v"}}
    if verb == "create":
        found = space.create("configmaps", body, fieldManager="w")
    else:
        labels = {"metadata": {"name": "a", "labels": {"x": "1"}}}
        space.create("configmaps", labels, fieldManager="first")
        if verb == "put":
            body["metadata"]["labels"] = {"x": "1"}
            found = space.put("configmaps/a", body, fieldManager="w").object
        else:
            found = space.patch("configmaps/a", data(k="v"), fieldManager="w").object
    assert owned(found, "w") == {"f:data": {".": {}, "f:k": {}}}


def test_one_manager_has_one_update_entry(space: Space) -> None:
    space.create("configmaps", {"metadata": {"name": "a"}, "data": {"k": "v"}}, fieldManager="w")
    found = space.patch("configmaps/a", data(l="v"), fieldManager="w").object
    assert managers(found) == [("w", "Update", "")]
    assert owned(found, "w") == {"f:data": {".": {}, "f:k": {}, "f:l": {}}}


def test_apply_dry_run_stores_nothing(space: Space) -> None:
    assert space.apply("configmaps/a", data(k="v"), dryRun="All").status == 201
    space.get("configmaps/a").refused(404)


def test_apply_to_a_namespace_that_is_absent(space: Space) -> None:
    other = Space(space.api, "contract-nowhere")
    status = other.apply("configmaps/a", data(k="v")).refused(404, "NotFound")
    assert status["message"] == 'namespaces "contract-nowhere" not found'
