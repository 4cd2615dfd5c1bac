"""Run Redis and Valkey on Kubernetes, or on one machine without it, from one custom resource.

Values are in `api` and `redis`; pure logic in `manifests`, `planning` and `translation`; `backup`
is the worker of backups; `operator`, `install` and `cli` do I/O. `ARCHITECTURE.md` follows one
`kubectl apply` through all of them.

May import: `kubecontroller`, and in `cli` also `kubelocal`.
Called by: people and containers, by the program `redis-operator`; `redis_testing` simulates it.
Begin with: `operator.reconcile` and `planning.plan`.
"""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
