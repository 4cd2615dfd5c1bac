from __future__ import annotations

import pytest

from kubecontroller.client.objects import BUILTIN, PODS, STATEFUL_SETS
from kubecontroller.client.scheme import Scheme


def test_kinds_know_how_they_are_written() -> None:
    assert (PODS.api_version, PODS.resource) == ("v1", "pods")
    assert (STATEFUL_SETS.api_version, STATEFUL_SETS.resource) == ("apps/v1", "statefulsets.apps")
    assert str(PODS.ref(("a", "b"))) == "Pod a/b"
    assert PODS.list_kind == "PodList"


def test_a_kind_read_plain_is_the_same_kind_of_plain_values() -> None:
    plain = PODS.plain()
    assert plain.gvk == PODS.gvk
    assert plain.model is dict
    assert plain == PODS.plain()
    assert hash(plain) == hash(PODS.plain())


def test_a_kind_cannot_be_registered_as_two_types() -> None:
    scheme = Scheme(PODS)
    scheme.add(PODS)
    with pytest.raises(ValueError, match="another type"):
        scheme.add(PODS.plain())


def test_kinds_are_found_by_name() -> None:
    assert BUILTIN.find("apps", "v1", "StatefulSet") is STATEFUL_SETS
    assert BUILTIN.find("apps", "v9", "StatefulSet") is None
    assert ("", "v1", "Pod") in BUILTIN
