"""Admission: how long the API server waits for the operator before it stores a database.

One process answers as every replica does, over TLS; eight connections ask it, one review after
another each. A new database is looked up by the names of its objects, a changed one is not.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import statistics
import time
from typing import Any

import aiohttp

from bench.programs import python
from bench.rows import Row, at_most, stated
from bench.turns import RUNS

SECONDS = 60 / 5 * RUNS
_CONNECTIONS = 8
_REVIEWS = 1000
_SPEC: dict[str, Any] = {
    "mode": "Cluster",
    "shards": 3,
    "replicas": 1,
    "version": "9.1",
    "storage": {"size": "10Gi"},
    "resources": {"limits": {"memory": "1Gi"}},
    "config": {"maxmemory-policy": "allkeys-lru", "timeout": "60", "hz": "20"},
}


def run() -> list[Row]:
    """Measure reviews of changes and of new databases."""
    changed: list[list[float]] = []
    created: list[list[float]] = []
    for _ in range(RUNS):
        with python("admission_server") as port:
            changed.append(asyncio.run(_ask(int(port), "UPDATE")))
            created.append(asyncio.run(_ask(int(port), "CREATE")))
    return [
        stated("admission of a change, median", _medians(changed), None, "ms"),
        at_most("admission of a change, p99", _slowest(changed), "ms", limit=50),
        stated("admission of a new database, median", _medians(created), None, "ms"),
        at_most("admission of a new database, p99", _slowest(created), "ms", limit=200),
    ]


def _medians(runs: list[list[float]]) -> list[float]:
    return [statistics.median(found) * 1e3 for found in runs]


def _slowest(runs: list[list[float]]) -> list[float]:
    return [statistics.quantiles(found, n=100)[98] * 1e3 for found in runs]


async def _ask(port: int, operation: str) -> list[float]:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    url = f"https://127.0.0.1:{port}/validate/redis?timeout=3s"
    body = json.dumps(_review(operation)).encode()
    spans: list[float] = []
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:

        async def one() -> None:
            for _ in range(_REVIEWS // _CONNECTIONS):
                begun = time.perf_counter()
                async with session.post(url, data=body) as response:
                    answer = await response.json()
                assert answer["response"]["allowed"] is True, answer
                spans.append(time.perf_counter() - begun)

        await asyncio.gather(*(one() for _ in range(_CONNECTIONS)))
    return spans


def _review(operation: str) -> dict[str, Any]:
    new = {"metadata": {"name": "cache", "namespace": "default", "uid": "1"}, "spec": _SPEC}
    old = {**new, "spec": {**_SPEC, "replicas": 2}} if operation == "UPDATE" else None
    kind = {"group": "redisoperator.dev", "version": "v1", "kind": "Redis"}
    asked = {"uid": "1", "operation": operation, "name": "cache", "namespace": "default"}
    request = {**asked, "kind": kind, "object": new, "oldObject": old}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
