"""The node agent (the kubelet of this cluster): pods as groups of real processes on one machine.

`agent` watches the pods of its nodes and has a `pod.runner` for each; `images` finds the program of
an image; `api` has its caches and its writes. May import `apiserver`, not `controllers`. Called by
`control_plane`; begin with `agent`.

Packages from the outside in: `pod`, `volumes`, `process`, `environment`.
"""
