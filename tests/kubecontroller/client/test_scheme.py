from __future__ import annotations

import msgspec
import pytest

from kubecontroller.client.meta import Manifest
from kubecontroller.client.objects import BUILTIN, PODS, STATEFUL_SETS, Pod
from kubecontroller.client.scheme import Kind, Scheme


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


def test_known_kinds_are_decoded_as_structs_and_unknown_ones_as_plain_values() -> None:
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}
    pod = BUILTIN.decode(msgspec.json.encode(body))
    assert isinstance(pod, Pod)
    other = {"apiVersion": "example.org/v1", "kind": "Thing", "spec": {"x": [1]}}
    assert BUILTIN.decode(msgspec.json.encode(other)) == other


def test_a_kind_cannot_be_registered_as_two_types() -> None:
    scheme = Scheme(PODS)
    scheme.add(PODS)
    with pytest.raises(ValueError, match="another type"):
        scheme.add(PODS.plain())


def test_kinds_are_found_by_name() -> None:
    assert BUILTIN.find("apps", "v1", "StatefulSet") is STATEFUL_SETS
    assert BUILTIN.find("apps", "v9", "StatefulSet") is None
    assert ("", "v1", "Pod") in BUILTIN


def test_defaults_fill_in_absent_fields() -> None:
    def default(manifest: Manifest) -> None:
        manifest.setdefault("spec", {}).setdefault("replicas", 1)

    scheme = Scheme()
    scheme.add(Kind("g", "v1", "Thing", "things", True, dict), default=default)
    thing: Manifest = {"apiVersion": "g/v1", "kind": "Thing"}
    scheme.fill_defaults(thing)
    assert thing["spec"] == {"replicas": 1}


def test_versions_are_converted_through_the_hub() -> None:
    scheme = Scheme()
    scheme.add_hub("g", "Thing", "v2")
    for version, field in (("v1", "one"), ("v3", "three")):
        scheme.add_spoke(
            ("g", version, "Thing"),
            to_hub=lambda m, f=field: {**m, "size": m[f]},
            from_hub=lambda m, f=field: {"kind": "Thing", f: m["size"]},
        )
    old: Manifest = {"apiVersion": "g/v1", "kind": "Thing", "one": 5}
    assert scheme.convert(old, "v3") == {"apiVersion": "g/v3", "kind": "Thing", "three": 5}
    assert scheme.convert(old, "v2")["size"] == 5
    assert scheme.convert(old, "v1") is old
    assert old == {"apiVersion": "g/v1", "kind": "Thing", "one": 5}
    with pytest.raises(ValueError, match="no conversion for version 'v9'"):
        scheme.convert(old, "v9")


def test_a_spoke_needs_a_hub() -> None:
    with pytest.raises(ValueError, match="name a hub"):
        Scheme().add_spoke(("g", "v1", "Thing"), to_hub=dict, from_hub=dict)
