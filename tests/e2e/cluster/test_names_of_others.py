"""Objects of somebody else that have the names of ours. K-28"""

from __future__ import annotations

from typing import Any

import pytest

from e2e.harness import REDISES, until
from kubecontroller.client.errors import NotFound
from kubecontroller.client.objects import SECRETS, SERVICES

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("name", ["cache", "cache-users"])
async def test_an_object_of_somebody_else_is_refused_by_name_and_stays_as_it_is(
    database: Any, cluster: Any, namespace: str, name: str
) -> None:
    client = cluster.client()
    kind = SERVICES if name == "cache" else SECRETS
    body: dict[str, Any] = {"metadata": {"namespace": namespace, "name": name}}
    if kind is SERVICES:
        body["spec"] = {"ports": [{"port": 80}], "selector": {"app": "theirs"}}
    else:
        body["stringData"] = {"operator": "theirs"}
    made = await client.create(kind.plain(), body)
    cache = await database()
    found = await cache.wait_condition("Ready", "False", reason="ChildRefused", seconds=60)
    assert name in found["message"]
    await cache.client.delete(REDISES, cache.key)

    async def gone() -> bool:
        try:
            await cache.get()
        except NotFound:
            return True
        return False

    await until(gone, seconds=60, what="the database to be gone")
    after = await client.get(kind.plain(), (namespace, name))
    await client.close()
    assert after["metadata"]["uid"] == made["metadata"]["uid"]
    assert after["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
