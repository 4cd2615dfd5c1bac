"""Rules that modes share: they ask a `Topology`, and never which mode it is.

`rows` has the rows that modes put into their tables. `roll`, `resize` and `configure` bring a
change to the pods, `pods` and `shrink` change their number, `switch` (with drain and spread) the
place of primaries, `grow` the volumes, and `hibernate` ends all pods. `label` and `wait` are part
of every plan.

May import: `reporting`, `redis.config`, and of a mode only the steps in `failover.actions`.
Called by: the tables of the modes (`cluster.rules`, `failover.rules`, `standalone.rules`) and
    `planning.plan`.
Begin with: `rows`.
"""
