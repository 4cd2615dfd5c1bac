"""The node agent (the kubelet of this cluster): pods as groups of real processes on one machine.

`agent` watches the pods of its nodes and has a `pod.runner` for each; `images` finds the program of
an image; `api` has its caches and its writes. Packages from the outside in: `pod`, `volumes`,
`process`, `environment`.

May import: `kubecontroller`, and of `apiserver` its values; no controller.
Called by: `control_plane`; the command line of a product passes in images and checks the machine.
Begin with: `agent`.
"""
