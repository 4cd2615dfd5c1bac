"""Upgrades of a running database, and downgrades that are refused."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from e2e.harness import until
from kubecontroller.client.objects import NODES
from redis_operator.redis import commands

pytestmark = pytest.mark.e2e

_IMAGE = re.compile(r"(?:[\w.:-]+/)*(redis|valkey):(\d+)\.(\d+)\.\d+$")


async def _two_versions(client: Any) -> tuple[dict[str, str], dict[str, str]]:
    """Return two versions that the nodes have, the older first: of one engine where they have two.

    Where they have one of each, Valkey follows Redis.
    """
    found: dict[str, dict[tuple[int, int], str]] = {}
    for node in (await client.list(NODES.plain())).items:
        for image in node["status"].get("images") or ():
            for name in image.get("names") or ():
                if match := _IMAGE.match(name):
                    engine, major, minor = match.groups()
                    found.setdefault(engine, {})[int(major), int(minor)] = name
    both = [(engine, images) for engine, images in sorted(found.items()) if len(images) > 1]
    if not both:
        return _first("redis", found["redis"]), _first("valkey", found["valkey"])
    engine, images = both[0]
    old, new = sorted(images)[:2]
    return _spec(engine, old, images[old]), _spec(engine, new, images[new])


def _first(engine: str, images: dict[tuple[int, int], str]) -> dict[str, str]:
    version = min(images)
    return _spec(engine, version, images[version])


def _spec(engine: str, version: tuple[int, int], image: str) -> dict[str, str]:
    return {"engine": engine, "version": f"{version[0]}.{version[1]}", "image": image}


async def _versions(cache: Any) -> set[str]:
    found = set()
    for pod in await cache.pods():
        async with cache.server(pod) as connection:
            info = await connection.run(commands.info(), timeout=5)
        found.add(".".join(info.server.version.split(".")[:2]))
    return found


async def test_an_upgrade_loses_nothing_and_the_way_back_is_refused(
    database: Any, cluster: Any
) -> None:
    client = cluster.client()
    old, new = await _two_versions(client)
    await client.close()
    cache = await database(**old)
    await cache.wait_ready(seconds=90)
    assert await _versions(cache) == {old["version"]}
    uids = await cache.uids()
    async with cache.under_load() as application:
        await cache.patch(**new)
        await until(lambda: _rolled(cache, uids), seconds=150, what="the upgrade", every=0.3)
        status = await cache.wait_ready(seconds=60)
    report = await application.verify()
    assert report.lost == (), report
    assert report.longest_wait_seconds < 2, report
    assert await _versions(cache) == {new["version"]}
    assert status["version"].startswith(new["version"])
    uids = await cache.uids()
    await cache.patch(**old)
    line = await cache.wait_plan("cannot read its data")
    assert f"runs {new['engine']} {new['version']}" in line
    await asyncio.sleep(3)
    assert await cache.uids() == uids
    assert await _versions(cache) == {new["version"]}
    await cache.patch(**new)
    await cache.wait_ready(seconds=60)
    assert await cache.uids() == uids
    assert await cache.check(application) == []


async def _rolled(cache: Any, old: dict[str, str]) -> bool:
    now = await cache.uids()
    return now.keys() == old.keys() and not set(now.values()) & set(old.values())
