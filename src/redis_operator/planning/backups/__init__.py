"""What to do about a RedisBackup, a RedisBackupSchedule or a RedisRestore. Pure.

Begin with `backup`. Called by `operator.backups`, and by admission for what is refused.
"""
