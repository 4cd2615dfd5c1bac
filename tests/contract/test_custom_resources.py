"""Custom resources: defaults, pruning, subresources, strictness."""

from __future__ import annotations

from contract.driver import STRATEGIC, Space
from contract.widgets import make


def test_custom_object_has_generation_and_uid(widgets: Space) -> None:
    made = make(widgets, name="abc")
    assert made["metadata"]["generation"] == 1
    assert made["metadata"]["uid"]
    assert made["kind"] == "Widget"


def test_defaults_are_filled_in(widgets: Space) -> None:
    made = make(widgets)
    assert made["spec"] == {"filled": {"inner": "x"}, "maybe": "m", "size": 3}


def test_defaults_of_an_absent_parent_are_not_filled_in(widgets: Space) -> None:
    assert "nested" not in make(widgets)["spec"]


def test_defaults_within_a_given_parent(widgets: Space) -> None:
    assert make(widgets, nested={"must": "x"})["spec"]["nested"] == {"must": "x", "deep": "d"}


def test_defaults_within_list_items(widgets: Space) -> None:
    assert make(widgets, rows=[{"id": "a"}])["spec"]["rows"] == [{"id": "a", "weight": 1}]


def test_null_of_a_field_that_is_not_nullable_is_replaced_by_its_default(widgets: Space) -> None:
    assert make(widgets, size=None)["spec"]["size"] == 3


def test_null_of_a_nullable_field_is_kept(widgets: Space) -> None:
    assert make(widgets, maybe=None)["spec"]["maybe"] is None


def test_unknown_fields_are_pruned(widgets: Space) -> None:
    made = make(widgets, odd=1, nested={"must": "x", "odd": 2})
    assert "odd" not in made["spec"]
    assert "odd" not in made["spec"]["nested"]


def test_unknown_fields_at_the_top_are_pruned(widgets: Space) -> None:
    made = widgets.create("widgets", {"metadata": {"name": "a"}, "odd": 1})
    assert "odd" not in made


def test_unknown_fields_are_preserved_where_the_schema_says_so(widgets: Space) -> None:
    assert make(widgets, free={"any": {"thing": [1, "x"]}})["spec"]["free"] == {
        "any": {"thing": [1, "x"]}
    }


def test_metadata_is_coerced_by_the_server_not_the_schema(widgets: Space) -> None:
    body = {"metadata": {"name": "a", "labels": {"x": 5}}, "spec": {}}
    status = widgets.post("widgets", body).refused(400, "BadRequest")
    assert "labels" in status["message"]


def test_status_is_not_written_by_create(widgets: Space) -> None:
    body = {"metadata": {"name": "a"}, "spec": {}, "status": {"ready": 1}}
    assert "status" not in widgets.create("widgets", body)


def test_status_is_not_written_by_replace(widgets: Space) -> None:
    made = make(widgets)
    after = widgets.put("widgets/a", {**made, "status": {"ready": 1}}).object
    assert "status" not in after
    assert after["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


def test_status_subresource_writes_only_status(widgets: Space) -> None:
    made = make(widgets)
    body = {**made, "spec": {"size": 5}, "status": {"ready": 1}}
    body["metadata"] = {**made["metadata"], "labels": {"x": "y"}}
    after = widgets.put("widgets/a/status", body).object
    assert after["status"] == {"ready": 1}
    assert after["spec"] == made["spec"]
    assert "labels" not in after["metadata"]
    assert after["metadata"]["generation"] == 1


def test_status_is_validated(widgets: Space) -> None:
    make(widgets)
    reply = widgets.patch("widgets/a/status", {"status": {"ready": "x"}})
    reply.refused(422)
    assert {cause[0] for cause in reply.causes()} == {"status.ready", "<nil>"}


def test_status_is_pruned(widgets: Space) -> None:
    make(widgets)
    after = widgets.patch("widgets/a/status", {"status": {"ready": 1, "odd": 2}}).object
    assert after["status"] == {"ready": 1}


def test_generation_counts_spec_changes_only(widgets: Space) -> None:
    make(widgets)
    widgets.patch("widgets/a", {"metadata": {"annotations": {"x": "y"}}}).done()
    widgets.patch("widgets/a/status", {"status": {"ready": 1}}).done()
    assert widgets.read("widgets/a")["metadata"]["generation"] == 1
    after = widgets.patch("widgets/a", {"spec": {"size": 4}}).object
    assert after["metadata"]["generation"] == 2


def test_scale_subresource_reads_the_paths(widgets: Space) -> None:
    make(widgets, replicas=2)
    status = {"replicas": 1, "selector": "app=a"}
    widgets.patch("widgets/a/status", {"status": status}).done()
    scale = widgets.read("widgets/a/scale")
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["spec"] == {"replicas": 2}
    assert scale["status"] == status


def test_scale_subresource_writes_the_spec(widgets: Space) -> None:
    make(widgets, replicas=2)
    scale = widgets.patch("widgets/a/scale", {"spec": {"replicas": 5}}).object
    assert scale["spec"] == {"replicas": 5}
    after = widgets.read("widgets/a")
    assert after["spec"]["replicas"] == 5
    assert after["metadata"]["generation"] == 2


def test_scale_below_zero_is_refused(widgets: Space) -> None:
    make(widgets, replicas=2)
    reply = widgets.patch("widgets/a/scale", {"spec": {"replicas": -1}})
    reply.refused(422)
    assert [cause[0] for cause in reply.causes()] == [".spec.replicas"]


def test_scale_with_a_stale_version_is_a_conflict(widgets: Space) -> None:
    make(widgets, replicas=2)
    scale = widgets.read("widgets/a/scale")
    widgets.patch("widgets/a", {"spec": {"size": 4}}).done()
    scale["spec"]["replicas"] = 3
    widgets.put("widgets/a/scale", scale).refused(409, "Conflict")


def test_strategic_merge_is_not_for_custom_resources(widgets: Space) -> None:
    make(widgets)
    reply = widgets.patch("widgets/a", {"spec": {}}, STRATEGIC)
    status = reply.refused(415, "UnsupportedMediaType")
    assert status["message"].startswith("the body of the request was in an unknown format")


def test_merge_patch_replaces_lists(widgets: Space) -> None:
    make(widgets, rows=[{"id": "a"}, {"id": "b"}])
    found = widgets.patch("widgets/a", {"spec": {"rows": [{"id": "c"}]}}).object
    assert [row["id"] for row in found["spec"]["rows"]] == ["c"]


def test_list_of_custom_objects_has_kinds(widgets: Space) -> None:
    make(widgets)
    found = widgets.read("widgets")
    assert found["kind"] == "WidgetList"
    assert found["items"][0]["kind"] == "Widget"


def test_custom_objects_are_watched(widgets: Space) -> None:
    start = widgets.read("widgets")["metadata"]["resourceVersion"]
    with widgets.watch("widgets", resourceVersion=start) as stream:
        make(widgets)
        widgets.patch("widgets/a/status", {"status": {"ready": 1}}).done()
        widgets.delete("widgets/a").done()
        assert [kind for kind, _ in stream.seen(3)] == ["ADDED", "MODIFIED", "DELETED"]


def test_field_selector_by_name_and_namespace_only(widgets: Space) -> None:
    make(widgets)
    assert widgets.names("widgets", fieldSelector="metadata.name=a") == ["a"]
    widgets.get("widgets", fieldSelector="spec.size=3").refused(400, "BadRequest")


def test_strict_validation_refuses_unknown_fields(widgets: Space) -> None:
    body = {"metadata": {"name": "a"}, "spec": {"odd": 1}}
    status = widgets.post("widgets", body, fieldValidation="Strict").refused(400, "BadRequest")
    assert status["message"] == (
        'Widget in version "v1" cannot be handled as a Widget: strict decoding error:'
        ' unknown field "spec.odd"'
    )


def test_unknown_fields_are_warned_of(widgets: Space) -> None:
    body = {"metadata": {"name": "a"}, "spec": {"odd": 1}}
    reply = widgets.post("widgets", body, fieldValidation="Warn")
    assert reply.status == 201
    assert reply.warnings == '299 - "unknown field \\"spec.odd\\""'


def test_name_label_of_a_custom_object_is_validated(widgets: Space) -> None:
    reply = widgets.post("widgets", {"metadata": {"name": "UPPER"}, "spec": {}})
    reply.refused(422)
    assert [cause[0] for cause in reply.causes()] == ["metadata.name"]


def test_put_to_an_absent_custom_object_is_not_found(widgets: Space) -> None:
    body = {"metadata": {"name": "a"}, "spec": {}}
    status = widgets.put("widgets/a", body).refused(404, "NotFound")
    group = widgets.kinds["widgets"][0].split("/")[0]
    assert status["message"] == f'widgets.{group} "a" not found'


def test_put_needs_a_version(widgets: Space) -> None:
    make(widgets)
    reply = widgets.put("widgets/a", {"metadata": {"name": "a"}, "spec": {}})
    reply.refused(422, "Invalid")
    assert reply.causes() == {
        (
            "metadata.resourceVersion",
            "FieldValueInvalid",
            "Invalid value: 0: must be specified for an update",
        )
    }
