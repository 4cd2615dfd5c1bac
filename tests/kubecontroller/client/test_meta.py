from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubecontroller.client.meta import (
    Condition,
    ObjectMeta,
    OwnerReference,
    Ref,
    controller_of,
    find_condition,
    is_at_least,
    key_of,
    meta_of,
    parse_version,
)
from kubecontroller.client.objects import Pod


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1", 1),
        ("12345678901234567890123456789", 12345678901234567890123456789),
        ("0", None),
        ("", None),
        ("007", None),
        ("-1", None),
        ("1a", None),
        ("１", None),
        ("²", None),
    ],
)
def test_only_positive_decimals_are_comparable_versions(text: str, number: int | None) -> None:
    assert parse_version(text) == number


@given(st.integers(min_value=1), st.integers(min_value=1))
def test_versions_compare_as_numbers(left: int, right: int) -> None:
    assert is_at_least(str(left), str(right)) is (left >= right)


def test_versions_that_cannot_be_compared_give_no_answer() -> None:
    assert is_at_least("x", "1") is None
    assert is_at_least("9", "") is None


def test_metadata_is_found_in_structs_and_plain_values() -> None:
    meta = ObjectMeta(name="b", namespace="a")
    assert meta_of(Pod(metadata=meta)) == meta
    assert meta_of({"metadata": {"name": "b", "namespace": "a"}}) == meta
    assert key_of({"metadata": {"name": "b", "namespace": "a"}}) == ("a", "b")
    assert key_of(Pod(metadata=meta)) == ("a", "b")


@pytest.mark.parametrize("value", [{}, {"metadata": None}, {"metadata": {}}])
def test_an_object_without_metadata_has_empty_metadata(value: dict[str, object]) -> None:
    assert meta_of(value) == ObjectMeta()
    assert key_of(value) == ("", "")


def test_the_controller_is_the_owner_that_controls() -> None:
    other = OwnerReference("v1", "Node", "n", "1")
    owner = OwnerReference("apps/v1", "StatefulSet", "s", "2", controller=True)
    assert controller_of(ObjectMeta(owner_references=(other, owner))) is owner
    assert controller_of(ObjectMeta(owner_references=(other,))) is None
    assert (owner.group, other.group) == ("apps", "")


def test_conditions_are_found_by_type_and_unknown_is_not_true() -> None:
    ready = Condition(type="Ready", status="Unknown")
    assert find_condition((ready,), "Ready") is ready
    assert not ready.is_true
    assert find_condition(None, "Ready") is None


def test_refs_read_like_people_write_them() -> None:
    assert str(Ref("Pod", "a", "b")) == "Pod a/b"
    assert str(Ref("Node", "", "n")) == "Node n"
