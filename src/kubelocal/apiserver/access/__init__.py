"""Authentication and authorization: certificates, tokens, RBAC.

Called by `server`, `http` and `daemon`; begin with `rbac`.
"""
