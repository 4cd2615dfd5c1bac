"""Rules that modes share: they ask a `Topology`, and never which mode it is.

`roll`, `resize` and `configure` bring a change to the pods, `pods` and `shrink` their number,
`switch` (with drain and spread) the place of primaries, `grow` volumes, `hibernate` the end of all
pods. `label` and `wait` go with every plan.
"""
