"""Controllers of RedisBackup, RedisBackupSchedule and RedisRestore; databases from a backup.

`wiring` connects all of them to the caches. Decisions are in `planning.backups`; the workers are in
`redis_operator.backup`.

May import: `planning`, `manifests`, `api`, `redis`, `backup`, `metrics` and `kubecontroller`.
Called by: `operator.wiring`, `operator.passes` (facts about a database) and `install.remover`.
Begin with: `backup`.
"""
