"""The archive of the replication stream of a shard, byte for byte, and restores from it.

`archiver` is the writer: one for each shard, attached to a replica. `catalogue`, `replay` and
`feed` read what it wrote. `records`, `scan`, `follow`, `plan` and `rewrite` are pure.

May import: `redis`, and the other modules of `backup`; neither Kubernetes nor the operator.
Called by: `backup.main`, which runs its tasks, `backup.loader` and `backup.carry`.
Begin with: `records`, what an archive holds, then `archiver`.
"""
