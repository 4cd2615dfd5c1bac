"""Local mode: an embedded control plane and a node agent, on one machine, without Kubernetes."""
