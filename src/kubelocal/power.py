"""Power of virtual nodes: an annotation on the Node says off or on; the node agent follows it.

Any client may switch a node off through the API: a command line, a test, or a person with
`kubectl annotate node NAME ANNOTATION=off`. The distribution chooses the annotation's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kubecontroller import Client, KubeError, MergePatch, NotFound
from kubecontroller.client.objects import NODES

__all__ = ["PowerError", "is_off", "set_power"]


class PowerError(Exception):
    """A node's power could not be switched; the message says why."""


def is_off(node: Mapping[str, Any], annotation: str) -> bool:
    """Return whether a Node (as a plain value) is to be switched off."""
    return (node["metadata"].get("annotations") or {}).get(annotation) == "off"


async def set_power(kubeconfig: Path, name: str, state: str, annotation: str) -> None:
    """Switch a node off or on."""
    # imported here: the control plane only needs `is_off`, and HTTP takes long to load
    from kubecontroller import HttpTransport, load  # noqa: PLC0415

    client = Client(HttpTransport(load(file=kubeconfig)), field_manager="power")
    change = MergePatch({"metadata": {"annotations": {annotation: state}}})
    try:
        await client.patch(NODES, ("", name), change)
    except NotFound as error:
        nodes = await client.list(NODES)
        names = ", ".join(sorted(node.metadata.name for node in nodes.items))
        raise PowerError(f"there is no node {name!r}; there are {names}") from error
    except KubeError as error:
        raise PowerError(f"the local cluster does not respond: {error}") from error
    finally:
        await client.close()
