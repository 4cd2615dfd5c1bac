from __future__ import annotations

import msgspec

from kubecontroller.client.decode import decode_page
from kubecontroller.client.interning import Interner
from kubecontroller.client.objects import PODS, Pod


def pods(count: int) -> tuple[Pod, ...]:
    items = [
        {
            "metadata": {
                "name": f"p{i}",
                "namespace": "a-namespace",
                "uid": f"uid-{i}",
                "labels": {"role": "a-primary"},
                "ownerReferences": [{"kind": "StatefulSet", "name": "an-owner", "uid": "owner"}],
            },
            "spec": {"nodeName": "node-one"},
            "status": {"podIP": f"10.0.0.{i}", "conditions": [{"type": "Ready", "status": "True"}]},
        }
        for i in range(count)
    ]
    return decode_page(PODS, msgspec.json.encode({"items": items}), ref="pods").items


def test_repeated_strings_become_one_and_objects_stay_equal() -> None:
    interner = Interner()
    one, two = (interner.shrink(pod) for pod in pods(2))
    assert (one, two) == pods(2)
    assert one.metadata.namespace is two.metadata.namespace
    assert one.spec.node_name is two.spec.node_name
    assert one.metadata.labels is not None
    assert two.metadata.labels is not None
    assert one.metadata.labels["role"] is two.metadata.labels["role"]
    assert one.metadata.owner_references is not None
    assert two.metadata.owner_references is not None
    assert one.metadata.owner_references[0].uid is two.metadata.owner_references[0].uid
    assert one.status.conditions is not None
    assert two.status.conditions is not None
    assert one.status.conditions[0].type is two.status.conditions[0].type


def test_what_is_each_objects_own_is_not_held() -> None:
    interner = Interner()
    interner.shrink(pods(1)[0])
    held = len(interner)
    for pod in pods(50):
        interner.shrink(pod)
    assert len(interner) == held


def test_the_memory_of_an_interner_is_bounded() -> None:
    interner = Interner(largest=10)
    for i in range(100):
        interner.shrink(Pod(metadata=pods(1)[0].metadata.__class__(namespace=f"n{i}")))
    assert len(interner) <= 10


def test_plain_values_are_left_as_they_are() -> None:
    value = {"metadata": {"name": "a"}}
    assert Interner().shrink(value) is value
