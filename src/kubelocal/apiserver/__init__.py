"""A Kubernetes API server in one process: its semantics over a small store, without sockets."""
