"""What the types promise to users: `make types` fails when a promise is broken.

Nothing here is ever run. A line that must not type-check carries the error that it is refused
with; mypy reports an ignore that ignores nothing, so a line that begins to pass is found too.
"""

from __future__ import annotations

from kubecontroller.client.api import Client
from kubecontroller.client.meta import Key, Manifest
from kubecontroller.client.objects import PODS, SECRETS, Pod


async def allowed(client: Client, key: Key, manifest: Manifest) -> None:
    """What is meant to work type-checks."""
    whole: Manifest = await client.get(PODS.plain(), key)
    await client.replace(PODS.plain(), whole)
    got: Pod = await client.get(PODS, key)
    made: Pod = await client.create(PODS, manifest)
    items: tuple[Pod, ...] = (await client.list(PODS)).items
    gone: Pod | None = await client.delete(PODS, key)
    del got, made, items, gone


async def projected_object_is_not_written(client: Client, pod: Pod, manifest: Manifest) -> None:
    """A projection lacks fields, so writing it would delete them."""
    await client.replace(PODS, pod)  # type: ignore[arg-type]
    await client.replace(PODS.plain(), pod)  # type: ignore[arg-type]
    await client.replace(PODS, manifest)  # type: ignore[arg-type]
    await client.create(PODS, pod)  # type: ignore[arg-type]
    await client.apply(PODS, pod)  # type: ignore[arg-type]


def projected_object_is_not_changed(pod: Pod) -> None:
    """What a cache holds is shared."""
    pod.status = pod.status  # type: ignore[misc]


async def kinds_are_not_mixed_up(client: Client, key: Key) -> None:
    """A Secret is not a Pod."""
    got: Pod = await client.get(SECRETS, key)  # type: ignore[arg-type]
    del got
