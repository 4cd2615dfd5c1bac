"""A new database does not begin with a backup that a verification found damaged."""

from __future__ import annotations

from kubecontroller.client.objects import JOBS
from kubecontroller.client.patches import MergePatch
from redis_operator.operator.world import REDIS_BACKUPS, REDISES
from redis_testing.simulation.backups import backup
from redis_testing.simulation.system import NAMESPACE, Simulation, database, simulate

STATUS = {
    "phase": "Completed",
    "message": "9 bytes of 1 shards are stored",
    "shards": 1,
    "engine": "valkey",
    "version": "8.1.0",
    "rdb": "REDIS0011",
    "path": "ns/db/monday",
    "verified": "False",
    "conditions": [
        {
            "type": "Verified",
            "status": "False",
            "reason": "BackupDamaged",
            "message": "shard-0-1.rdb.zst is damaged",
            "lastTransitionTime": "2026-01-31T12:00:00Z",
        }
    ],
}


def test_a_backup_that_is_known_to_be_damaged_is_named_and_no_worker_reads_it() -> None:
    async def run(simulation: Simulation) -> None:
        made = backup()
        await simulation.client.create(REDIS_BACKUPS, made)
        key = (NAMESPACE, made["metadata"]["name"])
        change = MergePatch({"status": STATUS})
        await simulation.client.patch(REDIS_BACKUPS, key, change, subresource="status")
        simulation.start_operator()
        wanted = database(
            mode="Standalone", shards=1, replicas=0, bootstrap={"fromBackup": {"name": "monday"}}
        )
        await simulation.client.create(REDISES, wanted)
        words = "RedisBackup monday was verified and is damaged: shard-0-1.rdb.zst is damaged"

        async def told() -> bool:
            return words in str((await simulation.redis()).get("status"))

        await simulation.until_all(told, within=60.0, what="the damage is named")
        jobs = await simulation.client.list(JOBS, namespace=NAMESPACE)
        assert [job.metadata.name for job in jobs.items] == []

    simulate(run)
