"""What kube-controller-manager and kube-scheduler do, for the kinds that are served here.

Each controller is a pure function from a view of the caches to changes; `loop` calls it and carries
them out. May import `apiserver`, not `node`. Called by `control_plane`; begin with `loop`.

Rooms: `workloads`, `scheduling`, and below them `engine`.
"""
