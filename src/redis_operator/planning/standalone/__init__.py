"""Mode Standalone: one server. Only its own rules are here; every other rule is shared.

`rules` is the table of rules in order; `topology` answers the questions of shared rules.

May import: `common`, `redis.slots`, and of other modes only the steps in `failover.actions`.
Called by: `planning.modes`.
Begin with: `rules`.
"""
