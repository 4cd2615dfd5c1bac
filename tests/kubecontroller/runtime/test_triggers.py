from __future__ import annotations

import pytest

from kubecontroller.client.meta import ObjectMeta, OwnerReference, Projected
from kubecontroller.client.scheme import Kind
from kubecontroller.runtime import triggers
from kubecontroller.runtime.changes import Added, Deleted, Updated

WEB = Kind("example.dev", "v1", "Website", "websites", True, dict)
ZONE = Kind("example.dev", "v1", "Zone", "zones", False, dict)


def obj(**meta) -> Projected:
    return Projected(metadata=ObjectMeta(**{"name": "a", "namespace": "d", **meta}))


def owned_by(name: str, *, api="example.dev/v1", kind="Website", controller=True) -> Projected:
    reference = OwnerReference(api_version=api, kind=kind, name=name, controller=controller)
    return obj(owner_references=(reference,))


def test_itself_is_the_newest_state():
    assert list(triggers.itself(Updated(obj(), obj(name="b")))) == [("d", "b")]
    assert list(triggers.itself(Deleted(obj()))) == [("d", "a")]


def test_owners_of_both_the_old_and_the_new_state_are_told():
    change = Updated(owned_by("old"), owned_by("new"))
    assert list(triggers.owner(WEB)(change)) == [("d", "old"), ("d", "new")]


def test_one_owner_of_both_states_is_told_once():
    assert list(triggers.owner(WEB)(Updated(owned_by("w"), owned_by("w")))) == [("d", "w")]


@pytest.mark.parametrize(
    ("child", "expected"),
    [
        (owned_by("w", api="example.dev/v1beta1"), [("d", "w")]),
        (owned_by("w", api="other.dev/v1"), []),
        (owned_by("w", kind="Other"), []),
        (owned_by("w", controller=False), []),
        (obj(), []),
    ],
    ids=["another version", "another group", "another kind", "not the controller", "no owner"],
)
def test_owners_match_by_group_and_kind_and_must_control(child, expected):
    assert list(triggers.owner(WEB)(Added(child))) == expected


def test_any_owner_counts_when_asked_for():
    trigger = triggers.owner(WEB, any_owner=True)
    assert list(trigger(Added(owned_by("w", controller=False)))) == [("d", "w")]


def test_a_cluster_scoped_owner_has_no_namespace():
    child = owned_by("z", kind="Zone")
    assert list(triggers.owner(ZONE)(Added(child))) == [("", "z")]


def test_a_label_names_the_key_in_the_same_namespace_or_the_named_one():
    child = obj(labels={"of": "w", "ns": "e"})
    assert list(triggers.by_label("of")(Added(child))) == [("d", "w")]
    assert list(triggers.by_label("of", namespace_label="ns")(Added(child))) == [("e", "w")]
    assert list(triggers.by_label("missing")(Added(child))) == []


def test_mapped_keys_of_old_and_new_are_told_once_each():
    trigger = triggers.mapped(lambda o: [("d", o.metadata.name), ("d", "always")])
    assert list(trigger(Updated(obj(), obj(name="b")))) == [("d", "a"), ("d", "always"), ("d", "b")]


SAME = obj(generation=1, resource_version="1")


@pytest.mark.parametrize(
    ("predicate", "new", "counts"),
    [
        (triggers.generation_changed, obj(generation=2, resource_version="2"), True),
        (triggers.generation_changed, obj(generation=1, resource_version="2"), False),
        (triggers.version_changed, obj(generation=1, resource_version="2"), True),
        (triggers.version_changed, SAME, False),
        (triggers.labels_changed, obj(labels={"a": "b"}), True),
        (triggers.labels_changed, obj(labels={}), False),
        (triggers.annotations_changed, obj(annotations={"a": "b"}), True),
        (triggers.annotations_changed, obj(), False),
        (triggers.lifetime_changed, obj(finalizers=("a",)), True),
        (triggers.lifetime_changed, obj(generation=1, resource_version="2"), False),
    ],
    ids=[
        "spec changed", "only the status changed", "any change", "resync", "label", "empty labels",
        "annotation", "no annotation", "finalizer", "nothing of its lifetime",
    ],
)  # fmt: skip
def test_predicates_count_what_they_name(predicate, new, counts):
    assert predicate(Updated(SAME, new)) is counts


def test_predicates_let_additions_and_deletions_pass():
    for predicate in (triggers.generation_changed, triggers.labels_changed):
        assert predicate(Added(obj()))
        assert predicate(Deleted(obj()))


def test_predicates_combine():
    change = Updated(SAME, obj(generation=2, resource_version="2"))
    yes, no = triggers.generation_changed, triggers.labels_changed
    assert triggers.any_of(no, yes)(change)
    assert not triggers.any_of(no, triggers.not_(yes))(change)
