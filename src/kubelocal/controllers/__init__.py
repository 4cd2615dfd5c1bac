"""The controllers and the scheduler of a cluster, for the kinds that are served here.

Each controller is a pure function from a view of the caches to changes; `loop` calls it and
executes them. Packages: `workloads`, `scheduling`, and below them `engine`.

May import: `kubecontroller`, and of `apiserver` its values; not the node agent.
Called by: `control_plane`.
Begin with: `loop`.
"""
