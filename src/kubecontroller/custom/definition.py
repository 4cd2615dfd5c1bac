"""CustomResourceDefinitions with one version. Pure.

For a `Kind` whose model is a Struct there is `Kind.definition`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from kubecontroller.custom.schema import Schema

__all__ = ["Column", "definition"]


class Column(Struct, frozen=True):
    """A column of `kubectl get`; one with a description is only printed by `-o wide`."""

    name: str
    path: str
    type: str = "string"
    wide: str = ""

    def printed(self) -> dict[str, Any]:
        """Return the column in the form of a definition."""
        column: dict[str, Any] = {"name": self.name, "type": self.type, "jsonPath": self.path}
        if self.wide:
            column |= {"priority": 1, "description": self.wide}
        return column


def definition(
    *,
    group: str,
    version: str,
    kind: str,
    plural: str,
    namespaced: bool,
    schema: Schema,
    short_names: Sequence[str] = (),
    categories: Sequence[str] = (),
    columns: Sequence[Column] = (),
    scale: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the definition of a kind by the schema of its objects.

    A status in the schema is a subresource. `scale` has the paths of the scale subresource.
    """
    names: dict[str, Any] = {
        "kind": kind,
        "listKind": f"{kind}List",
        "plural": plural,
        "singular": kind.lower(),
    }
    if short_names:
        names["shortNames"] = list(short_names)
    if categories:
        names["categories"] = list(categories)
    served: dict[str, Any] = {"name": version, "served": True, "storage": True}
    if columns:
        served["additionalPrinterColumns"] = [column.printed() for column in columns]
    subresources: dict[str, Any] = {"status": {}} if "status" in schema["properties"] else {}
    if scale:
        subresources["scale"] = dict(scale)
    if subresources:
        served["subresources"] = subresources
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": names,
            "scope": "Namespaced" if namespaced else "Cluster",
            "versions": [{**served, "schema": {"openAPIV3Schema": schema}}],
        },
    }
