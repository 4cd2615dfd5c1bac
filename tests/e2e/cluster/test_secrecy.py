"""A password is nowhere but in Secrets and in the files that servers read. X-05"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from kubecontroller.client.objects import SECRETS

pytestmark = pytest.mark.e2e

CANARY = "canary-5f1d6e0b27-do-not-show-me"
_SHOWN = (
    *("pods", "services", "statefulsets", "configmaps", "events", "persistentvolumeclaims"),
    *("redis", "roles", "serviceaccounts", "poddisruptionbudgets", "networkpolicies"),
)


def _passwords(cache: Any) -> list[str]:
    """Return every password that the Secrets of the database hold; an address is none."""
    words = ("get", "secrets", "-o", "json")
    found = json.loads(cache.cluster.kubectl("-n", cache.namespace, *words))
    data = [pair for item in found["items"] for pair in (item.get("data") or {}).items()]
    values = [value for key, value in data if key != "host"]
    return [text for value in values if 12 <= len(text := _decoded(value)) <= 80]


def _decoded(value: str) -> str:
    import base64  # noqa: PLC0415

    return base64.b64decode(value).decode(errors="replace")


def _processes() -> dict[str, str]:
    """Return arguments and environment of every process of this machine that we may read."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            for name in ("cmdline", "environ"):
                try:
                    found[f"{folder}/{name}"] = (folder / name).read_text(errors="replace")
                except OSError:
                    continue
    return found


def _shown(cache: Any) -> dict[str, str]:
    found = {
        kind: cache.cluster.kubectl("-n", cache.namespace, "get", kind, "-o", "yaml")
        for kind in _SHOWN
    }
    logs = ("logs", "-l", "redisoperator.dev/database=cache", "--all-containers", "--tail=-1")
    found["logs of the pods"] = cache.cluster.kubectl("-n", cache.namespace, *logs, check=False)
    found["log of the operator"] = cache.cluster.operator_log.read_text(errors="replace")
    if cache.cluster.is_local:
        found.update(_processes())
        for log in cache.cluster.operator_log.parent.iterdir():
            found[str(log)] = log.read_text(errors="replace")
    return found


async def test_passwords_are_shown_nowhere_in_a_life_of_a_database(
    database: Any, namespace: str, cluster: Any
) -> None:
    client = cluster.client()
    secret = {
        "metadata": {"namespace": namespace, "name": "mine"},
        "stringData": {"password": CANARY},
    }
    await client.create(SECRETS.plain(), secret)
    await client.close()
    cache = await database(auth={"secretName": "mine"})
    await cache.wait_ready()
    async with cache.under_load():
        primary = await cache.primary_of(0)
        await cache.crash(primary)
        await cache.wait_new_primary(0, primary)
        await cache.patch(config={"slowlog-max-len": 77}, pod={"annotations": {"a": "b"}})
        await cache.wait_ready(seconds=120)
        await cache.patch(shards=4)
        await cache.wait_ready(seconds=120, shards=4)
        cluster.kill_operator()
        await cache.delete_pods("cache-1-1")
        await cache.wait_ready(seconds=120)
    passwords = [CANARY, *_passwords(cache)]
    assert len(set(passwords)) >= 3
    leaks = {
        place for place, text in _shown(cache).items() for password in passwords if password in text
    }
    assert leaks == set()
