"""The downward API: fields of a pod that its containers may read, as text.

Pure: fields of the pod (`fieldRef`) and resources of its containers (`resourceFieldRef`), in the
format in which a kubelet puts them into variables and files.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from kubelocal.apiserver.kinds.quantities import amount
from kubelocal.node.errors import ConfigError

__all__ = ["NodeFacts", "field_text", "resource_text"]

_SUBSCRIPT = re.compile(r"metadata\.(annotations|labels)\['(.*)'\]")
_DIVISORS = {"cpu": "1", "memory": "1", "ephemeral-storage": "1"}


class NodeFacts(Struct, frozen=True):
    """The properties of a node that its pods may read."""

    name: str
    address: str
    cpu: float
    memory: int


def _quoted_map(values: Mapping[str, str]) -> str:
    return "\n".join(
        f"{key}={json.dumps(values[key], ensure_ascii=False)}" for key in sorted(values)
    )


def field_text(pod: Mapping[str, Any], path: str, *, node: NodeFacts, pod_ip: str) -> str:
    """Return a field of a pod as text; raise ConfigError for one that may not be read."""
    metadata, spec = pod["metadata"], pod["spec"]
    subscript = _SUBSCRIPT.fullmatch(path)
    if subscript is not None:
        values = metadata.get(subscript[1]) or {}
        return str(values.get(subscript[2], ""))
    match path:
        case "metadata.name" | "metadata.namespace" | "metadata.uid":
            return str(metadata.get(path.rpartition(".")[2], ""))
        case "metadata.labels" | "metadata.annotations":
            return _quoted_map(metadata.get(path.rpartition(".")[2]) or {})
        case "spec.nodeName":
            return node.name
        case "spec.serviceAccountName":
            return str(spec.get("serviceAccountName", ""))
        case "status.hostIP" | "status.hostIPs":
            return node.address
        case "status.podIP" | "status.podIPs":
            return pod_ip
    raise ConfigError(f"unsupported fieldPath: {path}")


def resource_text(
    pod: Mapping[str, Any],
    reference: Mapping[str, Any],
    *,
    container: Mapping[str, Any] | None,
    node: NodeFacts,
) -> str:
    """Return a container's request or limit as a whole number of divisors, rounded up.

    An unset limit is the capacity of the node, and an unset request is zero.
    """
    named = reference.get("containerName")
    if named:
        candidates = [*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())]
        container = next((one for one in candidates if one["name"] == named), None)
    if container is None:
        raise ConfigError(f"container {named or '(none named)'} not found")
    resource = str(reference["resource"])
    which, _, name = resource.partition(".")
    if which not in ("limits", "requests") or name not in _DIVISORS:
        raise ConfigError(f"unsupported container resource : {resource}")
    resources = container.get("resources") or {}
    text = (resources.get(which) or {}).get(name)
    if text is None and which == "limits":
        value = {"cpu": node.cpu, "memory": float(node.memory)}.get(name, 0.0)
    else:
        value = amount(text if text is not None else "0")
    divisor = amount(str(reference.get("divisor") or "1")) or 1.0
    return str(math.ceil(round(value / divisor, 9)))
