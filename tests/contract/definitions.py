"""Custom resource definitions for checks: made, awaited, taken away."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from contract.driver import Api, Space, until

__all__ = ["ROOT", "definition", "place", "served", "version"]

ROOT = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def version(name: str, schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    """One version of a definition, with the properties of `spec` and `status` given."""
    whole = {"type": "object", "properties": schema}
    return {
        "name": name,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": whole},
    } | more


def definition(group: str, kind: str, *versions: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A namespaced definition; the plural is the kind in lower case and an s."""
    singular = kind.lower()
    names = {"kind": kind, "plural": f"{singular}s", "singular": singular} | spec.pop("names", {})
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names['plural']}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": names,
            "versions": list(versions),
            **spec,
        },
    }


@contextmanager
def served(api: Api, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Have it served, and delete it afterwards."""
    name = body["metadata"]["name"]
    api.request("POST", ROOT, body).done()
    try:
        for each in body["spec"]["versions"]:
            if each["served"]:
                plural = body["spec"]["names"]["plural"]
                path = f"/apis/{body['spec']['group']}/{each['name']}/{plural}"
                until(f"{name} is served", lambda path=path: api.request("GET", path).status == 200)
        yield body
    finally:
        api.request("DELETE", f"{ROOT}/{name}")


def place(space: Space, body: dict[str, Any], served_version: str) -> Space:
    """Teach a space the paths of a definition."""
    spec = body["spec"]
    names = spec["names"]
    space.learn(names["plural"], f"{spec['group']}/{served_version}", names["kind"])
    return space
