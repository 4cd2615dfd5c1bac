"""Mode Failover: one primary, its replicas, and sentinels that fail over by themselves.

Begin with `rules`, the table of rules in order. `topology` says which server leads and answers the
questions of shared rules; `election` says which server has the data. `actions` are the steps,
`preconditions` what must hold before each, and `guards` refuse plans that break an invariant.
Called by `planning.modes`; it may import `planning` itself, and no other mode.
"""
