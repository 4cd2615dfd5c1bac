"""Which versions of the engines the nodes of a cluster have, for tests of upgrades."""

from __future__ import annotations

import re
from typing import Any

from kubecontroller.client.objects import NODES

__all__ = ["two_engines", "two_versions"]

_IMAGE = re.compile(r"(?:[\w.:-]+/)*(redis|valkey):(\d+)\.(\d+)\.\d+$")


async def two_versions(cluster: Any) -> tuple[dict[str, str], dict[str, str]]:
    """Return two versions that the nodes have, the older first: of one engine where they have two.

    Where they have one of each, Valkey follows Redis.
    """
    found = await _images(cluster)
    both = [(engine, images) for engine, images in sorted(found.items()) if len(images) > 1]
    if not both:
        return _first("redis", found["redis"]), _first("valkey", found["valkey"])
    engine, images = both[0]
    old, new = sorted(images)[:2]
    return _spec(engine, old, images[old]), _spec(engine, new, images[new])


async def two_engines(cluster: Any) -> tuple[dict[str, str], dict[str, str]]:
    """Return the oldest Redis and the oldest Valkey that the nodes have."""
    found = await _images(cluster)
    return _first("redis", found["redis"]), _first("valkey", found["valkey"])


async def _images(cluster: Any) -> dict[str, dict[tuple[int, int], str]]:
    """Return the images of each engine, by their versions."""
    found: dict[str, dict[tuple[int, int], str]] = {}
    client = cluster.client()
    for node in (await client.list(NODES.plain())).items:
        for image in node["status"].get("images") or ():
            for name in image.get("names") or ():
                if match := _IMAGE.match(name):
                    engine, major, minor = match.groups()
                    found.setdefault(engine, {})[int(major), int(minor)] = name
    await client.close()
    return found


def _first(engine: str, images: dict[tuple[int, int], str]) -> dict[str, str]:
    version = min(images)
    return _spec(engine, version, images[version])


def _spec(engine: str, version: tuple[int, int], image: str) -> dict[str, str]:
    return {"engine": engine, "version": f"{version[0]}.{version[1]}", "image": image}
