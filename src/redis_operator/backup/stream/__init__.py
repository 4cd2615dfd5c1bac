"""The archive of the replication stream of a shard, byte for byte, and restores from it.

Begin with `records` (what an archive holds). `records`, `scan`, `follow`, `plan` and `rewrite` are
pure. `archiver` is the writer: one for each shard, attached to a replica. `catalogue`, `replay` and
`feed` read what it wrote.
"""
