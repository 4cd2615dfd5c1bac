"""Mode Failover: one primary, its replicas, and sentinels that fail over by themselves.

`rules` is the table of rules in order. `topology` says which server leads and answers the questions
of shared rules; `election` says which server has the data. `actions` are the steps, `preconditions`
what must hold before each, and `guards` refuse plans that break an invariant.

May import: `common`, `reporting`, `redis.slots`, and no other mode.
Called by: `planning.modes`; `standalone` and `common` use its steps, `operator` carries them out.
Begin with: `rules`.
"""
