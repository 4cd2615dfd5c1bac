"""Metrics, one module for each thing that is measured; read when they are scraped, never stored.

Begin with `databases`. Collectors read caches, statuses and the last observation, and ask no
server. Called by `operator.wiring`; it may import `api`, `planning` and the caches.
"""
