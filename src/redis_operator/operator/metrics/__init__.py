"""Metrics, one module for each thing that is measured; read when they are scraped, never stored."""
