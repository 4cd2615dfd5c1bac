"""Custom resources: schemas (structure, validation, formats), versions, and rules in CEL; pure.

Called by `objects`, `lifecycle` and `core`; begin with `schema`.
"""
