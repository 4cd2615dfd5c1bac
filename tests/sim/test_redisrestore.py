"""A restore that somebody removes in the middle leaves a database that is not served."""

from __future__ import annotations

from typing import Any

import pytest

from kubecontroller.client.patches import MergePatch
from redis_operator.operator.world import REDIS_BACKUPS, REDIS_RESTORES
from redis_testing.simulation.scenarios import formed
from redis_testing.simulation.system import DATABASE, NAMESPACE, Simulation, database, simulate


def restore(name: str) -> dict[str, Any]:
    place = {"storage": {"s3": {"bucket": "backups"}}, "path": "ns/gone/monday"}
    spec = {"redis": DATABASE, "from": place, "discard": {"database": DATABASE}}
    return {"metadata": {"namespace": NAMESPACE, "name": name}, "spec": spec}


async def wait_phase(
    simulation: Simulation, name: str, phase: str, *, within: float = 120.0
) -> None:
    async def there() -> bool:
        found = await simulation.client.get(REDIS_RESTORES, (NAMESPACE, name))
        return bool((found.get("status") or {}).get("phase") == phase)

    await simulation.until_all(there, within=within, what=f"{name} is {phase}")


@pytest.mark.slow
def test_what_was_left_halfway_is_not_served_until_another_restore_is_complete() -> None:
    async def run(simulation: Simulation) -> None:
        simulation.start_operator()
        await simulation.client.create(REDIS_RESTORES, restore("back"))
        await wait_phase(simulation, "back", "Restoring")

        async def begun() -> bool:
            status = (await simulation.redis())["status"]
            return bool((status.get("restoring") or {}).get("replacing"))

        await simulation.until_all(begun, within=60.0, what="the database is said to be halfway")
        key = (NAMESPACE, "back")
        await simulation.client.patch(
            REDIS_RESTORES, key, MergePatch({"metadata": {"finalizers": None}})
        )
        await simulation.client.delete(REDIS_RESTORES, key)

        async def told() -> bool:
            status = (await simulation.redis())["status"]
            return "RedisRestore back is gone" in status["message"]

        await simulation.until_all(told, within=60.0, what="what happened is told")
        [available] = [
            c
            for c in (await simulation.redis())["status"]["conditions"]
            if c["type"] == "Available"
        ]
        assert (available["status"], available["reason"]) == ("False", "Restoring")
        assert "create another RedisRestore" in available["message"]

        await simulation.client.create(REDIS_RESTORES, restore("again"))
        await wait_phase(simulation, "again", "Completed")

        async def ready() -> bool:
            return simulation.is_ready(await simulation.redis())

        await simulation.until_all(ready, within=60.0, what="the database is ready")
        assert "restoring" not in (await simulation.redis())["status"]

    simulate(run, snapshot=formed(database()))


def test_a_backup_of_somebody_else_is_not_taken_for_the_one_that_keeps_the_data() -> None:
    async def run(simulation: Simulation) -> None:
        simulation.start_operator()
        made = await simulation.client.create(REDIS_RESTORES, restore("back"))
        name = f"back-kept-{made['metadata']['uid'][:8]}"
        other = {"redis": DATABASE, "storage": {"s3": {"bucket": "other"}}}
        metadata = {"namespace": NAMESPACE, "name": name}
        await simulation.client.create(REDIS_BACKUPS, {"metadata": metadata, "spec": other})
        await wait_phase(simulation, "back", "Failed", within=600.0)
        found = await simulation.client.get(REDIS_RESTORES, (NAMESPACE, "back"))
        assert found["status"]["conditions"][0]["reason"] == "NotSaved"
        assert "nothing was changed" in found["status"]["message"]

        async def ready() -> bool:
            return simulation.is_ready(await simulation.redis())

        await simulation.until_all(ready, within=60.0, what="the database is ready")
        simulation.check_end()

    simulate(run, snapshot=formed(database()))
