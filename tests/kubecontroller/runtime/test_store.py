from __future__ import annotations

import pytest

from kubecontroller.client.meta import ObjectMeta, OwnerReference, Projected
from kubecontroller.runtime.store import Store, by_namespace, by_owner, label_index


def obj(name: str, namespace: str = "d", **meta) -> Projected:
    return Projected(metadata=ObjectMeta(name=name, namespace=namespace, **meta))


def put(store: Store[Projected], thing: Projected) -> None:
    store.put(thing.metadata.key, thing)


def test_an_index_follows_an_object_whose_value_changes():
    store = Store[Projected]({"app": label_index("app")})
    put(store, obj("a", labels={"app": "x"}))
    put(store, obj("a", labels={"app": "y"}))
    assert store.reader.find("app", ("d", "x")) == []
    assert store.reader.find_keys("app", ("d", "y")) == [("d", "a")]


def test_an_object_without_a_value_is_not_in_the_index_and_none_is_left_behind():
    store = Store[Projected]({"app": label_index("app")})
    put(store, obj("a", labels={"app": "x"}))
    put(store, obj("a"))
    assert store._found["app"] == {}
    store.remove(("d", "a"))
    assert len(store.reader) == 0


def test_owners_are_found_by_uid():
    owners = (OwnerReference(uid="1", controller=True), OwnerReference(uid="2"))
    store = Store[Projected]({"owner": by_owner})
    put(store, obj("a", owner_references=owners))
    assert store.reader.find_keys("owner", "2") == [("d", "a")]


def test_an_index_added_late_holds_what_is_there():
    store = Store[Projected]()
    put(store, obj("a"))
    put(store, obj("b", namespace="e"))
    store.add_index("namespace", by_namespace)
    store.add_index("namespace", by_namespace)
    assert store.reader.find_keys("namespace", "e") == [("e", "b")]
    with pytest.raises(ValueError, match="choose another name"):
        store.add_index("namespace", by_owner)


def test_found_keys_are_in_order_and_a_copy():
    store = Store[Projected]({"namespace": by_namespace})
    for name in ("c", "a", "b"):
        put(store, obj(name))
    found = store.reader.find("namespace", "d")
    assert [o.metadata.name for o in found] == ["a", "b", "c"]
    for thing in store.reader:
        store.remove(thing.metadata.key)  # iterating is over a copy
    assert len(store.reader) == 0
    assert len(found) == 3


def test_an_unknown_index_says_which_there_are():
    store = Store[Projected]({"namespace": by_namespace})
    with pytest.raises(KeyError, match="this cache has"):
        store.reader.find("owner", "x")


def test_readers_cannot_write():
    store = Store[Projected]()
    assert not {"put", "remove", "add_index"} & set(dir(store.reader))


def test_plain_values_are_indexed_too():
    store = Store[dict]({"app": label_index("app"), "namespace": by_namespace})
    store.put(("d", "a"), {"metadata": {"name": "a", "namespace": "d", "labels": {"app": "x"}}})
    assert store.reader.find_keys("app", ("d", "x")) == [("d", "a")]
    assert ("d", "a") in store.reader
