"""Rules that modes share: they ask a `Topology`, and never which mode it is."""
