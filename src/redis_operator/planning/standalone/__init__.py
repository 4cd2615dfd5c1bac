"""Mode Standalone: one server. Only its own rules are here; every other rule is shared.

Begin with `rules`, the table of rules in order; `topology` answers the questions of shared rules.
Called by `planning.modes`; it may import `planning` itself, and no other mode.
"""
