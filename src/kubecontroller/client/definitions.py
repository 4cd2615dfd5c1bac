"""Installing CustomResourceDefinitions: apply them, and wait until their kinds are served."""

from __future__ import annotations

import asyncio

from kubecontroller.client.api import Client
from kubecontroller.client.errors import KubeError, NotFound
from kubecontroller.client.meta import Manifest, find_condition
from kubecontroller.client.objects import CUSTOM_RESOURCE_DEFINITIONS, CustomResourceDefinition
from kubecontroller.client.scheme import Kind

__all__ = ["DefinitionNotServed", "definition_limitation", "install_definitions"]

_CHECK_SECONDS = 0.1


class DefinitionNotServed(KubeError):  # noqa: N818 - the state of affairs
    """A kind was not served in time; the message says which, and why."""


async def install_definitions(
    client: Client, *definitions: Manifest, timeout: float = 30.0
) -> None:
    """Apply definitions and return when objects of their kinds can be used.

    Every replica of an operator may do so when it starts: without a change nothing is written.

    Errors: `DefinitionNotServed` after the timeout; those of the API, such as `Invalid`.
    """
    for document in definitions:
        await client.apply(CUSTOM_RESOURCE_DEFINITIONS, document)
    clock = asyncio.get_running_loop().time
    end = clock() + timeout
    for document in definitions:
        while (reason := await _limitation(client, document)) is not None:
            if clock() >= end:
                raise DefinitionNotServed(f"{reason}, after {timeout:g} s")
            await asyncio.sleep(_CHECK_SECONDS)


def definition_limitation(found: CustomResourceDefinition) -> str | None:
    """Return why objects of a custom kind cannot be used yet, or nothing."""
    name, conditions = found.metadata.name, found.status.conditions
    accepted = find_condition(conditions, "NamesAccepted")
    if accepted is not None and accepted.status == "False":
        return f"definition {name} is not accepted: {accepted.message}"
    established = find_condition(conditions, "Established")
    if established is None or not established.is_true:
        return f"definition {name} is not established yet"
    return None


async def _limitation(client: Client, document: Manifest) -> str | None:
    name, spec = document["metadata"]["name"], document["spec"]
    found = await client.get(CUSTOM_RESOURCE_DEFINITIONS, ("", name))
    reason = definition_limitation(found)
    if reason is not None:
        return reason
    kind = Kind(
        spec["group"],
        spec["versions"][0]["name"],
        spec["names"]["kind"],
        spec["names"]["plural"],
        spec["scope"] == "Namespaced",
        dict,
    )
    try:  # established is reported a moment before it is served
        await client.list_page(kind, limit=1)
    except NotFound:
        return f"definition {name} is established and not served yet"
    return None
