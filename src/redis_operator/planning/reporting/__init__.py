"""The status of a database: conditions, inventory, losses and events. Pure.

Begin with `status`, which computes all of it from what was observed and decided. Called by a pass
and the controllers in `operator`; it may import `planning` itself.
"""
