"""Backups: their format, how workers take and restore them, and the archive of the stream.

`manifest` and `task` are the values that the operator shares with its workers. All else runs only
in a worker: a pod near the data that has neither rights in the cluster nor a connection to the
operator. Its result is the termination message of its container.

May import: `redis`; neither Kubernetes nor the operator.
Called by: `cli.main`, which runs `main`; `planning`, `manifests` and `operator` use `task`.
Begin with: `task` and `manifest`, then `main`.
"""
