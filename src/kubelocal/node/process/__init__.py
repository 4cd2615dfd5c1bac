"""Processes: the keeper that is their parent, mounts, limits, exec.

Nothing is imported here: the keeper is started from this folder and must start fast.
`launch` describes a container's process, `client` talks to the keeper. Called by `pod`; begin with
`launch`.
"""
