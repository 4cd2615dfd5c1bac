"""The end of a backup beside objects of other people that have the names of its own."""

from __future__ import annotations

import asyncio
from typing import Any

from kubecontroller.client.errors import NotFound
from kubecontroller.client.objects import JOBS, SECRETS
from redis_operator.manifests.names import users_secret
from redis_operator.operator.world import REDIS_BACKUPS, REDISES
from redis_testing.simulation.backups import backup
from redis_testing.simulation.scenarios import formed
from redis_testing.simulation.system import DATABASE, NAMESPACE, Simulation, database, simulate

KEY = (NAMESPACE, "monday")
JOB = (NAMESPACE, "monday-delete")


async def status(sim: Simulation) -> dict[str, Any] | None:
    """Return what is said of the backup; None: it is gone."""
    try:
        found = await sim.client.get(REDIS_BACKUPS, KEY)
    except NotFound:
        return None
    return found.get("status") or {}


async def taken(sim: Simulation) -> str:
    """Have a backup taken; return its folder in the store."""
    await sim.client.create(REDIS_BACKUPS, backup())

    async def completed() -> bool:
        return ((await status(sim)) or {}).get("phase") == "Completed"

    await sim.until_all(completed, within=120, what="taken")
    found = await status(sim)
    assert found is not None
    return str(found["path"])


async def users(sim: Simulation) -> set[str]:
    """Return the users that the database has passwords of."""
    found = await sim.client.get(SECRETS, (NAMESPACE, users_secret(DATABASE)))
    return {*(found.data or {})}


async def until_gone(sim: Simulation) -> None:
    async def gone() -> bool:
        return await status(sim) is None

    await sim.until_all(gone, within=120, what="gone")


async def until_said(sim: Simulation, *words: str) -> None:
    async def said() -> bool:
        text = ((await status(sim)) or {}).get("message", "")
        return all(word in text for word in words)

    await sim.until_all(said, within=30, what=" ".join(words))


def test_a_backup_that_a_database_begins_with_by_its_place_is_in_use() -> None:
    async def scenario(sim: Simulation) -> None:
        sim.start_operator()
        path = await taken(sim)
        copies = {
            "near": {"storage": {"s3": {"bucket": "other"}}, "path": path},
            "far": {"storage": {"s3": {"bucket": "backups", "secretName": "keys"}}, "path": path},
        }
        for name, begins in copies.items():
            copy = database(paused=True, bootstrap={"fromBackup": begins})
            copy["metadata"] |= {"name": name, "namespace": NAMESPACE}
            await sim.client.create(REDISES, copy)
        await sim.client.delete(REDIS_BACKUPS, KEY)
        await until_said(sim, "a database is being restored from it", "Retain")
        assert "backup" in await users(sim)
        await sim.client.delete(REDISES, (NAMESPACE, "far"))
        await until_gone(sim)

        async def forgotten() -> bool:
            return "backup" not in await users(sim)

        await sim.until_all(forgotten, within=30, what="the user of backups is gone")

    simulate(scenario, snapshot=formed(database()))


def test_a_job_of_somebody_else_with_the_name_of_the_worker_is_named_and_left_alone() -> None:
    async def scenario(sim: Simulation) -> None:
        sim.start_operator()
        container = {"name": "other", "image": "redis-operator:latest", "command": ["true"]}
        foreign = {
            "metadata": {"namespace": JOB[0], "name": JOB[1]},
            "spec": {
                "suspend": True,
                "template": {"spec": {"containers": [container], "restartPolicy": "Never"}},
            },
        }
        uid = (await sim.client.create(JOBS, foreign)).metadata.uid
        await taken(sim)
        await sim.client.delete(REDIS_BACKUPS, KEY)
        await until_said(sim, "Job monday-delete already exists", "Retain")
        before = len(sim.journal.effects)
        await asyncio.sleep(120.0)
        tried = [e for e in sim.journal.effects[before:] if "POST jobs" in f"{e.kind} {e.detail}"]
        assert 1 <= len(tried) <= 5
        assert (await sim.client.get(JOBS, JOB)).metadata.uid == uid
        await sim.client.delete(JOBS, JOB, uid=uid)
        await until_gone(sim)

    simulate(scenario, snapshot=formed(database()))
