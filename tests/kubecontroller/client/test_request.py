from __future__ import annotations

import pytest

from kubecontroller.client.request import api_root, collection_path, object_path, query


@pytest.mark.parametrize(
    ("group", "version", "path"),
    [
        pytest.param("", "v1", "/api/v1", id="core"),
        pytest.param("apps", "v1", "/apis/apps/v1", id="named"),
    ],
)
def test_groups_are_served_under_their_roots(group: str, version: str, path: str) -> None:
    assert api_root(group, version) == path


def test_collections_are_of_one_namespace_or_of_all() -> None:
    assert collection_path("apps", "v1", "statefulsets") == "/apis/apps/v1/statefulsets"
    assert collection_path("", "v1", "pods", "a") == "/api/v1/namespaces/a/pods"


def test_objects_have_paths_with_and_without_a_subresource() -> None:
    path = object_path("", "v1", "pods", namespace="a", name="b")
    assert path == "/api/v1/namespaces/a/pods/b"
    path = object_path("", "v1", "nodes", namespace="", name="n", subresource="status")
    assert path == "/api/v1/nodes/n/status"


def test_colons_of_role_names_stay_as_they_are() -> None:
    path = object_path("rbac", "v1", "clusterroles", namespace="", name="system:node")
    assert path.endswith("/system:node")


@pytest.mark.parametrize("name", ["../secrets/x", "a/b", "a?b", "a#b", "a b", "ä"])
def test_no_name_can_step_out_of_its_place(name: str) -> None:
    path = object_path("", "v1", "pods", namespace="n", name=name)
    assert path.count("/") == len(["", "api", "v1", "namespaces", "n", "pods", "x"]) - 1
    assert not {"?", "#", " "} & set(path)


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_names_that_would_change_the_path_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="give the object's name"):
        object_path("", "v1", "pods", namespace="n", name=name)


def test_unset_query_parameters_are_left_out_and_order_is_kept() -> None:
    built = query(watch=True, limit=5, continue_="t", labelSelector="", dryRun=None, force=False)
    assert built == (("watch", "true"), ("limit", "5"), ("continue", "t"))
