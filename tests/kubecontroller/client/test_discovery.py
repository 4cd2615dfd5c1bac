from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from kubecontroller.client.access import Access
from kubecontroller.client.api import Client
from kubecontroller.client.discovery import AGGREGATED, RestMapper
from kubecontroller.client.errors import NoSuchKind, UndecodableObject
from kubecontroller.client.http import HttpTransport
from kubecontroller.client.objects import BUILTIN, PODS, STATEFUL_SETS

CORE = {
    "v1": [
        {
            "resource": "pods",
            "responseKind": {"kind": "Pod"},
            "scope": "Namespaced",
            "singularResource": "pod",
            "shortNames": ["po"],
            "verbs": ["get", "list"],
            "subresources": [{"subresource": "status"}, {"subresource": "eviction"}],
        }
    ]
}


def thing(**more: object) -> dict[str, Any]:
    return {
        "resource": "things",
        "responseKind": {"kind": "Thing"},
        "scope": "Cluster",
        "singularResource": "thing",
        **more,
    }


class Api:
    """Discovery documents of both shapes for groups that can be changed."""

    def __init__(self, *, aggregated: bool) -> None:
        self.aggregated = aggregated
        self.asked: list[str] = []
        self.broken: dict[str, int] = {}
        self.groups: dict[str, dict[str, list[dict[str, Any]]]] = {
            "": CORE,
            "apps": {
                "v1": [
                    {
                        "resource": "statefulsets",
                        "responseKind": {"kind": "StatefulSet"},
                        "scope": "Namespaced",
                    }
                ]
            },
            "g.org": {"v2": [thing()], "v1": [thing()]},
        }

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.path)
        if request.path in self.broken:
            return web.json_response({}, status=self.broken[request.path])
        if self.aggregated and request.path in {"/api", "/apis"}:
            assert AGGREGATED in request.headers["Accept"]
            return self._aggregated(core=request.path == "/api")
        return self._plain(request.path.strip("/").split("/"))

    def _aggregated(self, *, core: bool) -> web.Response:
        items = [
            {
                "metadata": {"name": name} if name else {},
                "versions": [{"version": v, "resources": r} for v, r in versions.items()],
            }
            for name, versions in self.groups.items()
            if (name == "") == core
        ]
        response = web.json_response({"kind": "APIGroupDiscoveryList", "items": items})
        response.headers["Content-Type"] = AGGREGATED
        return response

    def _plain(self, parts: list[str]) -> web.Response:
        match parts:
            case ["api"]:
                return web.json_response({"kind": "APIVersions", "versions": list(CORE)})
            case ["api", version]:
                return self._resources("", version)
            case ["apis"]:
                named = [self._group(name) for name in self.groups if name]
                return web.json_response({"groups": named})
            case ["apis", name] if name in self.groups:
                return web.json_response(self._group(name))
            case ["apis", name, version] if version in self.groups.get(name, {}):
                return self._resources(name, version)
        return web.json_response({"kind": "Status", "code": 404}, status=404)

    def _group(self, name: str) -> dict[str, Any]:
        versions = [{"version": version} for version in sorted(self.groups[name])]
        preferred = next(iter(self.groups[name]))
        return {"name": name, "versions": versions, "preferredVersion": {"version": preferred}}

    def _resources(self, group: str, version: str) -> web.Response:
        listed: list[dict[str, Any]] = []
        for item in self.groups[group][version]:
            one = {
                "name": item["resource"],
                "kind": item["responseKind"]["kind"],
                "namespaced": item["scope"] == "Namespaced",
                "singularName": item.get("singularResource", ""),
                "shortNames": item.get("shortNames"),
                "verbs": item.get("verbs"),
            }
            listed.append(one)
            listed.extend(
                {**one, "name": f"{item['resource']}/{sub['subresource']}"}
                for sub in item.get("subresources", ())
            )
        return web.json_response({"resources": listed})


@pytest.fixture(params=[True, False], ids=["aggregated", "plain"])
def api(request: pytest.FixtureRequest) -> Api:
    return Api(aggregated=request.param)


@pytest.fixture
async def mapper(serve: Any, api: Api) -> AsyncIterator[RestMapper]:
    server = await serve(api)
    client = Client(HttpTransport(Access(server=server.url)))
    yield RestMapper(client, BUILTIN, patience=3600.0)
    await client.close()


async def test_registered_kinds_keep_their_types(mapper: RestMapper) -> None:
    assert await mapper.kind_for("", "Pod") is PODS
    assert await mapper.kind_of("apps/v1", "StatefulSet") is STATEFUL_SETS


async def test_unknown_kinds_are_plain_values_in_the_preferred_version(mapper: RestMapper) -> None:
    kind = await mapper.kind_for("g.org", "Thing")
    assert (kind.version, kind.plural, kind.namespaced) == ("v2", "things", False)
    assert kind.model is dict
    assert (await mapper.kind_for("g.org", "Thing", "v1")).version == "v1"


async def test_a_kind_that_was_found_is_answered_from_memory(mapper: RestMapper, api: Api) -> None:
    await mapper.kind_for("g.org", "Thing")
    asked = len(api.asked)
    await mapper.kind_for("g.org", "Thing", "v1")
    assert len(api.asked) == asked


async def test_aggregated_discovery_takes_two_requests(mapper: RestMapper, api: Api) -> None:
    await mapper.kind_for("g.org", "Thing")
    if api.aggregated:
        assert api.asked == ["/api", "/apis"]


async def test_concurrent_questions_share_one_discovery(mapper: RestMapper, api: Api) -> None:
    async with asyncio.TaskGroup() as group:
        for _ in range(10):
            group.create_task(mapper.kind_for("g.org", "Thing"))
    assert api.asked.count("/apis") <= 2


async def test_misses_are_throttled(mapper: RestMapper, api: Api) -> None:
    with pytest.raises(NoSuchKind, match=r"no Nope in g\.org.*CustomResourceDefinition"):
        await mapper.kind_for("g.org", "Nope")
    asked = len(api.asked)
    for _ in range(5):
        with pytest.raises(NoSuchKind):
            await mapper.kind_for("g.org", "Nope")
    assert len(api.asked) == asked


async def test_a_miss_is_asked_for_again_when_patience_is_over(serve: Any, api: Api) -> None:
    client = Client(HttpTransport(Access(server=(await serve(api)).url)))
    mapper = RestMapper(client, BUILTIN, patience=0.0)
    with pytest.raises(NoSuchKind):
        await mapper.kind_for("g.org", "Nope")
    api.groups["g.org"]["v1"] = [thing(responseKind={"kind": "Nope"})]
    assert (await mapper.kind_for("g.org", "Nope")).version == "v1"
    await client.close()


async def test_a_changed_definition_invalidates_its_group_and_its_misses(
    mapper: RestMapper, api: Api
) -> None:
    await mapper.kind_for("g.org", "Thing")
    with pytest.raises(NoSuchKind):
        await mapper.kind_for("g.org", "New")
    api.groups["g.org"] = {"v3": [thing(responseKind={"kind": "New"})]}
    mapper.forget("g.org")
    assert (await mapper.kind_for("g.org", "New")).version == "v3"
    with pytest.raises(NoSuchKind):
        await mapper.kind_for("g.org", "Thing")
    assert await mapper.kind_for("", "Pod") is PODS


async def test_groups_are_listed_with_their_subresources(mapper: RestMapper) -> None:
    groups = {group.name: group for group in await mapper.groups()}
    assert set(groups) == {"", "apps", "g.org"}
    (pods,) = groups[""].resources()
    assert pods.subresources == ("status", "eviction")
    assert pods.verbs == ("get", "list")
    assert list(groups["g.org"].versions) == ["v2", "v1"]


async def test_a_version_that_is_gone_drops_its_group(serve: Any) -> None:
    api = Api(aggregated=False)
    server = await serve(api)
    client = Client(HttpTransport(Access(server=server.url)))
    mapper = RestMapper(client, BUILTIN)
    await mapper.kind_for("g.org", "Thing")
    api.broken["/apis/g.org/v1"] = 404
    with pytest.raises(NoSuchKind):
        await mapper.kind_for("g.org", "Other")
    with pytest.raises(NoSuchKind):
        await mapper.kind_for("g.org", "Thing")
    assert await mapper.kind_for("", "Pod") is PODS
    await client.close()


async def test_a_broken_aggregated_server_does_not_hide_other_versions(serve: Any) -> None:
    api = Api(aggregated=False)
    api.broken["/apis/g.org/v1"] = 503
    server = await serve(api)
    client = Client(HttpTransport(Access(server=server.url)))
    assert (await RestMapper(client, BUILTIN).kind_for("g.org", "Thing")).version == "v2"
    await client.close()


async def test_a_document_that_is_no_discovery_is_a_typed_error(serve: Any) -> None:
    async def html(request: web.Request) -> web.Response:
        return web.Response(text="<html>", content_type="text/html")

    server = await serve(html)
    client = Client(HttpTransport(Access(server=server.url)))
    with pytest.raises(UndecodableObject, match="/apis: not a discovery document"):
        await RestMapper(client, BUILTIN).kind_for("", "Pod")
    await client.close()
