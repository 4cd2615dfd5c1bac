"""Rules that modes share: they ask a `Topology`, and never which mode it is.

Begin with `rows`, the rows that modes put into their tables. `roll`, `resize` and `configure` bring
a change to the pods, `pods` and `shrink` change their number, `switch` (with drain and spread) the
place of primaries, `grow` the volumes, and `hibernate` ends all pods. `label` and `wait` are part
of every plan. Called through the tables of the modes; it may import `planning` itself, and no mode.
"""
