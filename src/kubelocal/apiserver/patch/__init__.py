"""JSON patch, merge patch and strategic merge patch of plain values; pure.

Called by `verbs` and `admission`; begin with `json_patch`.
"""
