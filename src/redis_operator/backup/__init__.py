"""Backups: their format, how workers take and restore them, and the archive of the stream.

Begin with `manifest` and `task`, the values that the operator shares with its workers, and `main`.
All else runs only in a worker: a pod near the data that has neither rights in the cluster nor a
connection to the operator. Its result is the termination message of its container. It may import
`redis` and `api` values; called by `operator` (the values) and by the CLI (`main`).
"""
