"""A Kubernetes cluster in one process, on one machine: API server, controllers, and a node agent.

`control_plane` puts the parts together, `supervisor` keeps their processes alive, `instance` says
which clusters there are on this machine, `distribution` is what a product hands in. May import
`kubecontroller`. Called by a product's command line. Begin with `control_plane`.
"""
