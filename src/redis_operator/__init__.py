"""Run Redis and Valkey on Kubernetes, or on one machine without it, from one custom resource."""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
