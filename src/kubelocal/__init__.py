"""A Kubernetes cluster in one process, on one machine: API server, controllers, and a node agent.

`control_plane` starts the parts, `supervisor` keeps their processes alive, `instance` has the
clusters of this machine, `distribution` is what a product passes in.

May import: `kubecontroller`.
Called by: the command line of a product.
Begin with: `control_plane`.
"""
