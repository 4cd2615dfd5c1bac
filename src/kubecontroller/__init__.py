"""A Kubernetes client and a controller runtime, and what tests of controllers need.

`client` talks to an API server, `runtime` keeps caches and runs controllers on it, `testing` is the
test kit. An inner one never imports an outer one; nothing here knows any product.
Begin with `docs/kubecontroller/runtime.md` and `examples/website`.
"""
