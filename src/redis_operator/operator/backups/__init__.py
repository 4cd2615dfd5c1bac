"""Controllers of RedisBackup, RedisBackupSchedule and RedisRestore; databases from a backup.

Begin with `backup`; `wiring` connects all of them to the caches. Decisions are in
`planning.backups`; the workers are in `redis_operator.backup`. Called by
`operator.wiring` and, for facts about a database, by a pass.
"""
