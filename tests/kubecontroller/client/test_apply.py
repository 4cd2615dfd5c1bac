from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kubecontroller.client.apply import applied, apply_reason, intent_hash, stamped
from kubecontroller.client.meta import ObjectMeta, OwnerReference

STAMP = "example.org/intent"
INTENT: dict[str, Any] = {
    "metadata": {
        "name": "b",
        "namespace": "a",
        "labels": {"x": "1"},
        "annotations": {"y": "2"},
        "ownerReferences": [{"kind": "Owner", "name": "o", "uid": "o1", "controller": True}],
    },
    "spec": {"n": 1},
}


def seen(intent: dict[str, Any], **fields: Any) -> ObjectMeta:
    annotations = stamped(intent, STAMP)["metadata"]["annotations"]
    owners = (OwnerReference(kind="Owner", name="o", uid="o1", controller=True),)
    return ObjectMeta(
        uid="u",
        resource_version="5",
        labels={"x": "1", "of": "others"},
        annotations={**annotations, "of": "others"},
        owner_references=owners,
        **fields,
    )


json = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
)


@given(st.dictionaries(st.text(max_size=3), json, max_size=4))
def test_the_order_of_keys_does_not_change_the_hash(value: dict[str, Any]) -> None:
    assert intent_hash(value) == intent_hash(dict(reversed(value.items())))


def test_any_change_of_a_value_changes_the_hash() -> None:
    assert intent_hash({"a": 1}) != intent_hash({"a": "1"})
    assert intent_hash({"a": None}) != intent_hash({})


def test_stamping_twice_changes_nothing_and_leaves_the_intent_alone() -> None:
    once = stamped(INTENT, STAMP)
    assert stamped(once, STAMP) == once
    assert STAMP not in INTENT["metadata"]["annotations"]


def test_stamping_keeps_other_annotations() -> None:
    intent = {"metadata": {"name": "b", "annotations": {"k": "v"}}}
    assert stamped(intent, STAMP)["metadata"]["annotations"]["k"] == "v"


def reason(observed: ObjectMeta | None, last: ObjectMeta | None) -> str | None:
    remembered = applied(last, STAMP) if last else None
    return apply_reason(stamped(INTENT, STAMP), observed, STAMP, remembered)


def test_an_absent_object_is_applied() -> None:
    assert reason(None, None) == "it does not exist"


def test_an_object_is_left_alone_once_this_process_has_applied_it() -> None:
    meta = seen(INTENT, generation=1)
    assert reason(meta, None) == "this process has not applied it yet"
    assert reason(meta, meta) is None


def test_a_changed_intent_is_applied() -> None:
    other = seen({**INTENT, "spec": {"n": 2}}, generation=1)
    assert reason(other, other) == "what is wanted has changed"
    assert reason(ObjectMeta(uid="u"), None) == "what is wanted has changed"


@pytest.mark.parametrize(
    ("before", "after", "sent"),
    [
        pytest.param({"generation": 1}, {"generation": 2}, True, id="spec changed by others"),
        pytest.param({"generation": 1}, {"resource_version": "6"}, False, id="only its status"),
        pytest.param({}, {"resource_version": "6"}, True, id="no generation: any write"),
        pytest.param({"generation": 1}, {"generation": 7, "uid": "v"}, True, id="created again"),
        pytest.param({"generation": 1}, {"labels": {"of": "others"}}, True, id="a label"),
        pytest.param({"generation": 1}, {"labels": {"x": "1"}}, False, id="a label of others"),
        pytest.param({"generation": 1}, {"owner_references": None}, True, id="the owner"),
    ],
)
def test_writes_of_others_are_noticed(
    before: dict[str, Any], after: dict[str, Any], sent: bool
) -> None:
    last = seen(INTENT, **before)
    assert (reason(replace(last, **after), last) is not None) == sent


def test_an_annotation_of_ours_that_is_missing_is_noticed() -> None:
    last = seen(INTENT, generation=1)
    kept = {STAMP: last.annotation(STAMP), "y": "3"}
    assert reason(replace(last, annotations=kept), last) == "another client changed its annotations"
