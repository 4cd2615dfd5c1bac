"""Namespaces: made, ending, and what that means for what is in them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from contract.driver import Space


@pytest.fixture
def ending(space: Space, unique: str) -> Iterator[Space]:
    """A namespace that is being deleted, and cannot go because something in it is held."""
    place = Space(space.api, f"contract-ending-{unique}")
    space.create("namespaces", {"metadata": {"name": place.name}})
    place.create("secrets", {"metadata": {"name": "held", "finalizers": ["contract.test/hold"]}})
    place.delete(f"namespaces/{place.name}").done()
    yield place
    place.patch("secrets/held", {"metadata": {"finalizers": None}})


def test_new_namespace_is_active_and_labelled(space: Space) -> None:
    found = space.read(f"namespaces/{space.name}")
    assert found["status"] == {"phase": "Active"}
    assert found["spec"] == {"finalizers": ["kubernetes"]}
    assert found["metadata"]["labels"] == {"kubernetes.io/metadata.name": space.name}


def test_name_label_comes_back(space: Space) -> None:
    patch = {"metadata": {"labels": {"kubernetes.io/metadata.name": None}}}
    found = space.patch(f"namespaces/{space.name}", patch).object
    assert found["metadata"]["labels"] == {"kubernetes.io/metadata.name": space.name}


def test_deleted_namespace_is_terminating(ending: Space) -> None:
    found = ending.read(f"namespaces/{ending.name}")
    assert found["status"]["phase"] == "Terminating"
    assert found["metadata"]["deletionTimestamp"]
    assert found["spec"]["finalizers"] == ["kubernetes"]


def test_nothing_new_may_be_made_in_a_terminating_namespace(ending: Space) -> None:
    reply = ending.post("configmaps", {"metadata": {"name": "late"}})
    status = reply.refused(403, "Forbidden")
    assert status["message"] == (
        f'configmaps "late" is forbidden: unable to create new content in namespace {ending.name}'
        " because it is being terminated"
    )
    assert status["details"]["causes"] == [
        {
            "reason": "NamespaceTerminating",
            "message": f"namespace {ending.name} is being terminated",
            "field": "metadata.namespace",
        }
    ]


def test_apply_cannot_make_anything_in_a_terminating_namespace(ending: Space) -> None:
    ending.apply("configmaps/late", {"data": {"k": "v"}}).refused(403, "Forbidden")


def test_what_is_in_a_terminating_namespace_can_change(ending: Space) -> None:
    found = ending.patch("secrets/held", {"metadata": {"labels": {"x": "y"}}}).object
    assert found["metadata"]["labels"] == {"x": "y"}


def test_second_delete_of_a_namespace_changes_nothing(ending: Space) -> None:
    before = ending.read(f"namespaces/{ending.name}")["metadata"]["deletionTimestamp"]
    found = ending.delete(f"namespaces/{ending.name}").object
    assert found["kind"] == "Namespace"
    assert found["metadata"]["deletionTimestamp"] == before


def test_namespace_names_are_labels(space: Space) -> None:
    reply = space.post("namespaces", {"metadata": {"name": "a.b"}})
    reply.refused(422)
    assert [cause[0] for cause in reply.causes()] == ["metadata.name"]


@pytest.mark.parametrize("name", ["default", "kube-system"])
def test_first_namespaces_exist(space: Space, name: str) -> None:
    assert space.read(f"namespaces/{name}")["status"]["phase"] == "Active"


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_first_namespaces_cannot_be_deleted(space: Space, name: str) -> None:
    status = space.delete(f"namespaces/{name}").refused(403, "Forbidden")
    assert status["message"] == (
        f'namespaces "{name}" is forbidden: this namespace may not be deleted'
    )


def test_finalize_subresource_replaces_the_finalizers(space: Space, unique: str) -> None:
    name = f"contract-fin-{unique}"
    made = space.create("namespaces", {"metadata": {"name": name}})
    made["spec"]["finalizers"] = ["kubernetes", "contract.test/hold"]
    found = space.put(f"namespaces/{name}/finalize", made).object
    assert found["spec"]["finalizers"] == ["kubernetes", "contract.test/hold"]
    found["spec"]["finalizers"] = ["kubernetes"]
    space.put(f"namespaces/{name}/finalize", found).done()
    space.delete(f"namespaces/{name}").done()
