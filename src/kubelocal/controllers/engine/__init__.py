"""The base of all controllers: the view of the caches, changes as values, their execution.

`caches` has one informer for each resource, `execute` carries out changes with their preconditions,
`pods` answers what several controllers ask about pods.

May import: `kubecontroller`, `apiserver.kinds`, and no controller.
Called by: `loop`, `workloads`, `scheduling` and the other controllers; `control_plane`.
Begin with: `view`.
"""
