"""Mode Cluster: shards of the 16384 slots, each a primary and its replicas.

`rules` is the table, in order; one module a rule. `situation` and `views` say what follows from
what servers say, `topology` answers what shared rules ask, `settled` why nothing may be changed
now, `election` who may lead. `actions` are the steps, `guards` what no plan may do.
"""
