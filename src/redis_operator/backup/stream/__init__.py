"""The replication stream of a shard, archived byte for byte, and how a server is fed from it.

`records`, `scan`, `follow`, `plan` and `rewrite` are pure. `archiver` is the writer: one for each
shard, attached behind a replica. `catalogue`, `replay` and `feed` read what it wrote.
"""
