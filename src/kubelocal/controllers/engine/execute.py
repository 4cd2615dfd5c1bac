"""Executes the changes of a controller, each with its precondition, and waits for the cache.

A change that finds another state (conflict, not found, exists already) is not an error: the loop
runs again. After each write the caches are waited for, so that nothing is planned from an older
state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import assert_never

from kubecontroller import (
    AlreadyExists,
    ApiError,
    Conflict,
    Done,
    Kind,
    Manifest,
    NotFound,
    Outcome,
    Retry,
    meta_of,
)
from kubelocal.controllers.engine.caches import Caches
from kubelocal.controllers.engine.view import (
    Bind,
    Change,
    Create,
    Delete,
    Update,
    UpdateStatus,
)

__all__ = ["execute"]

_BINDING: Kind[Manifest] = Kind("", "v1", "Binding", "bindings", True, dict)


async def execute(
    caches: Caches,
    steps: Iterable[Change],
    refused: Callable[[Create, ApiError], None] = lambda _step, _error: None,
) -> Outcome:
    """Execute the steps in order. The first that finds another state ends the pass.

    `refused` is called for an object that may not be created.
    """
    for step in steps:
        try:
            await _seen(caches, step, await _do(caches, step))
        except (Conflict, NotFound, AlreadyExists) as moved:
            return Retry(moved)
        except ApiError as error:
            if isinstance(step, Create):
                refused(step, error)
            return Retry(error)
    return Done()


async def _do(caches: Caches, step: Change) -> Manifest | None:
    client = caches.client
    match step:
        case Create(resource, obj):
            return await client.create(caches.kind(resource), obj)
        case Update(resource, obj):
            return await client.replace(caches.kind(resource), obj)
        case UpdateStatus(resource, obj):
            return await client.replace(caches.kind(resource), obj, subresource="status")
        case Delete(resource, namespace, name, uid, grace):
            return await client.delete(
                caches.kind(resource), (namespace, name), uid=uid, grace_seconds=grace
            )
        case Bind(namespace, name, uid, node):
            await client.create(_BINDING, _binding(namespace, name, uid, node))
            return await client.get(caches.kind("pods"), (namespace, name))
        case _:
            assert_never(step)


def _binding(namespace: str, name: str, uid: str, node: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": namespace, "uid": uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


async def _seen(caches: Caches, step: Change, answer: Manifest | None) -> None:
    """Wait until the cache shows a write. Its event reports a delete that ends at once."""
    if answer is None:
        return
    resource = "pods" if isinstance(step, Bind) else step.resource
    await caches.informers[resource].wait_for(meta_of(answer).resource_version)
