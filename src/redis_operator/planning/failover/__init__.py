"""Mode Failover: one primary, its replicas, and sentinels that fail over by themselves.

`rules` is the table, in order. `topology` says who leads and answers what shared rules ask,
`election` who has the data. `actions` are the steps, `preconditions` what must hold before each,
`guards` what no plan may do.
"""
