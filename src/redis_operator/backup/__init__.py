"""Snapshots outside of the servers: what is kept of them, how they are read, and how given back.

`manifest` and `task` are values that the operator shares with its worker. All else runs in a worker
alone: a pod near the data that has neither rights in the cluster nor a way to the operator. What it
has to say is in the last words of its container.
"""
