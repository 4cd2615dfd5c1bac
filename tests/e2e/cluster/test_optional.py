"""What a spec switches off goes, and comes back when it is switched on again. IN-11"""

from __future__ import annotations

from typing import Any

import pytest

from e2e.harness import until

pytestmark = pytest.mark.e2e


def _optional(cache: Any) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for kind in ("networkpolicy", "poddisruptionbudget"):
        told = cache.cluster.kubectl("-n", cache.namespace, "get", kind, "-o", "name")
        found[kind] = sorted(line for line in told.split() if "/" in line)
    return found


async def test_optional_objects_are_removed_and_recreated(database: Any) -> None:
    cache = await database()
    await cache.wait_ready()
    uids, whole = await cache.uids(), _optional(cache)
    assert [len(names) for names in whole.values()] == [1, 3]
    for switched_on in (False, True, False, True):
        await cache.patch(
            networkPolicy={"enabled": switched_on}, disruptionBudget={"enabled": switched_on}
        )
        wanted = whole if switched_on else {kind: [] for kind in whole}

        async def matches(expected: dict[str, list[str]] = wanted) -> bool:
            return _optional(cache) == expected

        await until(matches, seconds=30, what=f"{wanted}")
        await cache.wait_ready()
    assert await cache.uids() == uids
