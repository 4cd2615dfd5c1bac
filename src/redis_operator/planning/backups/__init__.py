"""What to do about a RedisBackup, a RedisBackupSchedule or a RedisRestore. Pure.

`backup`, `schedules` and `redisrestores` decide about one object of each kind; `restores` decides
whether a backup can become a new database, `retention` which backups stay, `archives` what the
worker of a continuous schedule does.

May import: `api`, `redis.versions`, `backup.task`, `reporting`, `kubecontroller.custom`; no rule of
    a mode.
Called by: `operator.backups`, `operator.metrics` and `operator.world`.
Begin with: `backup`.
"""
