"""Metrics, one module for each thing that is measured; read when they are scraped, never stored.

Collectors read caches, statuses and the last observation, and ask no server.

May import: `api`, `planning` and `kubecontroller`.
Called by: `operator.wiring`, `operator.observe` and `backups.wiring`.
Begin with: `databases`.
"""
