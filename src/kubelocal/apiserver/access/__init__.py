"""Who asks, and what they may do: certificates, tokens, RBAC.

Called by `server`, `http` and `daemon`; begin with `rbac`.
"""
