"""Discovery: the served resources, in one aggregated document or group by group."""

from __future__ import annotations

import hashlib
from base64 import b64encode

from kubecontroller.client import Response
from kubelocal.apiserver.format.bodies import wanted
from kubelocal.apiserver.kinds.table import Registry, Resource, Subresource
from kubelocal.apiserver.storage.entries import Object, encode

__all__ = ["VERSION", "Discovery"]

VERSION = {
    "major": "1",
    "minor": "34",
    "emulationMajor": "1",
    "emulationMinor": "34",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "33",
    "gitVersion": "v1.34.4+local",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_ORDER = ("", "apiextensions.k8s.io", "apps", "authentication.k8s.io", "authorization.k8s.io")


class Discovery:
    """Serves the discovery paths from the table of resources."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def answer(self, path: str, accept: str, host: str) -> Response | None:
        """Return a discovery document, or nothing if the path is not one."""
        parts = [part for part in path.split("/") if part]
        match parts:
            case ["api"]:
                return self._root(accept, core=True, host=host)
            case ["apis"]:
                return self._root(accept, core=False, host=host)
            case ["api", version]:
                return self._resources("", version)
            case ["apis", group]:
                return self._group(group)
            case ["apis", group, version]:
                return self._resources(group, version)
        return None

    def groups(self) -> list[str]:
        """Return the served groups, the core group first."""
        found = dict.fromkeys(resource.group for resource in self._registry.resources())
        known = [group for group in _ORDER if group in found]
        return known + [group for group in found if group not in known]

    def versions(self, group: str) -> list[str]:
        """Return the versions of a group, the preferred one first."""
        found = {row.version for row in self._registry.resources() if row.group == group}
        return sorted(found, key=_rank, reverse=True)

    def rows(self, group: str, version: str) -> list[Resource]:
        """Return the resources of a group and version, by name."""
        found = (
            row
            for row in self._registry.resources()
            if row.group == group and row.version == version
        )
        return sorted(found, key=lambda row: row.plural)

    def _root(self, accept: str, *, core: bool, host: str) -> Response:
        if "as=APIGroupDiscoveryList" in accept and "v=v2" in accept.replace("v=v2beta1", ""):
            return self._aggregated(core=core)
        wanted(accept)
        if core:
            value: Object = {
                "kind": "APIVersions",
                "versions": ["v1"],
                "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": host}],
            }
        else:
            groups = [self._group_value(group) for group in self.groups() if group]
            value = {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        return _json(value)

    def _group_value(self, group: str) -> Object:
        versions = [
            {"groupVersion": f"{group}/{version}", "version": version}
            for version in self.versions(group)
        ]
        return {"name": group, "versions": versions, "preferredVersion": versions[0]}

    def _group(self, group: str) -> Response | None:
        if group not in self.groups():
            return None
        return _json({"kind": "APIGroup", "apiVersion": "v1", **self._group_value(group)})

    def _resources(self, group: str, version: str) -> Response | None:
        rows = self.rows(group, version)
        if not rows:
            return None
        return _json(
            {
                "kind": "APIResourceList",
                "apiVersion": "v1",
                "groupVersion": rows[0].api_version,
                "resources": [item for row in rows for item in _plain(row)],
            }
        )

    def _aggregated(self, *, core: bool) -> Response:
        groups = [group for group in self.groups() if bool(group) != core]
        items: list[Object] = [
            {
                "metadata": ({"name": group} if group else {}) | {"creationTimestamp": None},
                "versions": [
                    {
                        "version": version,
                        "resources": [_described(row) for row in self.rows(group, version)],
                        "freshness": "Current",
                    }
                    for version in self.versions(group)
                ],
            }
            for group in groups
        ]
        body = encode(
            {
                "kind": "APIGroupDiscoveryList",
                "apiVersion": "apidiscovery.k8s.io/v2",
                "metadata": {},
                "items": items,
            }
        )
        headers = {
            "content-type": _AGGREGATED,
            "vary": "Accept",
            "etag": f'"{hashlib.sha256(body).hexdigest().upper()}"',
            "cache-control": "public",
        }
        return Response(status=200, headers=headers, body=body)


def _json(value: Object) -> Response:
    headers = {"content-type": "application/json", "cache-control": "no-cache, private"}
    return Response(status=200, headers=headers, body=encode(value) + b"\n")


def _rank(version: str) -> tuple[int, int, int, str]:
    """Order versions as Kubernetes does: v2 before v1 before v1beta1 before others."""
    text = version.removeprefix("v")
    for stage, word in ((1, "beta"), (0, "alpha")):
        major, found, minor = text.partition(word)
        if found and major.isdecimal() and minor.isdecimal():
            return (stage + 1, int(major), int(minor), "")
    return (3, int(text), 0, "") if text.isdecimal() and version[:1] == "v" else (0, 0, 0, version)


def _plain(row: Resource) -> list[Object]:
    item: Object = {
        "name": row.plural,
        "singularName": row.singular,
        "namespaced": row.namespaced,
        "kind": row.kind,
        "verbs": list(row.verbs),
    }
    if row.short_names:
        item["shortNames"] = list(row.short_names)
    if row.categories:
        item["categories"] = list(row.categories)
    if "list" in row.verbs:
        item["storageVersionHash"] = _hash(row)
    return [item, *(_plain_sub(row, sub) for sub in sorted(row.subresources, key=lambda s: s.name))]


def _hash(row: Resource) -> str:
    digest = hashlib.sha256(f"{row.group}/{row.storage or row.version}/{row.kind}".encode())
    return b64encode(digest.digest()[:8]).decode()


def _plain_sub(row: Resource, sub: Subresource) -> Object:
    item: Object = {
        "name": f"{row.plural}/{sub.name}",
        "singularName": "",
        "namespaced": row.namespaced,
    }
    if sub.version:
        item |= {"group": sub.group, "version": sub.version}
    return item | {"kind": sub.kind, "verbs": list(sub.verbs)}


def _response_kind(row: Resource, kind: str) -> Object:
    """Return the kind of a response; built-ins omit the group under which they are listed."""
    if row.custom is None:
        return {"group": "", "version": "", "kind": kind}
    return {"group": row.group, "version": row.version, "kind": kind}


def _described(row: Resource) -> Object:
    item: Object = {
        "resource": row.plural,
        "responseKind": _response_kind(row, row.kind),
        "scope": "Namespaced" if row.namespaced else "Cluster",
        "singularResource": row.singular,
        "verbs": list(row.verbs),
    }
    if row.short_names:
        item["shortNames"] = list(row.short_names)
    if row.categories:
        item["categories"] = list(row.categories)
    if row.subresources:
        item["subresources"] = [
            {
                "subresource": sub.name,
                "responseKind": {
                    "group": sub.group,
                    "version": sub.version,
                    "kind": sub.kind,
                }
                if sub.version
                else _response_kind(row, sub.kind),
                "verbs": list(sub.verbs),
            }
            for sub in sorted(row.subresources, key=lambda one: one.name)
        ]
    return item
