"""JSON patch, merge patch and strategic merge patch of plain values; pure.

`strategic` merges lists by the keys that the schema of a kind names.

May import: none of the other packages of the API server.
Called by: `verbs` and `admission`.
Begin with: `json_patch`.
"""
