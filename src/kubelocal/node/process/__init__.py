"""Processes: the keeper that is their parent, mounts, limits, exec.

Nothing is imported here: the keeper is started from this folder and must start fast.
`launch` describes a container's process, `client` talks to the keeper.

May import: `apiserver.pod_api`, `environment`.
Called by: `pod`, `volumes`, `agent` and `requests`; commands that check a machine for a product.
Begin with: `launch`.
"""
