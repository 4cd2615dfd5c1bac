"""Discovery, plain and aggregated, OpenAPI, and Table columns of the kinds we serve."""

from __future__ import annotations

from typing import Any

import pytest

from contract.driver import RESOURCES, Api, Space
from contract.golden import same

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
SUBRESOURCES = [
    ("v1", "namespaces/finalize"),
    ("v1", "namespaces/status"),
    ("v1", "nodes/status"),
    ("v1", "persistentvolumeclaims/status"),
    ("v1", "persistentvolumes/status"),
    ("v1", "pods/binding"),
    ("v1", "pods/eviction"),
    ("v1", "pods/exec"),
    ("v1", "pods/log"),
    ("v1", "pods/status"),
    ("v1", "serviceaccounts/token"),
    ("v1", "services/status"),
    ("apps/v1", "deployments/scale"),
    ("apps/v1", "deployments/status"),
    ("apps/v1", "replicasets/scale"),
    ("apps/v1", "replicasets/status"),
    ("apps/v1", "statefulsets/scale"),
    ("apps/v1", "statefulsets/status"),
    ("batch/v1", "jobs/status"),
    ("policy/v1", "poddisruptionbudgets/status"),
    ("apiextensions.k8s.io/v1", "customresourcedefinitions/status"),
]
KINDS = sorted((version, name) for name, (version, _, _) in RESOURCES.items())
PERSISTENT = [name for name in RESOURCES if not name.endswith("reviews")]


def root(version: str) -> str:
    return f"/apis/{version}" if "/" in version else f"/api/{version}"


def described(found: dict[str, Any]) -> dict[str, Any]:
    """A resource without the hash that differs between servers."""
    kept = {name: value for name, value in found.items() if name != "storageVersionHash"}
    return {**kept, "verbs": sorted(kept["verbs"])}


@pytest.mark.parametrize(("version", "name"), [*KINDS, *SUBRESOURCES])
def test_resource_is_discovered(api: Api, version: str, name: str) -> None:
    found = api.request("GET", root(version)).object
    assert found["kind"] == "APIResourceList"
    assert found["groupVersion"] == version
    [entry] = [each for each in found["resources"] if each["name"] == name]
    same("discovery", f"{version} {name}", described(entry))


@pytest.fixture(scope="module")
def aggregated(api: Api) -> dict[str, Any]:
    """Resources of both aggregated documents, by group/version and name."""
    entries: dict[str, Any] = {}
    for path in ("/api", "/apis"):
        reply = api.request("GET", path, accept=AGGREGATED)
        assert reply.headers["content-type"] == AGGREGATED
        document = reply.object
        assert (document["kind"], document["apiVersion"]) == (
            "APIGroupDiscoveryList",
            "apidiscovery.k8s.io/v2",
        )
        for group in document["items"]:
            for version in group["versions"]:
                prefix = group["metadata"].get("name", "")
                whole = f"{prefix}/{version['version']}" if prefix else version["version"]
                for resource in version["resources"]:
                    entries[f"{whole} {resource['resource']}"] = resource
    return entries


@pytest.mark.parametrize(("version", "name"), KINDS)
def test_resource_is_in_the_aggregated_discovery(
    aggregated: dict[str, Any], version: str, name: str
) -> None:
    entry = aggregated[f"{version} {name}"]
    known = {sub for _, sub in SUBRESOURCES}
    subresources = [
        {**each, "verbs": sorted(each["verbs"])}
        for each in entry.get("subresources", [])
        if f"{name}/{each['subresource']}" in known
    ]
    kept = {**entry, "verbs": sorted(entry["verbs"]), "subresources": subresources}
    same("discovery-aggregated", f"{version} {name}", kept)


def test_groups_are_listed(api: Api) -> None:
    found = api.request("GET", "/apis").object
    assert (found["kind"], found["apiVersion"]) == ("APIGroupList", "v1")
    names = {each["name"]: each for each in found["groups"]}
    for version, _ in KINDS:
        if "/" in version:
            group, number = version.split("/")
            assert {"groupVersion": version, "version": number} in names[group]["versions"]


def test_group_is_described(api: Api) -> None:
    assert api.request("GET", "/apis/apps").object == {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": "apps",
        "versions": [{"groupVersion": "apps/v1", "version": "v1"}],
        "preferredVersion": {"groupVersion": "apps/v1", "version": "v1"},
    }


def test_core_versions_are_listed(api: Api) -> None:
    found = api.request("GET", "/api").object
    assert (found["kind"], found["versions"]) == ("APIVersions", ["v1"])


def test_openapi_lists_its_documents(api: Api) -> None:
    paths = api.request("GET", "/openapi/v3").object["paths"]
    for version, _ in KINDS:
        key = root(version).lstrip("/")
        assert paths[key]["serverRelativeURL"].startswith(f"/openapi/v3/{key}?hash=")


@pytest.mark.parametrize(
    ("key", "schema", "fields"),
    [
        ("api/v1", "io.k8s.api.core.v1.ConfigMap", {"data", "binaryData", "immutable", "metadata"}),
        ("api/v1", "io.k8s.api.core.v1.Pod", {"spec", "status", "metadata"}),
        (
            "apis/apps/v1",
            "io.k8s.api.apps.v1.StatefulSetSpec",
            {"replicas", "serviceName", "template"},
        ),
        ("apis/apps/v1", "io.k8s.api.core.v1.Container", {"name", "image", "env", "volumeMounts"}),
    ],
)
def test_openapi_has_schemas(api: Api, key: str, schema: str, fields: set[str]) -> None:
    document = api.request("GET", f"/openapi/v3/{key}").object
    assert document["openapi"].startswith("3.0")
    assert fields <= set(document["components"]["schemas"][schema]["properties"])


def test_openapi_tells_what_each_path_is(api: Api) -> None:
    document = api.request("GET", "/openapi/v3/apis/apps/v1").object
    path = document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]
    expected = {"group": "apps", "version": "v1", "kind": "Deployment"}
    assert path["patch"]["x-kubernetes-group-version-kind"] == expected
    names = {each["name"] for each in path["patch"]["parameters"]}
    assert {"fieldValidation", "fieldManager", "force", "dryRun"} <= names
    assert path["patch"]["x-kubernetes-action"] == "patch"


def test_openapi_marks_list_types(api: Api) -> None:
    schemas = api.request("GET", "/openapi/v3/api/v1").object["components"]["schemas"]
    ports = schemas["io.k8s.api.core.v1.ServiceSpec"]["properties"]["ports"]
    assert ports["x-kubernetes-list-type"] == "map"
    assert ports["x-kubernetes-list-map-keys"] == ["port", "protocol"]
    assert ports["x-kubernetes-patch-merge-key"] == "port"


@pytest.mark.parametrize("resource", PERSISTENT)
def test_columns_of(space: Space, resource: str) -> None:
    table = space.read(resource, accept=TABLE)
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    kept = [
        {name: column[name] for name in ("name", "type", "format", "priority")}
        for column in table["columnDefinitions"]
    ]
    same("columns", resource, kept)


def test_rows_carry_metadata(space: Space) -> None:
    space.create(
        "secrets", {"metadata": {"name": "a", "labels": {"x": "y"}}, "stringData": {"k": "v"}}
    )
    [row] = space.read("secrets", accept=TABLE)["rows"]
    assert row["cells"][:3] == ["a", "Opaque", 1]
    assert row["object"]["kind"] == "PartialObjectMetadata"
    assert row["object"]["metadata"]["labels"] == {"x": "y"}
    assert "data" not in row["object"]


def test_rows_may_carry_the_whole_object(space: Space) -> None:
    space.create("secrets", {"metadata": {"name": "a"}, "stringData": {"k": "v"}})
    [row] = space.read("secrets", accept=TABLE, includeObject="Object")["rows"]
    assert row["object"]["kind"] == "Secret"
    assert row["object"]["data"] == {"k": "dg=="}


def test_rows_may_carry_nothing(space: Space) -> None:
    space.create("secrets", {"metadata": {"name": "a"}})
    [row] = space.read("secrets", accept=TABLE, includeObject="None")["rows"]
    assert row["object"] is None


def test_one_object_is_a_table_too(space: Space) -> None:
    space.create("secrets", {"metadata": {"name": "a"}})
    table = space.read("secrets/a", accept=TABLE)
    assert len(table["rows"]) == 1


def test_table_keeps_the_list_version(space: Space) -> None:
    space.create("secrets", {"metadata": {"name": "a"}})
    space.create("secrets", {"metadata": {"name": "b"}})
    table = space.read("secrets", accept=TABLE, limit=1)
    assert table["metadata"]["resourceVersion"]
    assert table["metadata"]["continue"]
    assert table["metadata"]["remainingItemCount"] == 1


def test_metadata_only_can_be_asked_for(space: Space) -> None:
    space.create(
        "secrets", {"metadata": {"name": "a", "labels": {"x": "y"}}, "stringData": {"k": "v"}}
    )
    accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    found = space.read("secrets/a", accept=accept)
    assert (found["kind"], found["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert found["metadata"]["labels"] == {"x": "y"}
    assert "data" not in found


def test_list_of_metadata_only(space: Space) -> None:
    space.create("secrets", {"metadata": {"name": "a"}})
    accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    found = space.read("secrets", accept=accept)
    assert found["kind"] == "PartialObjectMetadataList"
    assert [item["metadata"]["name"] for item in found["items"]] == ["a"]


def test_table_is_refused_where_the_server_has_only_the_object(space: Space) -> None:
    accept = "application/json;as=Odd;v=v1;g=meta.k8s.io"
    assert space.get("secrets", accept=accept).status == 406
