"""The controllers and the scheduler of a cluster, for the kinds that are served here.

Each controller is a pure function from a view of the caches to changes; `loop` calls it and
executes them. May import `apiserver`, not `node`. Called by `control_plane`; begin with `loop`.

Packages: `workloads`, `scheduling`, and below them `engine`.
"""
