"""Mode Cluster: shards of the 16384 slots, each a primary and its replicas.

`rules` is the table of rules in order; each rule has its own module. `situation` and `views`
compute who owns and leads what from the answers of the servers. `topology` answers the questions of
shared rules, `settled` says why no planned change may start, and `election` says which replica may
be promoted. `actions` are the steps, and `guards` refuse plans that break an invariant.

May import: `common`, `reporting`, the pure parts of `redis`, and no other mode.
Called by: `planning.modes`; `operator` carries out its `actions`.
Begin with: `rules`.
"""
