"""Server-side apply, held to a real API server (1.34) and to its own laws.

`seen_applied.json` is a recorded conversation: a schema, then steps (applies with and without
force, puts, merge patches, writes of status) with what the real server answered to each.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubelocal.apiserver.apply.fieldset import (
    difference,
    from_paths,
    intersection,
    members,
    path_text,
    union,
)
from kubelocal.apiserver.apply.merge import ApplyConflict, ApplyError, apply, track
from kubelocal.apiserver.custom.schema import apply_defaults

STEPS = json.loads((Path(__file__).parent / "seen_applied.json").read_text())
SCHEMA, STEPS = STEPS[0], STEPS[1:]
VERSION = "pure.example/v1"
NOW = "2026-01-01T00:00:00Z"


def untimed(document: dict[str, Any]) -> dict[str, Any]:
    result = copy.deepcopy(document)
    result["metadata"].pop("uid", None)
    entries = result["metadata"].get("managedFields", [])
    for entry in entries:
        entry.pop("time", None)
    entries.sort(key=lambda e: (e["operation"], e["manager"], e.get("subresource", "")))
    return result


def thing(spec: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    document: dict[str, Any] = {"apiVersion": VERSION, "kind": "Thing"}
    document["metadata"] = {"name": "t", "namespace": "n", **metadata}
    if spec is not None:
        document["spec"] = spec
    return document


def applied(
    live: dict[str, Any] | None,
    intent: dict[str, Any],
    manager: str = "me",
    *,
    force: bool = False,
    now: str = NOW,
    subresource: str = "",
    schema: dict[str, Any] = SCHEMA,
) -> dict[str, Any]:
    return apply(
        schema,
        live,
        intent,
        manager=manager,
        force=force,
        version=VERSION,
        subresource=subresource,
        now=now,
        reset=("spec",) if subresource else ("status",),
    )


def tracked(
    old: dict[str, Any] | None, new: dict[str, Any], manager: str = "you", now: str = NOW
) -> dict[str, Any]:
    return track(
        SCHEMA,
        old,
        new,
        manager=manager,
        operation="Update",
        version=VERSION,
        subresource="",
        now=now,
        reset=("status",),
    )


def owned(document: dict[str, Any], manager: str, operation: str = "Apply") -> set[str]:
    for entry in document["metadata"].get("managedFields", []):
        if (entry["manager"], entry["operation"]) == (manager, operation):
            return {path_text(path) for path in members(entry["fieldsV1"])}
    return set()


def replayed(index: int) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    live = None
    for step in STEPS[:index]:
        if step["op"] == "delete":
            live = None
        elif step.get("status", 200) < 300:
            live = copy.deepcopy(step["answer"])
            live["metadata"]["uid"] = "u"
    return live, copy.deepcopy(STEPS[index])


@pytest.mark.parametrize(
    "index", [i for i, step in enumerate(STEPS) if step["op"] in {"apply", "applystatus"}]
)
def test_an_apply_ends_as_it_did_on_the_real_server(index: int) -> None:
    live, step = replayed(index)
    subresource = "status" if step["op"] == "applystatus" else ""
    kept = "spec" if subresource else "status"
    manager, force = step["manager"], step["force"]
    if step["status"] == 409:
        with pytest.raises(ApplyConflict) as refused:
            applied(live, step["intent"], manager, force=force, subresource=subresource)
        text, causes = step["answer"]
        assert refused.value.message == text
        assert sorted([cause.field, cause.message] for cause in refused.value.causes) == causes
        return
    result = applied(live, step["intent"], manager, force=force, subresource=subresource)
    result.pop(kept, None)
    if live and kept in live:
        result[kept] = live[kept]
    if subresource and live:
        entries = result["metadata"]["managedFields"]
        result["metadata"] = {**live["metadata"], "managedFields": entries}
    apply_defaults(SCHEMA, result)
    assert untimed(result) == step["answer"]


@pytest.mark.parametrize("index", [i for i, step in enumerate(STEPS) if "new" in step])
def test_an_update_is_recorded_as_on_the_real_server(index: int) -> None:
    live, step = replayed(index)
    subresource = "status" if step["op"] == "status" else ""
    new = step["new"]
    new["metadata"]["uid"] = "u"
    apply_defaults(SCHEMA, new)
    result = track(
        SCHEMA,
        live,
        new,
        manager=step["manager"],
        operation="Update",
        version=VERSION,
        subresource=subresource,
        now=NOW,
        reset=("spec",) if subresource else ("status",),
    )
    assert untimed(result) == step["answer"]


def test_what_its_only_manager_drops_goes_and_what_others_manage_stays() -> None:
    live = applied(None, thing({"a": 1, "b": "x", "m": {"k": "v", "l": "w"}}))
    live = applied(live, thing({"b": "x", "m": {"l": "w"}}), "other")
    live = applied(live, thing({"d": 1}))
    assert live["spec"] == {"b": "x", "m": {"l": "w"}, "d": 1}
    assert owned(live, "other") == {".spec.b", ".spec.m.l"}


def test_an_item_of_a_map_list_goes_with_its_last_manager() -> None:
    live = applied(None, thing({"lm": [{"name": "a", "v": 1}, {"name": "b", "v": 2}]}))
    live = applied(live, thing({"lm": [{"name": "b", "w": 3}]}), "other")
    live = applied(live, thing({"lm": []}))
    assert live["spec"]["lm"] == [{"name": "b", "w": 3}]


def test_a_conflict_names_manager_version_and_field() -> None:
    live = tracked(None, thing({"a": 1}), "kubectl-edit")
    with pytest.raises(ApplyConflict) as refused:
        applied(live, thing({"a": 2}))
    assert refused.value.message == (
        'Apply failed with 1 conflict: conflict with "kubectl-edit" using pure.example/v1: .spec.a'
    )
    (cause,) = refused.value.causes
    assert (cause.field, cause.reason) == (".spec.a", "FieldManagerConflict")
    assert cause.message == 'conflict with "kubectl-edit" using pure.example/v1'


def test_force_takes_the_field_and_the_loser_loses_only_that() -> None:
    live = applied(None, thing({"a": 1, "b": "x"}), "other")
    live = applied(live, thing({"a": 2}), force=True)
    assert live["spec"] == {"a": 2, "b": "x"}
    assert owned(live, "other") == {".spec.b"}
    assert owned(live, "me") == {".spec.a"}


def test_the_same_value_is_shared_without_conflict() -> None:
    live = applied(None, thing({"a": 1}), "other")
    live = applied(live, thing({"a": 1}))
    assert owned(live, "me") == owned(live, "other") == {".spec.a"}


def test_an_apply_that_changes_nothing_keeps_the_time() -> None:
    live = applied(None, thing({"a": 1, "lm": [{"name": "x"}]}, labels={"l": "1"}))
    again = applied(live, thing({"a": 1, "lm": [{"name": "x"}]}, labels={"l": "1"}), now="later")
    assert again == live


def test_an_update_that_changes_nothing_keeps_the_time() -> None:
    live = tracked(None, thing({"a": 1}, uid="u"))
    assert tracked(live, live, now="later") == live


def test_an_update_moves_a_changed_field_from_its_applier() -> None:
    live = applied(None, thing({"a": 1, "b": "x"}, uid="u"), "applier")
    live["metadata"]["uid"] = "u"
    new = copy.deepcopy(live)
    new["spec"]["a"] = 5
    live = tracked(live, new)
    assert owned(live, "applier") == {".spec.b"}
    assert owned(live, "you", "Update") == {".spec.a"}


def test_managers_of_a_subresource_are_entries_of_their_own() -> None:
    live = applied(None, thing({"a": 1}), "m")
    status = {**thing(), "status": {"c": 1}}
    live = applied(live, status, "m", subresource="status")
    entries = [(e["manager"], e.get("subresource", "")) for e in live["metadata"]["managedFields"]]
    assert entries == [("m", ""), ("m", "status")]


def test_reset_fields_are_never_owned_through_the_main_path() -> None:
    intent = {**thing({"a": 1}), "status": {"c": 1}}
    assert owned(applied(None, intent), "me") == {".spec.a"}


def test_an_object_without_a_record_belongs_to_before_first_apply() -> None:
    live = thing({"a": 1, "b": "x"}, uid="u")
    result = applied(live, thing({"a": 1}))
    assert owned(result, "before-first-apply", "Update") == {".spec", ".spec.a", ".spec.b"}
    with pytest.raises(ApplyConflict):
        applied(live, thing({"a": 2}))


def test_old_updaters_are_folded_into_one_entry() -> None:
    live = tracked(None, thing({"m": {"k": "0"}}, uid="u"), "u0", "2026-01-01T00:00:00Z")
    for number in range(1, 15):
        new = copy.deepcopy(live)
        new["spec"]["m"][f"k{number}"] = "v"
        live = tracked(live, new, f"u{number}", f"2026-01-01T00:00:{number:02d}Z")
    entries = live["metadata"]["managedFields"]
    assert len(entries) == 10
    assert entries[0]["manager"] == "ancient-changes"
    assert ".spec.m.k1" in owned(live, "ancient-changes", "Update")


def test_entries_are_ordered_appliers_first_then_by_age() -> None:
    live = tracked(None, thing({"a": 1}, uid="u"), "z", "2026-01-01T00:00:01Z")
    live = applied(live, thing({"b": "x"}), "y", now="2026-01-01T00:00:03Z")
    live = applied(live, thing({"d": 1}), "x", now="2026-01-01T00:00:02Z")
    order = [(e["operation"], e["manager"]) for e in live["metadata"]["managedFields"]]
    assert order == [("Apply", "x"), ("Apply", "y"), ("Update", "z")]


def test_a_single_empty_entry_drops_the_record() -> None:
    live = applied(None, thing({"a": 1}, uid="u"))
    new = copy.deepcopy(live)
    new["metadata"]["managedFields"] = [{}]
    assert "managedFields" not in tracked(live, new)["metadata"]


def test_a_client_may_hand_in_the_record_itself() -> None:
    """How kubectl migrates what client-side apply managed."""
    live = tracked(None, thing({"a": 1}, uid="u"), "kubectl-client-side-apply")
    new = copy.deepcopy(live)
    entry = new["metadata"]["managedFields"][0]
    entry["manager"], entry["operation"] = "kubectl", "Apply"
    result = tracked(live, new)
    assert owned(result, "kubectl") == {".spec", ".spec.a"}


def test_kubectl_takes_over_from_its_client_side_self_without_conflict() -> None:
    last = json.dumps(thing({"a": 1}))
    key = "kubectl.kubernetes.io/last-applied-configuration"
    live = tracked(None, thing({"a": 1}, annotations={key: last}), "kubectl-client-side-apply")
    result = applied(live, thing({"a": 2}), "kubectl")
    assert result["spec"]["a"] == 2
    assert json.loads(result["metadata"]["annotations"][key])["spec"] == {"a": 2}
    with pytest.raises(ApplyConflict):
        applied(live, thing({"a": 2}), "someone")


def test_an_empty_record_drops_the_record_too() -> None:
    live = applied(None, thing({"a": 1}, uid="u"))
    new = copy.deepcopy(live)
    new["metadata"]["managedFields"] = []
    apply_defaults(SCHEMA, new)
    assert "managedFields" not in tracked(live, new)["metadata"]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"nope": 1}, ".spec.nope: field not declared in schema"),
        ({"lm": [{"name": "a"}, {"name": "a"}]}, '.spec.lm: duplicate entries for key [name="a"]'),
        ({"ls": ["a", "a"]}, '.spec.ls: duplicate entries for key [="a"]'),
        ({"lm": [{"v": 1}]}, "omits all key fields"),
        ({"a": "x"}, ".spec.a: expected integer, got"),
    ],
    ids=["unknown", "twice in map", "twice in set", "no key", "type"],
)
def test_an_intent_that_does_not_fit_is_refused(spec: dict[str, Any], words: str) -> None:
    with pytest.raises(ApplyError, match="failed to create typed patch object") as refused:
        applied(None, thing(spec))
    assert words in refused.value.message


def test_managed_fields_may_not_be_applied() -> None:
    with pytest.raises(ApplyError, match="must be nil") as refused:
        applied(None, thing({"a": 1}, managedFields=[{"manager": "x"}]))
    assert refused.value.status == 400


def test_track_is_for_updates_only() -> None:
    with pytest.raises(ValueError, match="use apply"):
        track(
            SCHEMA, None, thing(), manager="m", operation="Apply", version=VERSION,
            subresource="", now=NOW, reset=(),
        )  # fmt: skip


KEYS = st.sampled_from("abc")
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "a": st.integers(0, 2),
        "m": st.dictionaries(KEYS, st.sampled_from("xy"), max_size=3),
        "st": st.fixed_dictionaries({}, optional={"p": st.integers(0, 2), "q": st.integers(0, 2)}),
        "at": st.fixed_dictionaries({}, optional={"p": st.integers(0, 2)}),
        "lm": st.lists(
            st.fixed_dictionaries({"name": KEYS}, optional={"v": st.integers(0, 2)}),
            max_size=3,
            unique_by=lambda item: item["name"],
        ),
        "ls": st.lists(KEYS, max_size=3, unique=True),
        "la": st.lists(st.integers(0, 2), max_size=2),
        "any": st.dictionaries(KEYS, st.integers(0, 2), max_size=2),
    },
)


@given(SPECS, SPECS)
def test_applying_twice_is_applying_once(first: dict[str, Any], second: dict[str, Any]) -> None:
    live = applied(None, thing(first), "other")
    once = applied(live, thing(second), force=True)
    assert applied(once, thing(second), force=True, now="later") == once


@given(SPECS, SPECS)
def test_what_is_applied_is_there(first: dict[str, Any], second: dict[str, Any]) -> None:
    live = applied(applied(None, thing(first), "other"), thing(second), force=True)
    again = applied(live, thing(second), "third")
    assert owned(again, "third") == owned(again, "me")


@given(SPECS)
def test_applied_then_dropped_is_gone_unless_shared(spec: dict[str, Any]) -> None:
    # As on the real server, nobody manages an empty list whose items could have managers.
    spec = {name: value for name, value in spec.items() if value or name not in {"lm", "ls"}}
    alone = applied(applied(None, thing(spec)), thing())
    assert not alone.get("spec")
    shared = applied(applied(None, thing(spec), "other"), thing(spec))
    assert owned(applied(shared, thing()), "other") == owned(shared, "other")


@given(SPECS, SPECS)
def test_sets_of_fields_obey_the_laws_of_sets(left: dict[str, Any], right: dict[str, Any]) -> None:
    def fields(spec: dict[str, Any]) -> dict[str, Any]:
        entries = applied(None, thing(spec))["metadata"].get("managedFields", [{}])
        return entries[0].get("fieldsV1", {})

    a, b = fields(left), fields(right)
    in_a, in_b = set(members(a)), set(members(b))
    assert set(members(union(a, b))) == in_a | in_b
    assert set(members(intersection(a, b))) == in_a & in_b
    assert set(members(difference(a, b))) == in_a - in_b


def test_a_path_is_printed_as_conflicts_show_it() -> None:
    path = ("f:spec", 'k:{"name":"x","port":80}', 'v:"y"', "i:3")
    assert path_text(path) == '.spec[name="x",port=80][="y"][3]'
    assert from_paths(["a.b", "a"]) == {"f:a": {".": {}, "f:b": {}}}
