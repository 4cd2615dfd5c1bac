"""What the status of a database says: conditions, inventory, losses, events. Pure.

Begin with `status`, which computes all of it from what was observed and decided.
"""
